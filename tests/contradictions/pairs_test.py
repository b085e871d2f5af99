#!/usr/bin/python3
"""Pairs of experiments that differ in one thing: pairs_test.py PROGRAM [--count N] [--seed N] [--only WORD] [--keep DIR]

PROGRAM is build/release/starling. Each of N pairs (default 60) is drawn by the seed, which follows from the commit: two tiny
simulations that differ in a setting, a fault, a byte of the data, the place or the name of a file, a layer, a link, the
initial parameters, a tokenizer, a label, data of a peer's own, the seed, the version of the program, or in nothing. `report`
(its page, table and curves), `plot` and `sweep` must pool the two exactly when they are the same experiment: then their
traces agree, or the contradiction is said. A setting that changes the trace makes two rows; one without effect, or a value
that is the default in other words, makes one. --only draws only pairs whose name contains WORD;
--keep copies the folders of those that fail. The last line is "N passed, N failed".
"""
import csv
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import require, seed_of_commit  # noqa: E402

RULES = ("pairwise", "push-sum", "d-psgd", "choco", "noloco", "clipped", "parameter-server", "ssp", "none", "all-reduce", "diloco")
DEVICES = {"training.devices": "cpu:0,cpu:1"}
STAGES = {**DEVICES, "training.split": "stages", "model.name": "net.toml"}
PIPEDREAM = {**STAGES, "pipeline.schedule": "pipedream"}
IMAGES, TEXT = {"data.source": "pictures"}, {"data.source": "book.txt", "model.name": "gpt.toml"}

