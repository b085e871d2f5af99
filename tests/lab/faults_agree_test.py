#!/usr/bin/python3
"""Faults in virtual time and among processes: faults_agree_test.py PROGRAM [--count N] [--seed N]

PROGRAM is build/release/starling. Draws N files of faults (default 4): crashes, departures, returns, joins, pauses, slow
steps and slow links, some at the time 0, some after the end, some at one instant. `simulate` and `swarm` must agree who is
there at the end, and how many steps each peer has made, within 5 % of what an undisturbed peer makes. Steps of processes
are relative to those of the fastest one, and a peer that starts again may lack the time that the swarm's processes needed
to start. A busy machine may delay processes: a file is tried three times. The seed follows from the commit. The last line is "N passed, N failed".
"""
import json
import os
import random
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import require, seed_of_commit  # noqa: E402

PEERS = 4
SECONDS = 6
STEPS = SECONDS * 20  # of an undisturbed peer: 50 ms each
TRIES = 3
OVERLAP = """[[fault]]
peer = 1
pause = true
from = "1s"
to = "3s"
[[fault]]
peer = 1
pause = true
from = "1.5s"
to = "2s"
"""
RUN = ["--model", "softmax", "--batch-size", "4", "--pace", "50ms", "--every", "4 steps", "--looks", "0"]


def number(flag, default):
    return int(sys.argv[sys.argv.index(flag) + 1]) if flag in sys.argv else default


class Draw:
    """The lines of a file of faults. Nothing happens in the last second, when a delayed process would decide."""

    def __init__(self, random_numbers):
        self.random = random_numbers
        self.joined = set()
        self.starts = [0] * PEERS  # of processes, by peer, without the first one at the time 0

    def moment(self):
        """Of a fault: at the beginning, after the end, or between."""
        kind = self.random.random()
        if kind < 0.2:
            return 0
        return round(SECONDS + 2 if kind < 0.3 else self.random.uniform(1, SECONDS - 2), 2)

    def fault(self, peer):
        kind = self.random.choice(["crash", "leave", "join", "pause", "pauses", "slow", "link"])
        begin = self.moment()
        if kind == "join" and (begin == 0 or begin > SECONDS or peer in self.joined):
            kind = "slow"
        lines = ["[[fault]]", f"peer = {peer}"]
        if kind in ("crash", "leave"):
            begin = begin if peer > 0 or begin > 0 else 1.5  # somebody must have the parameters
            lines += [f"{kind} = true", f'from = "{begin}s"']
            if self.random.random() < 0.5 and begin < SECONDS:
                self.starts[peer] += 1
                lines.append(f'back_after = "{round(self.random.uniform(0.3, 1), 2)}s"')
        elif kind == "join":
            if peer == 0:
                return []
            self.joined.add(peer)
            self.starts[peer] += 1
            lines += ["join = true", f'from = "{begin}s"']
        elif kind == "pause":
            lines += ["pause = true", f'from = "{begin}s"', f'to = "{round(begin + self.random.uniform(0.3, 1), 2)}s"']
        elif kind == "pauses":
            lines += ["pause = true", 'every = "1s"', f'length = "{round(self.random.uniform(0.1, 0.4), 2)}s"']
        elif kind == "slow":
            lines += [f"slow = {self.random.choice([1.5, 2, 4])}", f'from = "{begin}s"']
        else:
            lines += [f'link = {{ latency = "{self.random.choice([1, 10, 40])}ms" }}', f'from = "{begin}s"']
        return lines

    def file(self):
        lines = []
        for _ in range(self.random.randint(1, 3)):
            lines += self.fault(self.random.randrange(PEERS))
        return "\n".join(lines) + "\n"


class Agreement(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program

    def result(self, command, path, seed):
        out = os.path.join(self.folder, command)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("STARLING_")}
        done = subprocess.run([self.program, command, path, "--peers", str(PEERS), "--seconds", str(SECONDS), *RUN, "--seed",
                               str(seed), "--out", out, "--force"], capture_output=True, text=True, env=environment,
                              timeout=suite.HANG)
        require(done.returncode == 0, f"{command}: {done.stderr}")
        with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
            summary = json.load(file)
        peers = summary["per_peer"]
        return [peer["state"] for peer in peers], [peer["steps"] for peer in peers], summary["start_seconds"], done.stderr

    def agree(self, path, seed, starts):
        virtual, expected, _, told = self.result("simulate", path, seed)
        for _ in range(TRIES):
            real, steps, start, told_too = self.result("swarm", path, seed)
            rate = max(steps) / max(expected)
            allowed = [0.05 * STEPS + n * start * STEPS / SECONDS for n in starts]
            if virtual == real and all(abs(a - b / rate) <= most for a, b, most in zip(expected, steps, allowed)):
                break
        else:
            require(False, f"simulate {virtual} {expected}, swarm {real} {steps}, started in {start} s")
        late = "would have begun later"
        require((late in told) == (late in told_too), f"only one warns of late faults: {told!r}, {told_too!r}")

    def run(self):
        seed = number("--seed", seed_of_commit())
        print(f"--seed {seed}")
        path = os.path.join(self.folder, "overlap.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(OVERLAP)
        self.case("overlapping pauses end with the last one", lambda: self.agree(path, 1, [0] * PEERS))
        for i in range(number("--count", 4)):
            draw = Draw(random.Random(seed * 1000 + i))
            text = draw.file()
            path = os.path.join(self.folder, f"{i}.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.case(f"file {i}: " + "; ".join(text.split("[[fault]]\n")[1:]).replace("\n", " "),
                      lambda path=path, i=i, starts=draw.starts: self.agree(path, i + 1, starts))


if __name__ == "__main__":
    sys.exit(suite.main(Agreement))
