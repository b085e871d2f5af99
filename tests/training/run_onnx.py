#!/usr/bin/python3
"""Runs ONNX files in ONNX Runtime: run_onnx.py FOLDER

FOLDER has for each case NAME.onnx, NAME.input and NAME.logits, the bytes of both arrays, and NAME.extents, those of the
input. Fails, naming the cases, unless every logit is the file's to 1e-5, relative to the largest of the case if that is
above 1. Exits with 77 if a library is missing.
"""
import json
import os
import sys

source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(source, "build", "onnx"))
try:
    import numpy
    import onnxruntime
except ImportError as missing:
    print(f"{missing} (scripts/test installs it)")
    sys.exit(77)

BOUND = 1e-5
TYPES = {"tensor(uint8)": numpy.uint8, "tensor(float)": numpy.float32, "tensor(double)": numpy.float64,
         "tensor(int64)": numpy.int64}


def worst(got, expected):
    """The largest difference, relative to the largest value if that is above 1."""
    expected = expected.reshape(got.shape)
    return numpy.abs(got.astype(float) - expected).max() / max(1, numpy.abs(expected).max())


def difference(folder, name):
    path = os.path.join(folder, name)
    session = onnxruntime.InferenceSession(path + ".onnx", providers=["CPUExecutionProvider"])
    (port,) = session.get_inputs()
    with open(path + ".extents") as file:
        extents = json.load(file)
    values = numpy.fromfile(path + ".input", TYPES[port.type]).reshape(extents)
    assert len(port.shape) == len(extents) and port.shape[0] == "batch", port.shape
    expected = numpy.fromfile(path + ".logits", numpy.float32)
    logits = session.run(["logits"], {"input": values})[0]
    differences = [worst(logits, expected)]
    one = session.run(["logits"], {"input": values[:1]})[0]
    differences.append(worst(one, expected.reshape(logits.shape)[:1]))
    if port.type == "tensor(int64)" and extents[1] > 1:  # a position does not depend on the later ones
        length = extents[1] // 2
        begin = session.run(["logits"], {"input": values[:, :length]})[0]
        differences.append(worst(begin, expected.reshape(logits.shape)[:, :length]))
    return max(differences)


folder = sys.argv[1]
names = sorted(name[:-len(".onnx")] for name in os.listdir(folder) if name.endswith(".onnx"))
differences = {name: difference(folder, name) for name in names}
wrong = [f"{name}: {difference:.2g}" for name, difference in differences.items() if not difference <= BOUND]
print(f"{len(names)} networks, the largest difference {max(differences.values()):.2g}; wrong: {wrong}")
sys.exit(1 if wrong or not names else 0)