# Of each setting its values, and other settings with which it can have an effect. None: it is not set.
SETTINGS = {
    "name": (("run", "walk"), {}),
    "seed": (("1", "2", "3"), {}),
    "peers": (("2", "3", "4"), {}),
    "start": (("together", "copy"), {}),
    "looks": ((None, "0", "3", "20"), {}),
    "model.name": (("softmax", "mlp", "net.toml"), {}),
    "model.layers": ((), {}),  # of files of networks
    "model.init": ((None, "first.safetensors", "second.safetensors"), {"model.name": "softmax"}),
    "data.source": (("my.csv", "other.csv", "my.csv:label=1"), {}),
    "data.partition": ((None, "iid", "whole", "contiguous", "by-label", "dirichlet:alpha=0.5"), {}),
    "data.own_data": ((), {}),  # of a [[peer]]
    "data.windows": ((None, "random", "contiguous"), TEXT),
    "training.batch_size": (("2", "4", "8"), {}),
    "training.optimizer": ((None, "sgd", "adamw"), {}),
    "training.learning_rate": ((None, "0.05", "0.01", "0.001"), {}),
    "training.momentum": ((None, "0.9", "0.5", "0"), {}),
    "training.beta1": ((None, "0.9", "0.8"), {"training.optimizer": "adamw"}),
    "training.beta2": ((None, "0.999", "0.9"), {"training.optimizer": "adamw"}),
    "training.epsilon": ((None, "1e-8", "1e-3"), {"training.optimizer": "adamw"}),
    "training.weight_decay": ((None, "0", "0.01"), {}),
    "training.clip_norm": ((None, "0", "0.1"), {}),
    "training.nesterov": ((None, "false", "true"), {}),
    "training.quasi_global_momentum": ((None, "false", "true"), {}),
    "training.schedule": ((None, "constant", "cosine", "step"), {}),
    "training.warmup": ((None, "0", "2 steps", "0.1"), {}),
    "training.step_epochs": ((None, "0.1", "0.2"), {"training.schedule": "step"}),
    "training.step_factor": ((None, "0.1", "0.5"), {"training.schedule": "step", "training.step_epochs": "0.1"}),
    "training.final_rate": ((None, "0", "0.5"), {"training.schedule": "cosine"}),
    "training.crop": ((None, "0", "1"), IMAGES),
    "training.flip": ((None, "false", "true"), IMAGES),
    "training.device": ((None, "auto", "cpu"), {}),
    "training.devices": ((None, "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2"), {}),
    "training.split": ((None, "data", "stages", "layers", "auto"), {**DEVICES, "model.name": "net.toml"}),
    "training.average_every": ((None, "8", "2"), DEVICES),
    "training.precision": ((None, "f32", "bf16"), {}),
    "training.workers": ((None, "1", "2"), {}),
    "training.recompute": ((None, "never", "always"), {}),
    "training.pace": ((None, "0s", "20ms", "30ms", "0.03s"), {}),
    "training.epochs": ((None, "0.5", "1"), {}),
    "training.steps": (("3", "4", "6"), {}),
    "training.seconds": ((None, "0.05", "60s", "1m"), {}),
    "training.target_accuracy": ((None, "0.3", "0.9"), {"looks": "20"}),
    "training.target_loss": ((None, "0.1", "5"), {"looks": "20"}),
    "gossip.rule": (RULES, {}),
    "gossip.topology": ((None, "ring", "full", "star", "exponential", "random-regular:k=2"), {"peers": "4"}),
    "gossip.partners": ((None, "uniform", "turns", "aware"), {}),
    "gossip.every": ((None, "1 steps", "2 steps", "8 steps", "50ms", "0.05s", "always"), {}),
    "gossip.payload": ((None, "f32", "bf16", "int8"), {}),
    "gossip.top_k": ((None, "0.01", "0.5"), {"gossip.rule": "choco", "gossip.payload": "top-k"}),
    "gossip.weights": ((None, "equal", "work", "age"), {"gossip.rule": "pairwise"}),
    "gossip.outer_rate": ((None, "0.7", "0.5"), {"gossip.rule": "noloco", "gossip.every": "2 steps"}),
    "gossip.outer_momentum": ((None, "0.5", "0.9", "0"), {"gossip.rule": "diloco", "gossip.every": "2 steps"}),
    "gossip.fragments": ((None, "1", "2"), {"gossip.rule": "noloco", "gossip.every": "2 steps"}),
    "gossip.consensus_rate": ((None, "0.1", "1"), {"gossip.rule": "choco"}),
    "gossip.clip": ((None, "0.5", "2"), {"gossip.rule": "clipped"}),
    "gossip.servers": ((None, "1", "2"), {"gossip.rule": "parameter-server"}),
    "gossip.racks": ((None, "0", "1"), {"gossip.rule": "parameter-server"}),
    "gossip.server_rate": ((None, "0.5", "1"), {"gossip.rule": "ssp"}),
    "gossip.staleness": ((None, "3", "1"), {"gossip.rule": "ssp"}),
    "gossip.chunk": ((None, "auto", "4KiB", "64KiB", "65536"), {}),
    "gossip.window": ((None, "auto", "1", "4"), {}),
    "network.latency": ((None, "100us", "5ms", "0.005s"), {}),
    "network.bandwidth": ((None, "1Gbit/s", "1Mbit/s", "1000kbit/s"), {}),
    "network.port": ((None, "1Gbit/s", "1Mbit/s", "unlimited"), {}),
    "pipeline.schedule": ((None, "1f1b", "gpipe", "layer-wise", "pipedream"), STAGES),
    "pipeline.micro_batches": ((None, "auto", "1", "2"), STAGES),
    "pipeline.vertical_sync": ((None, "false", "true"), PIPEDREAM),
    "pipeline.cuts": ((None, "1", "2"), STAGES),
    "pipeline.stage_replicas": ((None, "2,1", "1,2"), {**STAGES, "training.devices": "cpu:0,cpu:1,cpu:2"}),
    "pipeline.speeds": ((None, "1,1", "1,0.5"), STAGES),
    "pipeline.bandwidth": ((None, "1Gbit/s", "1Mbit/s"), STAGES),
    "pipeline.latency": ((None, "1ms", "2ms"), STAGES),
    "pipeline.memory": ((None, "1GiB", "2GiB"), STAGES),
}

