#!/usr/bin/python3
"""Outputs that would replace an input: inputs_test.py PROGRAM [COMMAND...]

PROGRAM is build/release/starling. Every option that writes a file is given each file that the same command reads: by the
same path, by another path, through a symbolic link and as a hard link. The command must refuse in one sentence that names
the file, and leave it as it is. The last line is "N passed, N failed".
"""
import json
import os
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import require  # noqa: E402

RUN = ["--epochs", "1", "--batch-size", "4"]
PEER = ["peer", "--listen", "none", "--name", "p", *RUN]
TABLE, TEXT = ["--model", "softmax", "--data", "data"], ["--model", "gpt.toml", "--data", "book.txt:tokens=tokenizer.txt"]
MODEL, GPT = "ready/run/model.safetensors", "ready/text/model.safetensors"
OF_RUN = ["ready/run/summary.json", "ready/run/metrics.jsonl", "ready/run/experiment.toml", "ready/run/timeline.jsonl"]
DATA = ["data/train.csv", "data/test.csv"]
# Words, in which OUT is the output, and the files that the command reads. A second list: OUT ends so.
COMMANDS = {
    "peer, a folder": ([*PEER, *TABLE, "--export", "OUT"], DATA),
    "peer, a file": ([*PEER, "--model", "softmax", "--data", "single.csv", "--export", "OUT"], ["single.csv"]),
    "peer, own data": ([*PEER, *TABLE, "--own-data", "single.csv", "--export", "OUT"], ["single.csv"]),
    "peer, a text": ([*PEER, *TEXT, "--export", "OUT"], ["book.txt", "tokenizer.txt", "gpt.toml"]),
    "peer, --init": ([*PEER, *TABLE, "--init", MODEL, "--export", "OUT"], [MODEL]),
    "peer, --resume": (["peer", "--listen", "none", "--resume", "ready/kept/p.15.safetensors", "--data", "data", "--epochs", "2",
                        "--export", "OUT"], ["ready/kept/p.15.safetensors"]),
    "peer, --resume of a folder": (["peer", "--listen", "none", "--resume", "ready/kept", "--data", "data", "--epochs", "2",
                                    "--export", "OUT"], ["ready/kept/p.15.safetensors"]),
    "peer, --config": (["peer", "--listen", "none", "--config", "peer.toml", "--export", "OUT"], ["peer.toml", *DATA]),
    "peer, --topology": ([*PEER, *TABLE, "--topology", "file:graph.txt", "--export", "OUT"], ["graph.txt"]),
    "peer, --key": (["peer", "--listen", "127.0.0.1:0", *RUN, *TABLE, "--key", "swarm.key", "--export", "OUT"], ["swarm.key"]),
    "peer, --allow": (["peer", "--listen", "127.0.0.1:0", *RUN, *TABLE, "--allow", "allowed.txt", "--export", "OUT"],
                      ["allowed.txt"]),
    "export": (["export", MODEL, "--out", "OUT"], [MODEL]),
    "export of a folder": (["export", "ready/kept", "--out", "OUT"], ["ready/kept/p.15.safetensors"]),
    "export, names": (["export", GPT, "--names", "nanogpt", "--out", "OUT"], [GPT]),
    "export, ONNX": (["export", MODEL, "--format", "onnx", "--out", "OUT"], [MODEL]),
    "export, ONNX with data": (["export", "bare.safetensors", "--format", "onnx", "--model", "softmax", "--data", "data", "--out",
                                "OUT"], ["bare.safetensors", *DATA]),
    "tokenizer train": (["tokenizer", "train", "book.txt", "--size", "260", "--out", "OUT"], ["book.txt"]),
    "tokenizer train, a folder": (["tokenizer", "train", "books", "--size", "260", "--out", "OUT"], ["books/a.txt", "books/b.txt"]),
    "report --out": (["report", "ready/run", "--out", "OUT"], OF_RUN),
    "report --csv": (["report", "ready/run", "--out", "page.html", "--csv", "OUT"], OF_RUN),
    "report --curves": (["report", "ready/run", "--out", "page.html", "--curves", "OUT"], OF_RUN),
    "report of a sweep": (["report", "ready/sweep", "--out", "OUT"], ["ready/sweep/seed=1/summary.json"]),
    "plot": (["plot", "ready/run", "--out", "OUT.svg"], OF_RUN[:3]),
    "plot, a topology": (["plot", "--topology", "file:graph.txt", "--out", "OUT.pdf"], ["graph.txt"]),
    "plan, a network": (["plan", "net.toml", "--data", "data", "--devices", "2", "--chart", "OUT.svg"], ["net.toml", *DATA]),
    "plan, a profile": (["plan", "--profile", "profile.txt", "--devices", "2", "--chart", "OUT.svg"], ["profile.txt"]),
    "topology show": (["topology", "show", "file:graph.txt", "--format", "svg", "--out", "OUT"], ["graph.txt"]),
    "topology show, a network": (["topology", "show", "ring", "--peers", "4", "--model", "net.toml", "--out", "OUT"], ["net.toml"]),
    "topology compare": (["topology", "compare", "file:graph.txt", "--peers", "4", "--measure", "--seeds", "2", "--out", "OUT"],
                         ["graph.txt"]),
}
# Runs that write files of fixed names into a folder, which are here links to what they read.
FOLDERS = {
    **{f"{command}, {name}": ([command, "--peers", "2", *RUN, *TABLE, "--force", "--out", "out"], name, "data/train.csv")
       for command in ("simulate", "swarm") for name in ("model.safetensors", "experiment.toml")},
    "swarm, a log": (["swarm", "--peers", "2", *RUN, *TABLE, "--force", "--out", "out"], "p1.log", "data/train.csv"),
    "simulate, --init": (["simulate", "--peers", "2", *RUN, *TABLE, "--init", MODEL, "--force", "--out", "out"],
                         "model.safetensors", MODEL),
    "simulate, an experiment": (["simulate", "run.toml", "--force", "--out", "out"], "experiment.toml", "run.toml"),
    "peer --out": ([*PEER, *TABLE, "--init", MODEL, "--out", "out"], "p.safetensors", MODEL),
    "export, transformers": (["export", GPT, "--format", "transformers", "--force", "--out", "out"], "model.safetensors", GPT),
    "export, a configuration": (["export", GPT, "--format", "transformers", "--force", "--out", "out"], "config.json", GPT),
}
ALIASES = ("the same path", "another path", "a symbolic link", "a hard link")


