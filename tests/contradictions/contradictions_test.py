#!/usr/bin/python3
"""Models that meet data, flags and metadata that contradict them: contradictions_test.py PROGRAM [--count N] [--seed N]

PROGRAM is build/release/starling. Models of six kinds of data are trained first. A contradiction changes one thing: the
data (columns, classes, extents, types, tokens), a flag, or the metadata of the model's file; and a command uses both.
N of all of these (default 300, "all": each one) are drawn by the seed, which follows from the commit. Each must be refused
in one sentence, or followed with a line that the command does not print without the contradiction. The last line is
"N passed, N failed".
"""
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

GPT = 'type = "gpt"\nlayers = 1\nheads = 2\nfeatures = 8\ncontext = 8\n'


def npy(path, kind, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    code = {"|u1": "B", "<f4": "f", "<i8": "q"}[kind]
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{len(values)}{code}", *values))


class Table:
    """A folder with train.csv and test.csv."""

    def __init__(self, names=("u", "v", "w"), classes=("ash", "elm", "oak"), label="kind", at=None, cell=None):
        self.names, self.classes, self.label = list(names), list(classes), label
        self.at = len(self.names) if at is None else at
        self.cell = cell

    def write(self, folder):
        draw = random.Random(5)
        for part, count in (("train", 90), ("test", 30)):
            with open(f"{folder}/{part}.csv", "w", encoding="utf-8") as file:
                names = self.names[:]
                names.insert(self.at, self.label)
                print(",".join(names), file=file)
                for row in range(count):
                    kind = row % len(self.classes)
                    cells = [f"{kind + draw.gauss(k, 1):.4f}" for k in range(len(self.names))]
                    if self.cell is not None and row == 7:
                        cells[0] = self.cell
                    cells.insert(self.at, str(self.classes[kind]))
                    print(",".join(cells), file=file)


class Arrays:
    """A folder with four NumPy arrays."""

    def __init__(self, shape, kind="<f4", classes=3):
        self.shape, self.kind, self.classes = shape, kind, classes

    def write(self, folder):
        draw = random.Random(6)
        for part, count in (("train", 60), ("test", 20)):
            size = count
            for extent in self.shape:
                size *= extent
            values = [draw.randrange(256) if self.kind == "|u1" else draw.gauss(0, 1) for _ in range(size)]
            npy(f"{folder}/{part}_images.npy", self.kind, (count, *self.shape), values)
            npy(f"{folder}/{part}_labels.npy", "|u1", (count,), [k % self.classes for k in range(count)])


class Text:
    def __init__(self, letters="abcdefgh \n", option=""):
        self.letters, self.option = letters, option

    def write(self, folder):
        draw = random.Random(7)
        for part, count in (("train", 900), ("test", 200)):
            with open(f"{folder}/{part}.txt", "w", encoding="utf-8") as file:
                file.write(self.letters + "".join(draw.choice(self.letters) for _ in range(count)))


class Tokens:
    """train.bin and val.bin without a tokenizer beside them."""

    def __init__(self, most=200):
        self.most = most
        self.option = ""

    def write(self, folder):
        draw = random.Random(8)
        for part, count in (("train", 900), ("val", 200)):
            with open(f"{folder}/{part}.bin", "wb") as file:
                file.write(struct.pack(f"<{count}H", *[draw.randrange(self.most) for _ in range(count)]))


ROWS = Table()
NUMBERED = Table(classes=(0, 1, 2))
IMAGES = Arrays((6, 8), "|u1")
FLOATS = Arrays((6, 8, 3))
LETTERS = Text()
BYTES = Text(option=":tokens=bytes")
FOREIGN = {"images": IMAGES, "float images": FLOATS, "a text": LETTERS, "rows": ROWS, "tokens": Tokens()}

# By kind: the data, the network, and other data that contradict the model.
KINDS = {
    "rows": (ROWS, "softmax", {
        "a column less": Table(("u", "v")), "a column more": Table(("u", "v", "w", "x")),
        "a column renamed": Table(("u", "v", "z")), "columns exchanged": Table(("v", "u", "w")),
        "a class renamed": Table(classes=("ash", "elm", "fir")), "a class more": Table(classes=("ash", "elm", "fir", "oak")),
        "numbers of classes": Table(classes=(0, 1, 2)), "numbers from 1": Table(classes=(1, 2, 3)),
        "a number too many": Table(classes=(0, 1, 2, 3)),
        "another label": Table(label="target"), "a cell that is no number": Table(cell="tall"),
        "an empty cell": Table(cell=""), "an infinite cell": Table(cell="inf"), "rows of an array": Arrays((3,)),
    }),
    "numbered rows": (NUMBERED, "mlp", {
        "names of classes": ROWS, "a class more": Table(classes=(0, 1, 2, 3)), "a column less": Table(("u", "v"), (0, 1, 2)),
        "a column renamed": Table(("u", "v", "z"), (0, 1, 2)), "labels from 5": Table(classes=(5, 6, 7)),
        "pixels": Arrays((1, 3), "|u1"),
    }),
    "images": (IMAGES, "softmax", {
        "another height": Arrays((7, 8), "|u1"), "another width": Arrays((6, 9), "|u1"), "turned": Arrays((8, 6), "|u1"),
        "colors": Arrays((6, 8, 3), "|u1"), "floats": Arrays((6, 8)), "a class more": Arrays((6, 8), "|u1", 4),
        "rows of the pixels": Arrays((48,), "|u1"),
    }),
    "float images": (FLOATS, "softmax", {
        "bytes": Arrays((6, 8, 3), "|u1"), "one channel": Arrays((6, 8)), "four channels": Arrays((6, 8, 4)),
        "channels in front": Arrays((3, 8, 6)), "a class more": Arrays((6, 8, 3), classes=5),
    }),
    "letters": (LETTERS, "gpt.toml", {
        "unknown letters": Text("abcdefghij \n"), "other letters": Text("klmnopqr \n"), "as bytes": BYTES,
        "as pairs": Text(option=":tokens=TOKENIZER"), "an alphabet of the same size": Text("abcdefgi \n"),
    }),
    "bytes": (BYTES, "gpt.toml", {"as characters": Text(option=":tokens=characters"), "as pairs": Text(option=":tokens=TOKENIZER")}),
}


def other_metadata(metadata):
    """Metadata of a file that contradict its tensors or each other, by name."""
    description = json.loads(metadata["description"])

    def changed(**fields):
        return {**metadata, "description": json.dumps({**description, **fields})}

    if "tokenizer" not in metadata:  # without a text's description nothing is lost
        yield "no description", {k: v for k, v in metadata.items() if k != "description"}
    yield "a description that is no JSON", {**metadata, "description": "{"}
    yield "another kind", changed(kind="text" if description["kind"] != "text" else "rows")
    yield "an unknown kind", changed(kind="sound")
    yield "more classes", changed(classes=description["classes"] + 1, class_names=[])
    yield "fewer classes", changed(classes=description["classes"] - 1, class_names=[])
    yield "no classes", changed(classes=0)
    yield "another network", {**metadata, "model": "lenet" if metadata["model"] != "lenet" else "mlp", "layers": ""}
    yield "a network without a name", {k: v for k, v in metadata.items() if k not in ("model", "layers")}
    yield "an unknown network", {**metadata, "model": "perceptron 9", "layers": ""}
    if "shape" in description:
        shape = description["shape"]
        yield "another shape", changed(shape=[shape[0], shape[1], shape[2] + 1])
        yield "a shape of two", changed(shape=shape[:2])
        yield "other values", changed(values="bytes" if description["values"] == "floats" else "floats")
        yield "a mean more", changed(mean=description["mean"] + [0])
        yield "a deviation of 0", changed(deviation=[0] * len(description["deviation"]))
        yield "no means", changed(mean=[], deviation=[])
    if description.get("class_names"):
        yield "a class name less", changed(class_names=description["class_names"][:-1])
    if "tokenizer" in metadata:
        yield "no tokenizer", {k: v for k, v in metadata.items() if k != "tokenizer"}
        yield "a broken tokenizer", {**metadata, "tokenizer": metadata["tokenizer"][:20]}


def read_file(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        return header, file.read()


def write_file(path, header, tensors):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + tensors)


class Contradictions(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program
        self.models, self.plain = {}, {}
        with open(self.path("gpt.toml"), "w", encoding="utf-8") as file:
            file.write(GPT)
        with open(self.path("wide.toml"), "w", encoding="utf-8") as file:
            file.write('layers = [{ type = "linear", features = 7 }, "relu", "linear"]\n')
        with open(self.path("book.txt"), "w", encoding="utf-8") as file:
            file.write("abcd efgh abab cdcd hghg fefe " * 60)
        self.command("tokenizer", "train", "book.txt", "--size", "260", "--out", "tokenizer.txt")

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, *words, expected=0):
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True, timeout=suite.HANG,
                              env={**os.environ, "STARLING_EXPORT": "none"}, check=False)
        require(expected is None or done.returncode == expected, f"{words}: {done.returncode}\n{done.stderr}")
        return done

    def write(self, name, data):
        os.makedirs(self.path(name), exist_ok=True)
        data.write(self.path(name))
        return name + getattr(data, "option", "").replace("TOKENIZER", "tokenizer.txt")

    def train(self, kind):
        data, network, _ = KINDS[kind]
        folder = kind.replace(" ", "-")
        path = self.write(folder, data)
        self.command("simulate", "--peers", "1", "--model", network, "--data", path, "--steps", "3", "--batch-size", "4",
                     "--looks", "0", "--out", folder + "-run")
        self.command("peer", "--listen", "none", "--model", network, "--data", path, "--steps", "3", "--batch-size", "4",
                     "--checkpoints", folder + "-kept", "--checkpoint-every", "2 steps", "--export", "none")
        kept = [name for name in os.listdir(self.path(folder + "-kept")) if name.endswith(".safetensors")]
        self.models[kind] = {"path": path, "network": network, "file": f"{folder}-run/model.safetensors",
                             "checkpoint": f"{folder}-kept/{sorted(kept)[-1]}"}

    def uses(self, kind, file, path, checkpoint=None, model=None):
        """The commands that bring a model and data together, by name."""
        network = self.models[kind]["network"] if model is None else model
        run = ["--steps", "1", "--batch-size", "4"]
        yield "evaluate", ["evaluate", file, "--data", path]
        yield "predict", ["predict", file, "--data", path, "--limit", "3"]
        yield "simulate --init", ["simulate", "--peers", "1", "--looks", "0", "--force", "--out", "tuned", "--model", network,
                                  "--data", path, "--init", file, *run]
        yield "peer --init", ["peer", "--listen", "none", "--export", "none", "--model", network, "--data", path, "--init", file,
                              *run]
        yield "peer --resume", ["peer", "--listen", "none", "--export", "none", "--model", network, "--data", path, "--resume",
                                checkpoint or self.models[kind]["checkpoint"], "--steps", "4", "--batch-size", "4"]

    def lines(self, words, done):
        """What the command said, without times, and without the name of the data."""
        name = words[words.index("--data") + 1]
        return {re.sub(r"^.* (info|warning) ", r"\1 ", line).replace(name, "DATA") for line in done.stderr.splitlines()}

    def judge(self, kind, use, words):
        done = self.command(*words, expected=None)
        said = done.stderr.strip().splitlines()
        shown = f"{' '.join(words)}: {done.returncode}\n{done.stderr}"
        if done.returncode != 0:
            require(done.returncode in (1, 2), shown)
            require(said and (said[-1].startswith("starling ") or " error " in said[-1]), shown)
            require("terminate" not in done.stderr and "Aborted" not in done.stderr, shown)
            return
        if (kind, use) not in self.plain:
            model = self.models[kind]
            usual = dict(self.uses(kind, model["file"], model["path"]))[use]
            self.plain[kind, use] = self.lines(usual, self.command(*usual))
        usual = self.plain[kind, use]
        data = [line for line in self.lines(words, done) - usual
                if "data " in line or "warn" in line or "other" in line or "without" in line or "does not" in line]
        require(data, f"silent: {shown}")

    def contradictions(self):
        """(kind of model, what is contradicted, a function that returns the commands by use), all of them."""
        for kind, (data, _, others) in KINDS.items():
            for what, other in {**others, **FOREIGN}.items():
                if type(other) is type(data) and other in FOREIGN.values() and what in FOREIGN:
                    continue
                yield kind, f"data: {what}", lambda kind=kind, what=what, other=other: self.uses(
                    kind, self.models[kind]["file"], self.write((kind + "-" + what).replace(" ", "-"), other))
            for model in ("lenet", "mlp", "softmax", "wide.toml", "gpt.toml", "gpt-tiny", "resnet8"):
                if model != KINDS[kind][1]:
                    yield kind, f"--model {model}", lambda kind=kind, model=model: self.with_model(kind, model)
            header, _ = read_file(self.path(self.models[kind]["file"]))
            for what, _ in other_metadata(header["__metadata__"]):
                yield kind, f"metadata: {what}", lambda kind=kind, what=what: self.with_metadata(kind, what)

    def with_model(self, kind, model):
        file, path = self.models[kind]["file"], self.models[kind]["path"]
        for use, words in self.uses(kind, file, path, model=model):
            yield use, words if "--model" in words else [*words, "--model", model]

    def with_metadata(self, kind, what):
        model = self.models[kind]
        files = []
        for key in ("file", "checkpoint"):
            header, tensors = read_file(self.path(model[key]))
            header["__metadata__"] = dict(other_metadata(header["__metadata__"]))[what]
            files.append(f"changed-{key}.safetensors")
            write_file(self.path(files[-1]), header, tensors)
        yield from self.uses(kind, files[0], model["path"], files[1])

    def run(self):
        for kind in KINDS:
            self.train(kind)
        every = [(kind, what, commands, use) for kind, what, commands in self.contradictions()
                 for use in ("evaluate", "predict", "simulate --init", "peer --init", "peer --resume")]
        count = sys.argv[sys.argv.index("--count") + 1] if "--count" in sys.argv else "300"
        seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else seed_of_commit()
        if count != "all":
            every = random.Random(seed).sample(every, min(int(count), len(every)))
        print(f"   {len(every)} contradictions, seed {seed}")
        for kind, what, commands, use in every:
            self.case(f"{kind}, {what}, {use}", lambda: self.judge(kind, use, dict(commands())[use]))
            shutil.rmtree(self.path("tuned"), ignore_errors=True)


sys.exit(suite.main(Contradictions))