# With these, two values may compute the same in so few steps, so that equal traces make one kind or two: a bound that is not
# reached, a choice among one, peers with equal work, a share that follows from their number, a mean that exchanges take anyway,
# the momentum of a first outer step, a schedule of stages that needs the same time, what a plan chooses anyway. What follows must
# agree all the same. Random crashes (churn) may not happen in so short a time, either.
SOMETIMES = {"training.clip_norm", "training.seconds", "training.target_accuracy", "training.target_loss", "training.epochs",
             "training.warmup", "training.split", "training.average_every", "gossip.topology", "gossip.partners", "gossip.weights",
             "gossip.clip", "gossip.outer_momentum", "gossip.staleness", "gossip.server_rate", "gossip.chunk", "gossip.window",
             "network.port", "pipeline.schedule", "pipeline.bandwidth", "pipeline.memory", "pipeline.stage_replicas", "pipeline.cuts"}
# Rules that make no exchange in so few steps compute the same, too.
UNTIL_EXCHANGE = {"gossip.rule", "gossip.every", "gossip.payload", "gossip.outer_rate", "gossip.fragments", "gossip.top_k",
                  "gossip.consensus_rate"}

FAULTS = (
    ({"slow": "2"}, {"slow": "3"}),
    ({"slow": "log-normal:sigma=1"}, {"slow": "log-normal:sigma=0.5"}),
    ({"pause": "true", "from": "0.02", "to": "0.05"}, {"pause": "true", "from": "0.02", "to": "0.06"}),
    ({"churn.crashes_per_minute": "900", "churn.back_after": "0.02"},
     {"churn.crashes_per_minute": "300", "churn.back_after": "0.02"}),
    ({"link.latency": "5ms"}, {"link.latency": "9ms"}),
    ({"slow": "2", "from": "0.03"}, {"slow": "2", "from": "30ms"}),
    ({"crash": "true", "from": "0.03"}, {"crash": "true", "from": "0.05"}),
)

# What follows the two runs: how many rows and counted runs, and what the commands say.
REPEATED = "Simulations that repeat a seed of their kind are not counted: 1 (b)"
CONTRARY = "have the settings, contents and seed of another one, but another trace, are not counted: 1 (b)"
MAKERS = "The runs were made by "


def table(draw, classes=("ash", "elm", "oak")):
    rows = [[f"{k % 3 + draw.gauss(0, 1):.2f}", f"{draw.gauss(0, 1):.2f}", classes[k % 3]] for k in range(40)]
    return [["u", "v", "kind"], *rows]


def text_of(rows):
    return "".join(",".join(row) + "\n" for row in rows)


def npy(kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(values)


class Side:
    """One experiment of a pair: settings by their keys, faults, [[peer]]s, and files by their names."""

    def __init__(self, settings, files, faults=(), peers=()):
        self.settings, self.files, self.faults, self.peers = dict(settings), dict(files), list(faults), list(peers)

    def copy(self):
        return Side(self.settings, self.files, self.faults, self.peers)

    def toml(self, sweep=None):
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.settings.items() if value is not None]
        for name, tables in (("peer", self.peers), ("fault", self.faults)):
            for each in tables:
                lines += [f"[[{name}]]", *(f"{key} = {json.dumps(value)}" for key, value in each.items())]
        if sweep:
            lines += ["[sweep]", *(f"{key} = {json.dumps(values)}" for key, values in sweep.items())]
        return "\n".join(lines) + "\n"


class Pair:
    """`expected`: "trace": one kind if the traces agree, else two; "chance": the same, or two; "one", "two",
    "seeds", "version", "contrary". `changed`: the two name the same files, some of which have changed."""

    def __init__(self, name, one, other, expected, sweep=None, changed=False):
        self.name, self.one, self.other, self.expected = name, one, other, expected
        self.sweep, self.changed = sweep, changed