def content(path):
    with open(path, "rb") as file:
        return file.read()


def without_metadata(model):
    """A safetensors file as another program writes it."""
    length, = struct.unpack("<Q", model[:8])
    header = json.loads(model[8:8 + length])
    del header["__metadata__"]
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + model[8 + length:]


class Inputs(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        for name in ("data", "books", "sub"):
            os.mkdir(self.path(name))
        rows = "u,v,kind\n" + "".join(f"{k % 7}.5,{k % 11},{'ash' if k % 2 else 'oak'}\n" for k in range(60))
        text = "abcd efgh abab cdcd hghg fefe " * 300
        run = 'peers = 2\nlooks = 0\nmodel.name = "softmax"\ndata.source = "data"\ntraining.steps = 3\n'
        for name, what in {
                "data/train.csv": rows, "data/test.csv": rows, "single.csv": rows, "book.txt": text, "books/a.txt": text,
                "books/b.txt": text, "graph.txt": "0 1\n1 2\n2 3\n3 0\n", "run.toml": run,
                "peer.toml": run.replace("peers = 2\nlooks = 0\n", ""), "sweep.toml": run + "[sweep]\nseed = [1, 2]\n",
                "net.toml": 'layers = [{ type = "linear", features = 4 }, "relu", "linear"]\n',
                "gpt.toml": 'type = "gpt"\nlayers = 1\nheads = 2\nfeatures = 8\ncontext = 8\n',
                "allowed.txt": "0123456789abcdef\n", "profile.txt": PROFILE}.items():
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(what)
        self.done("tokenizer", "train", "book.txt", "--size", "260", "--out", "tokenizer.txt")
        self.done("simulate", "--peers", "2", *RUN, *TABLE, "--looks", "2", "--out", "ready/run")
        self.done("simulate", "--peers", "1", *RUN, *TEXT, "--looks", "0", "--out", "ready/text")
        self.done("sweep", "sweep.toml", "--out", "ready/sweep")
        self.done(*PEER, *TABLE, "--checkpoints", "ready/kept", "--export", "none")
        with open(self.path("bare.safetensors"), "wb") as file:
            file.write(without_metadata(content(self.path(MODEL))))
        self.done("key", "new", "swarm.key")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, words):
        return subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True, timeout=suite.HANG,
                              check=False)

    def done(self, *words):
        finished = self.start(words)
        require(finished.returncode == 0, f"{words}: {finished.returncode}\n{finished.stderr}")

    def alias(self, alias, source, ending):
        """Another name of the file, with this ending; None if there is none."""
        if alias == "the same path":
            return None if ending else source
        if alias == "another path":
            return None if ending else os.path.join("sub", "..", ".", source)
        name = os.path.join("sub", "other" + ending)
        if os.path.lexists(self.path(name)):
            os.remove(self.path(name))
        if alias == "a symbolic link":
            os.symlink(self.path(source), self.path(name))
        else:
            os.link(self.path(source), self.path(name))
        return name

    def refused(self, words, source, said):
        before, identity = content(self.path(source)), os.stat(self.path(source)).st_ino
        finished = self.start(words)
        shown = f"{' '.join(words)}: {finished.returncode}\n{finished.stderr}"
        kept = content(self.path(source)) == before and os.stat(self.path(source)).st_ino == identity
        if not kept:  # for the other cases
            with open(self.path(source), "wb") as file:
                file.write(before)
        require(kept, f"replaced: {shown}")
        require(finished.returncode in (1, 2), shown)
        require(any(said in line and "which is read" in line for line in finished.stderr.splitlines()), shown)

    def replaces(self, words, source, alias):
        at = next(i for i, word in enumerate(words) if word.startswith("OUT"))
        ending = words[at][len("OUT"):]
        name = self.alias(alias, source, ending)
        if name is not None:
            self.refused([*words[:at], name, *words[at + 1:]], source, name)

    def linked(self, words, name, source):
        os.mkdir(self.path("out"))
        try:
            os.symlink(self.path(source), self.path(f"out/{name}"))
            self.refused(words, source, f"out/{name}")
        finally:
            shutil.rmtree(self.path("out"))

    def run(self):
        chosen = sys.argv[2:]
        for name, (words, sources) in COMMANDS.items():
            for source in sources if not chosen or name in chosen else ():
                for alias in ALIASES:
                    self.case(f"{name}, {alias} of {source}", lambda: self.replaces(words, source, alias))
        for name, (words, file, source) in FOLDERS.items():
            if not chosen or name in chosen:
                self.case(name, lambda: self.linked(words, file, source))


PROFILE = """node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000
node2 -- Linear(in_features=4, out_features=4, bias=True) -- forward_compute_time=1.000, backward_compute_time=2.000, \
activation_size=64.0, parameter_size=80.000
node3 -- Linear(in_features=4, out_features=4, bias=True) -- forward_compute_time=1.000, backward_compute_time=2.000, \
activation_size=64.0, parameter_size=80.000
\tnode1 -- node2
\tnode2 -- node3
"""

if __name__ == "__main__":
    sys.exit(suite.main(Inputs, suite.memory()))
