#!/usr/bin/python3
"""Tables in all the forms in which people keep them: tables_test.py PROGRAM [--count N] [--seed N]

PROGRAM is build/release/starling. Each of N random tables (default 30) is written as CSV files (with a header or none; the
label first, last or named; three separators; plain or gzipped) and as NumPy arrays of every type that holds its values. A
model is trained on one form, and its predictions must be the same, to the last digit, from each form. A copy of the model
whose weights are the unit matrix shows the values that a network is given: they must equal the columns as pandas and numpy
standardize them, to 1e-6 of one deviation or of the value. The seed follows from the commit. The last line is
"N passed, N failed".
"""
import gzip
import io
import json
import math
import os
import random
import struct
import subprocess
import sys

import numpy
import pandas

sys.dont_write_bytecode = True  # leave no files in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import suite  # noqa: E402
from suite import require, seed_of_commit  # noqa: E402

# By kind of table: a random column of n values, and the types of arrays that hold such values exactly.
COLUMNS = {
    "bytes": (lambda draw, n: [draw.randrange(256) for _ in range(n)], ("u1", "i8", "f4", "f8")),
    "small integers": (lambda draw, n: [draw.randrange(-5000, 5000) for _ in range(n)], ("i4", "i8", "f4", "f8")),
    "times": (lambda draw, n: [1_700_000_000 + draw.randrange(100_000) for _ in range(n)], ("i8", "f8")),
    "floats": (lambda draw, n: [float(numpy.float32(draw.gauss(3, 2))) for _ in range(n)], ("f4", "f8")),
    "doubles": (lambda draw, n: [draw.gauss(draw.choice((0, 1e9)), 1) * 10 ** draw.randrange(-3, 3) for _ in range(n)],
                ("f8",)),
}


class Table:
    """Random rows with one more class than columns, so that a probability shows each value."""

    def __init__(self, draw):
        self.kind = draw.choice(list(COLUMNS))
        values, self.types = COLUMNS[self.kind]
        self.width = draw.randrange(1, 7)
        self.counts = {"train": draw.randrange(30, 120), "test": draw.randrange(self.width + 1, 25)}
        rows = sum(self.counts.values())
        columns = [[7] * rows if draw.random() < 0.1 else values(draw, rows) for _ in range(self.width)]
        self.rows = list(zip(*columns))
        self.labels = [row % (self.width + 1) for row in range(rows)]

    def part(self, name):
        begin = 0 if name == "train" else self.counts["train"]
        return slice(begin, begin + self.counts[name])

    def write_csv(self, folder, draw):
        """Returns the option that names the label's column."""
        at = draw.randrange(self.width + 1)
        header, separator, packed = draw.random() < 0.5, draw.choice(",;\t"), draw.random() < 0.3
        names = [f"column {k}" for k in range(self.width)]
        names.insert(at, "kind")
        for name in self.counts:
            lines = [separator.join(names)] if header else []
            for row, label in zip(self.rows[self.part(name)], self.labels[self.part(name)]):
                cells = [repr(value) for value in row]
                cells.insert(at, str(label))
                lines.append(separator.join(cells))
            write(f"{folder}/{name}.csv", ("\n".join(lines) + "\n").encode(), packed)
        return ":label=kind" if header and draw.random() < 0.5 else f":label={at + 1}"

    def write_arrays(self, folder, kind, draw):
        packed = draw.random() < 0.3
        for name in self.counts:
            for what, content in (("images", numpy.array(self.rows[self.part(name)], dtype=kind)),
                                  ("labels", numpy.array(self.labels[self.part(name)], dtype="u1"))):
                file = io.BytesIO()
                numpy.save(file, content)
                write(f"{folder}/{name}_{what}.npy", file.getvalue(), packed)
        return ""

    def standardized(self):
        """The rows of the test part, by the statistics of the training part, in double precision."""
        train = pandas.DataFrame(self.rows[self.part("train")], dtype="float64")
        deviation = train.std(ddof=0).to_numpy()
        constant = numpy.all(train.to_numpy() == train.to_numpy()[0], axis=0)
        test = numpy.array(self.rows[self.part("test")], dtype="float64")
        return (test - train.mean().to_numpy()) / numpy.where(constant, 1.0, deviation)


def write(path, content, packed):
    with (gzip.open(path + ".gz", "wb") if packed else open(path, "wb")) as file:
        file.write(content)


class Tables(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program = program

    def command(self, *words):
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True, timeout=suite.HANG,
                              env={**os.environ, "STARLING_EXPORT": "none"}, check=False)
        require(done.returncode == 0, f"{words}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def predictions(self, model, path):
        """Probabilities and labels of the test part."""
        found = json.loads(self.command("predict", model, "--data", path, "--json", "--probabilities"))["predictions"]
        return [(each["label"], each["probabilities"]) for each in found]

    def shown(self, model):
        """The path of a copy of the model whose outputs are its inputs, and 0 for the last class."""
        with open(os.path.join(self.folder, model), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            content = bytearray(file.read())
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                unit = numpy.eye(*entry["shape"]) if len(entry["shape"]) == 2 else numpy.zeros(entry["shape"])
                content[begin:end] = unit.astype("<f4").tobytes()
        text = json.dumps(header).encode()
        with open(os.path.join(self.folder, "shown.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + content)
        return "shown.safetensors"

    def compare(self, number, seed):
        draw = random.Random(f"{seed} {number}")
        table, forms = Table(draw), {}
        for form in ("first CSV", "second CSV", *table.types):
            path = f"{number}-{form.replace(' ', '-')}"
            os.makedirs(os.path.join(self.folder, path))
            whole = os.path.join(self.folder, path)
            forms[form] = path + (table.write_csv(whole, draw) if "CSV" in form else table.write_arrays(whole, form, draw))
        what = f"{table.kind}, {table.width} columns, seed {seed}"
        trained = draw.choice(list(forms))
        self.command("simulate", "--peers", "1", "--model", "softmax", "--data", forms[trained], "--steps", "5",
                     "--batch-size", "8", "--looks", "0", "--out", f"{number}-run")
        model = f"{number}-run/model.safetensors"
        expected = self.predictions(model, forms[trained])
        for form, path in forms.items():
            require(self.predictions(model, path) == expected, f"{what}: trained on {trained}, other predictions from {form}")
        for (label, odds), row, own in zip(self.predictions(self.shown(model), forms[trained]), table.standardized(),
                                           table.labels[table.part("test")], strict=True):
            require(label == own, f"{what}: label {label} for {own}")
            for k, value in enumerate(row):
                got = math.log(odds[k] / odds[-1])
                require(abs(got - value) <= 1e-6 * max(1, abs(value)), f"{what}: {got} for {value} in column {k}")

    def run(self):
        count = int(sys.argv[sys.argv.index("--count") + 1]) if "--count" in sys.argv else 30
        seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else seed_of_commit()
        print(f"   {count} tables, seed {seed}")
        for number in range(count):
            self.case(f"table {number}", lambda number=number: self.compare(number, seed))


sys.exit(suite.main(Tables))