class Maker:
    """Draws pairs."""

    def __init__(self, draw, first):
        self.draw, self.first = draw, first  # first: bytes of files with parameters

    def side(self, kind=None):
        draw = self.draw
        kind = kind or draw.choice(("table", "table", "table", "pictures", "text"))
        settings = {"name": "run", "seed": str(draw.randrange(1, 9)), "peers": draw.choice(("2", "3")),
                    "looks": draw.choice((None, "0", "4")),
                    "training.batch_size": "4", "training.steps": draw.choice(("4", "6")), "gossip.rule": draw.choice(RULES),
                    "gossip.every": None, "data.source": {"table": "my.csv", "pictures": "pictures", "text": "book.txt"}[kind],
                    "model.name": {"table": draw.choice(("softmax", "net.toml")), "pictures": "softmax", "text": "gpt.toml"}[kind]}
        files = {"my.csv": text_of(table(draw)), "other.csv": text_of(table(draw)), "net.toml": self.network(("relu",)),
                 "book.txt": "".join(draw.choice("abcd efgh") for _ in range(700)), **self.first, **self.pictures(),
                 "gpt.toml": 'type = "gpt"\nlayers = 1\nheads = 1\nfeatures = 4\ncontext = 8\n'}
        return Side(settings, files)

    def pictures(self):
        draw, files = self.draw, {}
        for part, count in (("train", 30), ("test", 9)):
            files[f"pictures/{part}_images.npy"] = npy("|u1", (count, 4, 4), [draw.randrange(256) for _ in range(count * 16)])
            files[f"pictures/{part}_labels.npy"] = npy("|u1", (count,), [k % 3 for k in range(count)])
        return files

    def network(self, middle, width=5):
        layers = [f'{{ type = "linear", features = {width} }}', *(f'"{layer}"' for layer in middle), '"linear"']
        return f"layers = [{', '.join(layers)}]\n"

    def setting(self):
        draw = self.draw
        key = draw.choice([key for key, (values, _) in SETTINGS.items() if len(values) > 1])
        values, needs = SETTINGS[key]
        side = self.side("table" if key.startswith(("model.", "data.")) and key != "data.windows" else None)
        if draw.random() < 0.6:
            side.settings.update(needs)
        if key == "training.seconds":
            side.settings["training.steps"] = "6"
        one, other = draw.sample(values, 2)
        a, b = side, side.copy()
        a.settings[key], b.settings[key] = one, other
        if key == "seed":
            return Pair(f"seed={one},{other}", a, b, "seeds", (key, [one, other]))
        listed = None not in (one, other) and key not in ("name", "model.name", "model.init")
        sweep = (key, [one, other]) if listed else None
        expected = "one" if key == "name" else "chance" if key in SOMETIMES | UNTIL_EXCHANGE else "trace"
        if key == "looks" and {one, other} != {None, "20"}:
            expected = "two"  # they change what is measured, not what is computed
        return Pair(f"{key}={one},{other} with {side.settings['gossip.rule']}", a, b, expected, sweep)

    def fault(self):
        a, faults = self.side(), self.draw.choice(FAULTS)
        b = a.copy()
        which = self.draw.randrange(3)
        for side, fault in ((a, faults[0]), (b, faults[which % 2])):
            if which < 2:
                side.faults.append({"peer": "1", **fault})
        if which == 2:  # with and without
            b.faults.append({"peer": "1", **faults[1]})
        return Pair(f"fault {faults[0]}, {b.faults}", a, b, "chance" if "churn.back_after" in faults[0] else "trace")

    def data(self):
        draw, a = self.draw, self.side("table")
        b, rows = a.copy(), [line.split(",") for line in a.files["my.csv"].splitlines()]
        row, column = draw.randrange(1, len(rows)), draw.randrange(3)
        if column == 2:
            rows[row][2] = {"ash": "elm", "elm": "oak", "oak": "ash"}[rows[row][2]]
        else:
            cell = rows[row][column]
            rows[row][column] = cell[:-1] + str((int(cell[-1]) + 1) % 10)
        b.files["my.csv"] = text_of(rows)
        return Pair(f"cell {column} of line {row + 1}", a, b, "two", changed=True)

    def shift(self):
        a = self.side("table")
        b = a.copy()
        for side, by in ((a, 5000), (b, 5003)):
            rows = [line.split(",") for line in side.files["my.csv"].splitlines()]
            side.files["my.csv"] = text_of([rows[0], *([f"{float(row[0]) + by:.2f}", *row[1:]] for row in rows[1:])])
        return Pair("a column, shifted", a, b, "two", changed=True)

    def label(self):
        a = self.side("table")
        b = a.copy()
        b.files["my.csv"] = a.files["my.csv"].replace("oak", "sea")
        return Pair("name of a class", a, b, "trace")

    def header(self):
        a = self.side("table")
        b = a.copy()
        b.files["my.csv"] = a.files["my.csv"].replace("u,v", "x,y")
        return Pair("names of columns", a, b, "trace")

    def picture(self):
        a = self.side("pictures")
        b = a.copy()
        name = self.draw.choice(("train_images", "test_images", "train_labels"))
        content = bytearray(a.files[f"pictures/{name}.npy"])
        content[-1 - self.draw.randrange(9)] ^= 1
        b.files[f"pictures/{name}.npy"] = bytes(content)
        return Pair(f"a byte of {name}", a, b, "two", changed=True)

    def letter(self):
        a = self.side("text")
        b, text = a.copy(), a.files["book.txt"]
        place = self.draw.randrange(len(text))
        b.files["book.txt"] = text[:place] + ("a" if text[place] != "a" else "b") + text[place + 1:]
        return Pair(f"letter {place}", a, b, "two", changed=True)

    def place(self):
        a = self.side()
        b = a.copy()
        name = a.settings["data.source"]
        for file in [file for file in b.files if file.startswith(name)]:
            b.files[f"copies/{file}"] = b.files.pop(file)
        b.settings["data.source"] = f"copies/{name}"
        return Pair(f"place of {name}", a, b, "one")

    def file_name(self):
        a = self.side("table")
        b = a.copy()
        b.files["mine.csv"] = b.files.pop("my.csv")
        b.settings["data.source"] = "mine.csv"
        return Pair("name of the data", a, b, "one")

    def layer(self):
        a = self.side("table")
        a.settings["model.name"] = "net.toml"
        b = a.copy()
        b.files["net.toml"] = self.network(*self.draw.choice((((),), (("relu",), 6), (("tanh",),), (("relu", "linear"),))))
        return Pair("a layer", a, b, "two")

    def network_name(self):
        a = self.side("table")
        a.settings["model.name"] = "net.toml"
        b = a.copy()
        b.files["web.toml"] = b.files.pop("net.toml")
        b.settings["model.name"] = "web.toml"
        return Pair("name of the network", a, b, "one")

    def on_graph(self, rules):
        side = self.side()
        side.settings.update({"peers": "4", "gossip.topology": "file:graph.txt", "gossip.rule": self.draw.choice(rules)})
        side.files["graph.txt"] = "0 1\n1 2\n2 3\n"
        return side

    def graph(self):
        a = self.on_graph(("pairwise", "d-psgd", "push-sum"))
        b = a.copy()
        b.files["graph.txt"] += "3 0\n"
        return Pair("a link", a, b, "two")

    def graph_name(self):
        a = self.on_graph(("pairwise", "d-psgd", "none"))
        b = a.copy()
        b.files["links.txt"] = b.files.pop("graph.txt")
        b.settings["gossip.topology"] = "file:links.txt"
        return Pair("name of the graph", a, b, "one")

    def parameters(self):
        a = self.side("table")
        a.settings.update({"model.name": "softmax", "model.init": "first.safetensors"})
        b = a.copy()
        which = self.draw.randrange(3)
        if which == 0:
            b.files["first.safetensors"] = b.files["second.safetensors"]
        elif which == 1:
            b.files["copy.safetensors"] = b.files.pop("first.safetensors")
            b.settings["model.init"] = "copy.safetensors"
        else:
            b.settings["model.init"] = None
        return Pair(("parameters", "name of the parameters", "parameters or none")[which], a, b, "one" if which == 1 else "two",
                    changed=which == 0)

    def tokenizer(self):
        a = self.side("text")
        a.settings["data.source"] = "book.txt:tokens=tokens.txt"
        b = a.copy()
        which = self.draw.randrange(2)
        for side, name in ((a, "first.txt"), (b, ("second.txt", "first.txt")[which])):
            side.files["tokens.txt"] = self.first[name]
        if which == 1:
            b.files["pairs.txt"] = b.files.pop("tokens.txt")
            b.settings["data.source"] = "book.txt:tokens=pairs.txt"
        return Pair(("a tokenizer", "name of the tokenizer")[which], a, b, ("two", "one")[which], changed=which == 0)

    def own_data(self):
        a = self.side("table")
        a.settings["gossip.rule"] = self.draw.choice(("pairwise", "d-psgd", "none", "ssp"))
        a.peers.append({"number": "1", "own_data": "other.csv"})
        b = a.copy()
        which = self.draw.randrange(3)
        if which == 0:
            b.files["other.csv"] = text_of(table(self.draw))
        elif which == 1:
            b.files["copies/other.csv"] = b.files.pop("other.csv")
            b.peers = [{"number": "1", "own_data": "copies/other.csv"}]
        else:
            b.peers = []
        return Pair(("own data", "place of own data", "own data or none")[which], a, b, ("two", "one", "two")[which],
                    changed=which == 0)

    def peer(self):
        a = self.side("table")
        key, one, other = self.draw.choice((
            ("pace", "20ms", "30ms"), ("pace", "30ms", "0.03s"), ("precision", "f32", "bf16"), ("workers", "1", "2"),
            ("recompute", "never", "always"), ("device", "auto", "cpu")))
        b = a.copy()
        a.peers.append({"number": "1", key: one})
        b.peers.append({"number": "1", key: other})
        return Pair(f"{key}={one},{other} of a peer with {a.settings['gossip.rule']}", a, b, "trace")

    def version(self):
        a = self.side()
        return Pair("version", a, a.copy(), "version")

    def trace(self):
        a = self.side()
        return Pair("trace", a, a.copy(), "contrary")

    def nothing(self):
        a = self.side()
        return Pair("nothing", a, a.copy(), "one")

    def pair(self):
        others = (self.fault, self.data, self.shift, self.label, self.header, self.picture, self.letter, self.place,
                  self.file_name, self.layer, self.network_name, self.graph, self.graph_name, self.parameters, self.tokenizer,
                  self.own_data, self.peer, self.version, self.trace, self.nothing)
        return self.setting() if self.draw.random() < 0.6 else self.draw.choice(others)()


