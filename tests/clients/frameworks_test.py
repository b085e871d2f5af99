#!/usr/bin/python3
"""The client with frameworks and their real packages: frameworks_test.py PROGRAM [CASE...]

PROGRAM is build/release/starling. CASE: words; only cases whose names contain one of them run. Cases for packages that are
not installed are skipped with a line; scripts/frameworks installs them. The last line is "N passed, N failed".
"""
import functools
import importlib
import importlib.util
import logging
import os
import re
import subprocess
import sys
import warnings

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import HANG, require  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(suite.SOURCE, "clients", "python"))
os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", TOKENIZERS_PARALLELISM="false",
                  JAX_PLATFORMS="cpu", TORCH_CPP_LOG_LEVEL="ERROR")
warnings.filterwarnings("ignore")

import starling.peer  # noqa: E402
from stage import python  # noqa: E402
from starling.region import ACCURACY, LOSS  # noqa: E402

TESTS = os.path.dirname(os.path.abspath(suite.__file__))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != TESTS]  # whose datasets/ is no package for transformers

ADAPTERS = {"lightning": "lightning", "transformers": "transformers", "peft": "peft", "jax": "jax"}
GROUPS = {"lightning_cases": ["torch", "lightning"], "transformers_cases": ["torch", "transformers", "accelerate", "peft"],
          "jax_cases": ["jax", "optax", "flax", "equinox"], "optimizer_cases": ["torch"]}


class Place:
    """One case's folder, and what its last peer counted."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.samples = self.steps = self.loss = self.accuracy = self.tensors = None
        os.makedirs(folder)

    def arguments(self, **more):
        return {"listen": "127.0.0.1:0", "program": self.program, "log": self.path("peer.log"), **more}

    def path(self, name):
        return os.path.join(self.folder, name)

    def log(self):
        with open(self.path("peer.log"), encoding="utf-8") as file:
            return file.read()

    def note(self, peer):
        attachment = peer._attachment
        if attachment:
            self.samples, self.steps = attachment.samples, attachment.steps
            self.loss, self.accuracy = attachment.words.real[LOSS], attachment.words.real[ACCURACY]
            self.tensors = [slot.name for slot in peer.tensors.slots]

    def counted(self, samples, steps):
        require((self.samples, self.steps) == (samples, steps),
                f"{self.samples} samples and {self.steps} steps, not {samples} and {steps}")

    def run(self, *words, **environment):
        """The output of this file with --program WORDS in a process of its own."""
        done = subprocess.run([sys.executable, os.path.abspath(__file__), "--program", self.program, self.folder, *words],
                              capture_output=True, text=True, timeout=HANG, env={**os.environ, **environment})
        require(done.returncode == 0, f"code {done.returncode}: {done.stdout[-600:]}{done.stderr[-900:]}")
        return done.stdout


def noting(place):
    """Peers tell `place` what they counted when they close."""
    close = starling.peer.Peer.close

    def close_and_note(peer):
        place.note(peer)
        close(peer)
    starling.peer.Peer.close = close_and_note
    return lambda: setattr(starling.peer.Peer, "close", close)


def a_missing_package_is_one_sentence(_place):
    for adapter, package in ADAPTERS.items():
        blocked = [package, "pytorch_lightning"] if adapter == "lightning" else [package]
        done = python("import sys", f"sys.modules.update(dict.fromkeys({blocked}))", f"import starling.{adapter}")
        last = done.stderr.strip().splitlines()[-1]
        require(done.returncode == 1 and last.startswith(f"ImportError: starling.{adapter} needs the package {package}; "
                                                         "install it with: pip install"), done.stderr)
        require("During handling" not in done.stderr, f"one exception: {done.stderr}")


def importing_the_client_imports_no_framework(_place):
    done = python("import starling, sys", f"print([name for name in {list(ADAPTERS)} + ['torch'] if name in sys.modules])")
    require(done.stdout == "[]\n", done.stdout + done.stderr)


# Examples with their packages, and what their last line has to match.
EXAMPLES = {"gpt2_lora.py": (["torch", "transformers", "peft"], r"loss [12]\.\d+"),
            "bert_trainer.py": (["torch", "transformers", "accelerate"], r"loss (2\.\d+|3\.[012]\d+)"),
            "vit_lightning.py": (["torch", "lightning"], r"accuracy (6[5-9]|[789]\d|100)\.\d%"),
            "cnn_flax.py": (["jax", "flax", "optax"], r"accuracy ([789]\d|100)\.\d%")}


def lacking(packages):
    return [package for package in packages if importlib.util.find_spec(package) is None]


def example(place, name):
    """Runs it as a peer, and as the plain program that it is without the lines for the peer."""
    path = os.path.join(suite.SOURCE, "clients", "examples", name)
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    plain = [line for line in lines if not line.endswith("# starling")]
    require(0 < len(lines) - len(plain) <= 3, f"{len(lines) - len(plain)} lines for the peer")
    missing = lacking(EXAMPLES[name][0])
    if missing:
        print(f"   skipped: {name} does not run: not installed: {', '.join(missing)}")
        return
    with open(place.path(name), "w", encoding="utf-8") as file:
        file.write("\n".join(plain))
    for file in path, place.path(name):
        environment = {**os.environ, "PYTHONPATH": os.path.join(suite.SOURCE, "clients", "python"), "PYTHONWARNINGS": "ignore",
                       "STARLING_LISTEN": "127.0.0.1:0", "STARLING_PROGRAM": place.program}
        done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=2 * HANG,
                              cwd=place.folder, env=environment)
        last = (done.stdout.strip() or "\n").splitlines()[-1]
        require(done.returncode == 0 and re.fullmatch(EXAMPLES[name][1], last), f"{last} {done.stderr[-900:]}")
        require(("training begins" in done.stderr) == (file == path), f"{file}: {done.stderr[-900:]}")


class Frameworks(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.count = 0
        self.program, self.only = program, sys.argv[2:]

    def run(self):
        cases = [a_missing_package_is_one_sentence, importing_the_client_imports_no_framework]
        for group, packages in GROUPS.items():
            missing = lacking(packages)
            if missing:
                print(f"   skipped: {group.replace('_', ' ')}: not installed: {', '.join(missing)}")
            else:
                cases += importlib.import_module(group).CASES
        for name in EXAMPLES:
            case = functools.partial(example, name=name)
            case.__name__ = f"example {name} with and without a peer"
            cases.append(case)
        for case in cases:
            name = case.__name__.replace("_", " ")
            if not self.only or any(words in name for words in self.only):
                self.count += 1
                self.case(name, lambda case=case, count=self.count: self.one(case, count))

    def one(self, case, count):
        place = Place(self.program, os.path.join(self.folder, str(count)))
        restore = noting(place)
        try:
            case(place)
        finally:
            restore()


def program(binary, folder, group, name):
    """A function of a group of cases in a process of its own, such as a rank."""
    place = Place.__new__(Place)
    place.program, place.folder, place.samples = binary, folder, None
    noting(place)
    getattr(importlib.import_module(group), name)(place)


if __name__ == "__main__":
    for noisy in "lightning.pytorch", "lightning.fabric", "starling":
        logging.getLogger(noisy).setLevel(logging.ERROR)
    if sys.argv[1:2] == ["--program"]:
        program(*sys.argv[2:])
    else:
        sys.exit(suite.main(Frameworks))
