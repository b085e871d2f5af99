#!/usr/bin/python3
"""Commands that cannot write: writes_test.py PROGRAM [COMMAND...]

PROGRAM is build/release/starling. Every command that writes files or prints results runs where it cannot: on a full file
system, one without inodes, one that is read-only, with a limit of the size of files, over a quota (quota.c) that a call
reports, and with a full standard output. None may end by a signal, end with exit code 0 although a result is lost, say
nothing, or leave a file that it does not leave otherwise. Needs permission to mount file systems; without it only the limits are tested. The last line is
"N passed, N failed".
"""
import os
import re
import resource
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import require  # noqa: E402

RUN = ["--model", "softmax", "--data", "data", "--epochs", "2", "--batch-size", "4"]
SWEEP = 'peers = 2\nlooks = 0\nmodel.name = "softmax"\ndata.source = "data"\ntraining.steps = 3\n[sweep]\nseed = [1, 2]\n'
# Words, and what they leave in the folder `out` if all is well. A name that ends in '/' is a folder.
COMMANDS = {
    "simulate": (["simulate", "--peers", "2", *RUN, "--looks", "2", "--out", "out/run"],
                 ["run/summary.json", "run/model.safetensors", "run/metrics.jsonl", "run/report.html"]),
    "swarm": (["swarm", "--peers", "2", *RUN, "--out", "out/run"],
              ["run/summary.json", "run/model.safetensors", "run/metrics.jsonl", "run/report.html"]),
    "sweep": (["sweep", "sweep.toml", "--out", "out/sweep"], ["sweep/results.csv", "sweep/results.json"]),
    "peer --export": (["peer", "--listen", "none", *RUN, "--export", "out/model.safetensors"], ["model.safetensors"]),
    "peer --checkpoints": (["peer", "--listen", "none", *RUN, "--export", "none", "--name", "p", "--checkpoints", "out/kept",
                            "--checkpoint-every", "1 steps"], []),
    "peer --state": (["peer", "--listen", "none", *RUN, "--export", "none", "--state", "out/state"], []),
    "peer --tensorboard": (["peer", "--listen", "none", *RUN, "--export", "none", "--name", "p", "--tensorboard", "out/events"],
                           []),
    "peer --out": (["peer", "--listen", "none", *RUN, "--export", "none", "--name", "p", "--out", "out/end"],
                   ["end/p.safetensors"]),
    "swarm, all-reduce": (["swarm", "--peers", "2", *RUN, "--rule", "all-reduce", "--out", "out/run"],
                          ["run/summary.json", "run/model.safetensors", "run/metrics.jsonl", "run/report.html"]),
    "report tables": (["report", "ready/run", "--out", "out/page.html", "--csv", "out/table.csv", "--curves", "out/curves.csv"],
                      ["page.html", "table.csv", "curves.csv"]),
    "hunt --trace": (["hunt", "--seeds", "1..2", "--trace", "out/story.txt"], ["story.txt"]),
    "plan --chart": (["plan", "mlp", "--data", "data", "--devices", "2", "--chart", "out/chart.svg"],
                     ["chart.svg"]),
    "plot png": (["plot", "ready/run", "--out", "out/curves.png"], ["curves.png"]),
    "report": (["report", "ready/run", "--out", "out/page.html"], ["page.html"]),
    "plot": (["plot", "ready/run", "--out", "out/curves.svg"], ["curves.svg"]),
    "plot pdf": (["plot", "ready/run", "--out", "out/curves.pdf"], ["curves.pdf"]),
    "export": (["export", "ready/run/model.safetensors", "--out", "out/model.safetensors"], ["model.safetensors"]),
    "export, ONNX": (["export", "ready/run/model.safetensors", "--format", "onnx", "--out", "out/model.onnx"], ["model.onnx"]),
    "export, transformers": (["export", "ready/text/model.safetensors", "--format", "transformers", "--out", "out/gpt"],
                             ["gpt/config.json", "gpt/model.safetensors", "gpt/tokenizer.json"]),
    "tokenizer train": (["tokenizer", "train", "book.txt", "--size", "270", "--out", "out/tokenizer.txt"], ["tokenizer.txt"]),
    "key new": (["key", "new", "out/swarm.key"], ["swarm.key"]),
    "key rotate": (["key", "rotate", "out/rotated.key"], []),
    "topology show": (["topology", "show", "ring", "--peers", "40", "--format", "svg", "--out", "out/ring.svg"], ["ring.svg"]),
}
# Commands whose result is what they print.
PRINTING = {
    "evaluate": ["evaluate", "ready/run/model.safetensors", "--data", "data"],
    "evaluate --json": ["evaluate", "ready/run/model.safetensors", "--data", "data", "--json"],
    "predict": ["predict", "ready/run/model.safetensors", "--data", "data"],
    "predict, lines": ["predict", "ready/run/model.safetensors", "--data", "data", "--format", "jsonl", "--probabilities"],
    "generate": ["generate", "ready/text/model.safetensors", "--tokens", "20"],
    "simulate --json": ["simulate", "--peers", "2", *RUN, "--looks", "0", "--out", "ready/other", "--force", "--json"],
    "swarm": ["swarm", "--peers", "2", *RUN, "--out", "ready/real", "--force"],
    "data info": ["data", "info", "data"], "data list": ["data", "list"], "model list": ["model", "list"],
    "model show": ["model", "show", "lenet"], "model show FILE": ["model", "show", "ready/run/model.safetensors"],
    "plan": ["plan", "softmax", "--data", "data", "--devices", "1"], "rule list": ["rule", "list"],
    "rule show": ["rule", "show", "choco"], "topology list": ["topology", "list"],
    "topology show": ["topology", "show", "ring", "--peers", "8"],
    "topology compare": ["topology", "compare", "ring", "torus", "--peers", "16"],
    "tokenizer show": ["tokenizer", "show", "tokenizer.txt"], "completion": ["completion", "bash"], "help": ["help"],
    "version": ["--version"], "doctor": ["doctor"], "tables": ["tables"], "print-config": ["peer", "--print-config"],
    "hunt": ["hunt", "--seeds", "1..2"],
}
LIMITS = (0, 700, 5000, 60_000)  # bytes of the largest file
QUOTAS = (("write", 0), ("write", 3000), ("write", 50_000), ("open", 0), ("fsync", 0), ("close", 0), ("rename", 0))
SIZES = (4096, 16_384, 65_536, 262_144)  # bytes of a full file system