class Refused(Exception):
    """The experiment is refused, so no pair can be made of it."""


class Pairs(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("STARLING_")}

    def command(self, folder, *words, expected=0):
        done = subprocess.run([self.program, *words], cwd=folder, capture_output=True, text=True, timeout=suite.HANG,
                              env=self.environment, check=False)
        if expected == 0 and (done.returncode == 2 or "cannot continue without it" in done.stderr):
            raise Refused(done.stderr)
        require(expected is None or done.returncode == expected, f"{words}: {done.returncode}\n{done.stderr}")
        return done

    def write(self, folder, files):
        for name, content in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)

    def first_files(self):
        """Parameters of a softmax on the tables, and tokenizers."""
        draw, files = random.Random(1), {}
        self.write(self.folder, {"my.csv": text_of(table(draw)), "book.txt": "abcd efgh abab hghg " * 60})
        for name, seed in (("first", "1"), ("second", "2")):
            self.command(self.folder, "simulate", "--peers", "1", "--model", "softmax", "--data", "my.csv", "--steps", "3",
                         "--batch-size", "4", "--seed", seed, "--out", name)
            with open(os.path.join(self.folder, name, "model.safetensors"), "rb") as file:
                files[f"{name}.safetensors"] = file.read()
            self.command(self.folder, "tokenizer", "train", "book.txt", "--size", {"1": "258", "2": "260"}[seed],
                         "--out", f"{name}.txt")
            with open(os.path.join(self.folder, f"{name}.txt"), "rb") as file:
                files[f"{name}.txt"] = file.read()
        return files

    def simulate(self, folder, name, side):
        """Runs a side in its own folder of files, and returns its summary."""
        self.write(os.path.join(folder, f"files-{name}"), {**side.files, "experiment.toml": side.toml()})
        out = os.path.join(folder, name)
        self.command(os.path.join(folder, f"files-{name}"), "simulate", "experiment.toml", "--out", out)
        with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
            return json.load(file)

    def change(self, folder, name, summary):
        with open(os.path.join(folder, name, "summary.json"), "w", encoding="utf-8") as file:
            json.dump(summary, file)

    def judge(self, folder, pair):
        one, other = self.simulate(folder, "a", pair.one), self.simulate(folder, "b", pair.other)
        same = one["trace_hash"] == other["trace_hash"]
        expected = pair.expected
        if expected == "chance" and same:
            self.command(folder, "report", "a", "b", "--csv", "table.csv")
            expected = ("one", "two")[self.rows(folder) - 1]
        if expected in ("trace", "chance"):
            expected = "one" if same else "two"
        require(same or expected not in ("one", "version", "contrary"), "the same experiment has two traces")
        if expected == "version":
            other["made_from"]["program"] = "0.1.9"
            self.change(folder, "b", other)
        elif expected == "contrary":
            other["trace_hash"] = "0123456789abcdef"
            self.change(folder, "b", other)
        rows = 2 if expected == "two" else 1
        said = {"one": [REPEATED], "two": [], "seeds": [], "version": [REPEATED, MAKERS], "contrary": [CONTRARY]}[expected]
        self.empty = 0 in (one["seconds"], other["seconds"])
        self.report(folder, rows, 1 if expected != "seeds" else 2, said)
        self.plot(folder, rows, 2 if expected == "seeds" else 1, said)
        if pair.sweep:
            self.sweep(folder, pair, expected)
        if pair.changed:
            self.repeat(folder, pair)

    def rows(self, folder):
        with open(os.path.join(folder, "table.csv"), encoding="utf-8") as file:
            return len(list(csv.DictReader(file)))

    def repeat(self, folder, pair):
        """The first side again, with the other side's files."""
        files = os.path.join(folder, "files-a")
        self.write(files, pair.other.files)
        again = self.command(files, "simulate", "experiment.toml", "--out", os.path.join(folder, "a"), expected=None)
        require(again.returncode == 2 and "has changed since the run in" in again.stderr,
                f"the same command again: {again.stdout}{again.stderr}")
        same = self.command(files, "simulate", os.path.join(folder, "a", "experiment.toml"), "--out", os.path.join(folder, "c"))
        require("has changed since a run wrote" in same.stderr, f"the file of the run: {same.stderr}")
        with open(os.path.join(folder, "c", "summary.json"), encoding="utf-8") as one, \
                open(os.path.join(folder, "b", "summary.json"), encoding="utf-8") as other:
            require(json.load(one)["trace_hash"] == json.load(other)["trace_hash"], "the file of the run makes another run")

    def say(self, done, sentences, what):
        lines = [line for line in done.stderr.splitlines() if "imulations that" in line or "The runs were made" in line]
        require(len(lines) == len(sentences) and all(sentence in done.stderr for sentence in sentences),
                f"{what} says {done.stderr!r}, not {sentences}")

    def report(self, folder, rows, counted, said):
        done = self.command(folder, "report", "a", "b", "--out", "page.html", "--csv", "table.csv", "--curves", "curves.csv")
        self.say(done, said, "report")
        with open(os.path.join(folder, "table.csv"), encoding="utf-8") as file:
            found = list(csv.DictReader(file))
        require([row["runs"] for row in found] == [str(counted)] * rows, f"{rows} rows of {counted} runs, not {found}")
        with open(os.path.join(folder, "curves.csv"), encoding="utf-8") as file:
            lines = list(csv.reader(file))
        seed = lines[0].index("seed")
        kinds = {tuple(line[:seed]) for line in lines[1:]}
        require(len(kinds) == rows or self.empty, f"{rows} kinds in curves.csv, not {kinds}")
        with open(os.path.join(folder, "page.html"), encoding="utf-8") as file:
            page = file.read()
        for sentence in said:
            require(sentence in page, f"the page does not say {sentence}")

    def plot(self, folder, rows, seeds, said):
        done = self.command(folder, "plot", "a", "b", "--x", "samples", "--width", "12", "--out", "figure.svg",
                            expected=None)
        require(done.returncode == 0 or "curve" in done.stderr, done.stderr)
        self.say(done, said, "plot")
        if done.returncode == 0:
            aside = ", 1 of them set aside" if rows == 1 and seeds == 1 else ""
            require(f"2 runs with {seeds} seed{'s' if seeds > 1 else ''}{aside}" in done.stdout, f"plot says {done.stdout}")

    def sweep(self, folder, pair, expected):
        key, values = pair.sweep
        self.write(os.path.join(folder, "files-a"), {"sweep.toml": pair.one.toml({key: values})})
        done = self.command(os.path.join(folder, "files-a"), "sweep", "sweep.toml", "--out", os.path.join(folder, "sweep"))
        table_lines = done.stdout[:done.stdout.index("\n\n")].splitlines()
        rows = 2 if expected == "two" else 1
        require(len([line for line in table_lines[1:] if "seeds: " not in line]) == rows,
                f"{rows} rows of the sweep, not {done.stdout}")
        self.command(folder, "report", "sweep", "--csv", "table.csv")
        require(self.rows(folder) == rows, f"{rows} rows of the sweep's report, not {self.rows(folder)}")

    def check_settings(self):
        with open(os.path.join(suite.SOURCE, "docs", "EXPERIMENTS.md"), encoding="utf-8") as file:
            keys = set(re.findall(r"^\| `([a-z_.0-9]+)` \| `--", file.read(), re.M))
        require(keys == set(SETTINGS), f"other settings: {keys ^ set(SETTINGS)}")

    def run(self):
        count = sys.argv[sys.argv.index("--count") + 1] if "--count" in sys.argv else "60"
        seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else seed_of_commit()
        only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
        print(f"   {count} pairs, seed {seed}")
        self.case("every setting has values here", self.check_settings)
        first, made, number = self.first_files(), 0, 0
        while made < int(count):
            number += 1
            pair = Maker(random.Random(f"{seed} {number}"), first).pair()
            if only not in pair.name:
                continue
            folder = os.path.join(self.folder, f"pair-{number}")
            os.makedirs(folder)
            try:
                failed = self.failed
                self.case(f"{number}: {pair.name}", lambda: self.judge_unless_refused(folder, pair))
                made += 1 if self.passed + self.failed > 0 and not self.refused else 0
                if self.failed > failed and "--keep" in sys.argv:
                    kept = sys.argv[sys.argv.index("--keep") + 1]
                    shutil.copytree(folder, os.path.join(kept, f"pair-{number}"), dirs_exist_ok=True)
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    refused = False  # the latest pair
    empty = False    # one of its runs made no step, and has no curve

    def judge_unless_refused(self, folder, pair):
        self.refused = False
        try:
            self.judge(folder, pair)
        except Refused as reason:
            self.refused = True
            raise suite.Skipped(str(reason).strip()[-200:]) from None


if __name__ == "__main__":
    sys.exit(suite.main(Pairs))
