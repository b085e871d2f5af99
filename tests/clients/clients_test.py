#!/usr/bin/python3
"""The clients of trainers against a stand-in for the peer (daemon.py): clients_test.py PROGRAM [CASE...]

PROGRAM is build/release/starling. CASE: words; only cases whose names contain one of them run. Cases for libraries or
compilers that are not installed are skipped with a line. The last line is "N passed, N failed".
"""
import os
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from stage import Stage  # noqa: E402
import array_cases  # noqa: E402
import c_cases  # noqa: E402
import checkpoint_cases  # noqa: E402
import core_cases  # noqa: E402
import life_cases  # noqa: E402
import model_cases  # noqa: E402
import package_cases  # noqa: E402
import state_cases  # noqa: E402
import swarm_cases  # noqa: E402
import torch_cases  # noqa: E402

GROUPS = [core_cases, life_cases, swarm_cases, checkpoint_cases, array_cases, torch_cases, model_cases, state_cases,
          c_cases, package_cases]


class Clients(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.count = 0
        self.program, self.only = program, sys.argv[2:]

    def run(self):
        for group in GROUPS:
            for case in group.CASES:
                name = case.__name__.replace("_", " ")
                if not self.only or any(words in name for words in self.only):
                    self.one(name, case)

    def one(self, name, work):
        self.count += 1

        def staged():
            stage = Stage(self.program, os.path.join(self.folder, str(self.count)))
            try:
                work(stage)
            finally:
                stage.close()
        self.case(name, staged)


if __name__ == "__main__":
    sys.exit(suite.main(Clients))