class Writes(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        self.reference, self.lengths = {}, {}
        os.mkdir(self.path("data"))
        for part, count in (("train", 60), ("test", 20)):
            with open(self.path(f"data/{part}.csv"), "w", encoding="utf-8") as file:
                file.write("u,v,kind\n" + "".join(f"{k % 7}.5,{k % 11},{'ash' if k % 2 else 'oak'}\n" for k in range(count)))
        for name, text in (("sweep.toml", SWEEP), ("book.txt", "abcd efgh abab cdcd hghg fefe " * 300),
                           ("gpt.toml", 'type = "gpt"\nlayers = 1\nheads = 2\nfeatures = 8\ncontext = 8\n')):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        self.done("simulate", "--peers", "2", *RUN, "--looks", "2", "--out", "ready/run")
        self.done("simulate", "--peers", "1", "--model", "gpt.toml", "--data", "book.txt", "--steps", "2", "--batch-size", "4",
                  "--looks", "0", "--out", "ready/text")
        self.done("tokenizer", "train", "book.txt", "--size", "260", "--out", "tokenizer.txt")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, words, out=subprocess.PIPE, limit=None, quota=None):
        def lower():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.run([self.program, *words], cwd=self.folder, stdout=out, stderr=subprocess.PIPE, text=True,
                              timeout=suite.HANG, preexec_fn=lower, check=False, env={**os.environ, **(quota or {})})

    def done(self, *words):
        finished = self.start(words)
        require(finished.returncode == 0, f"{words}: {finished.returncode}\n{finished.stderr}")

    def left(self):
        """The files below `out`, with their lengths. Numbers in names are alike."""
        found = {}
        for folder, _, names in os.walk(self.path("out")):
            for name in names:
                path = os.path.join(folder, name)
                found[os.path.relpath(path, self.path("out"))] = os.path.getsize(path)
        return found

    def prepare(self, name):
        if name == "key rotate":
            self.done("key", "new", "out/rotated.key")

    def kinds(self, files):
        return {re.sub(r"\d+", "0", name) for name in files}

    def judge(self, name, words, results, finished):
        shown = f"{' '.join(words)}: {finished.returncode}\n{finished.stderr}"
        require(0 <= finished.returncode < 3 and "terminate" not in finished.stderr, shown)
        left = self.left()
        strange = self.kinds(left) - self.kinds(self.reference[name])
        require(not strange, f"left behind: {sorted(strange)} after {shown}")
        if finished.returncode != 0:
            require(finished.stderr.strip(), f"no word: {shown}")
            return
        for result in results:
            timed = words[0] == "swarm" and result.endswith(("metrics.jsonl", "report.html"))  # how often it was measured
            share = 0 if timed else 0.8
            require(result in left and left[result] >= share * self.reference[name][result], f"{result} is lost: {shown}")
        lost = self.kinds(self.reference[name]) - self.kinds(left)
        require(not lost or finished.stderr.strip(), f"{lost} is lost without a word: {shown}")

    def learn(self, name, words):
        """What the command leaves where it can write."""
        os.mkdir(self.path("out"))
        self.prepare(name)
        self.done(*words)
        self.reference[name] = self.left()
        shutil.rmtree(self.path("out"))

    def limited(self, name, words, results, limit):
        os.mkdir(self.path("out"))
        try:
            self.prepare(name)
            self.judge(name, words, results, self.start(words, limit=limit))
        finally:
            shutil.rmtree(self.path("out"))

    def build_quota(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quota.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.path("quota.so"), source, "-ldl"], check=True)

    def over_quota(self, name, words, results, call, limit):
        os.mkdir(self.path("out"))
        try:
            self.prepare(name)
            quota = {"LD_PRELOAD": self.path("quota.so"), "QUOTA_FOLDER": self.path("out"), "QUOTA_CALL": call,
                     "QUOTA_BYTES": str(limit)}
            self.judge(name, words, results, self.start(words, quota=quota))
        finally:
            shutil.rmtree(self.path("out"))

    def mounted(self, name, words, results, options, later=None):
        os.mkdir(self.path("out"))
        try:
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "starling-test", self.path("out")], check=True)
            try:
                if name == "key rotate" and "nr_inodes=1" in options:
                    return
                self.prepare(name)
                if later:
                    subprocess.run(["mount", "-o", later, self.path("out")], check=True)
                self.judge(name, words, results, self.start(words))
            finally:
                subprocess.run(["umount", self.path("out")], check=True)
        finally:
            os.rmdir(self.path("out"))

    def printed(self, words, out, limit=None):
        finished = self.start(words, out, limit)
        shown = f"{' '.join(words)}: {finished.returncode}\n{finished.stderr}"
        require(0 < finished.returncode < 3 and finished.stderr.strip() and "terminate" not in finished.stderr, shown)

    def print_to_limit(self, words, limit):
        with open(self.path("printed"), "w", encoding="utf-8") as file:
            self.printed(words, file, limit)
        os.remove(self.path("printed"))

    def print_to_full(self, words):
        with open("/dev/full", "w", encoding="utf-8") as file:
            self.printed(words, file)

    def with_mask(self, name, words, mask):
        """All files have the permissions that the umask leaves, or those of the file that they replace."""
        replaced = COMMANDS[name][1][0]
        for kept in (None, 0o640):
            if kept and "/" in replaced:
                return
            os.mkdir(self.path("out"))
            try:
                if kept:
                    with open(self.path(f"out/{replaced}"), "w", encoding="utf-8"):
                        os.chmod(self.path(f"out/{replaced}"), kept)
                finished = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True,
                                          timeout=suite.HANG, umask=mask, check=False)
                require(finished.returncode == 0, finished.stderr)
                for file in self.left():
                    mode = os.stat(self.path(f"out/{file}")).st_mode & 0o777
                    wanted = kept if kept and file == replaced else 0o666 & ~mask
                    require(mode == wanted, f"{file} has mode {mode:o}, not {wanted:o}")
            finally:
                shutil.rmtree(self.path("out"))

    def can_mount(self):
        os.mkdir(self.path("out"))
        mounted = subprocess.run(["mount", "-t", "tmpfs", "starling-test", self.path("out")], check=False, capture_output=True)
        if mounted.returncode == 0:
            subprocess.run(["umount", self.path("out")], check=True)
        os.rmdir(self.path("out"))
        return mounted.returncode == 0

    def run(self):
        chosen = sys.argv[2:]
        mounts = self.can_mount()
        if not mounts:
            print("   skipped: file systems cannot be mounted here")
        self.build_quota()
        for name, (words, results) in COMMANDS.items():
            if chosen and name not in chosen:
                continue
            self.learn(name, words)
            for limit in LIMITS:
                self.case(f"{name}, files of {limit} bytes", lambda: self.limited(name, words, results, limit))
            for call, limit in QUOTAS:
                self.case(f"{name}, a quota of {limit} bytes that {call} reports",
                          lambda: self.over_quota(name, words, results, call, limit))
            for size in SIZES if mounts else ():
                self.case(f"{name}, a full file system of {size} bytes",
                          lambda: self.mounted(name, words, results, f"size={size}"))
            if mounts:
                self.case(f"{name}, no inodes", lambda: self.mounted(name, words, results, "nr_inodes=1"))
                self.case(f"{name}, few inodes", lambda: self.mounted(name, words, results, "nr_inodes=4"))
                self.case(f"{name}, read-only",
                          lambda: self.mounted(name, words, results, "size=1m", "remount,ro"))
        for name in ("simulate", "swarm", "export", "plot", "tokenizer train", "report"):
            for mask in (0o022, 0o077, 0o002):
                if not chosen or name in chosen:
                    self.case(f"{name}, umask {mask:03o}", lambda: self.with_mask(name, COMMANDS[name][0], mask))
        for name, words in PRINTING.items():
            if chosen and name not in chosen:
                continue
            self.case(f"{name}, a full output", lambda: self.print_to_full(words))
            self.case(f"{name}, an output of 0 bytes", lambda: self.print_to_limit(words, 0))


APART = "TEST_MOUNTS_APART"
if APART not in os.environ and subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0:
    os.environ[APART] = "yes"
    os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
sys.exit(suite.main(Writes, suite.memory()))
