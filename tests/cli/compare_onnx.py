#!/usr/bin/python3
"""Gives the cells of a table to an ONNX file: compare_onnx.py MODEL.onnx TABLE.csv PREDICTIONS.csv

Fails unless classes and probabilities are those of `starling predict`. Exits with 77 if a library is missing.
"""
import csv
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

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
facts = session.get_modelmeta().custom_metadata_map
columns, names = json.loads(facts["columns"]), json.loads(facts["class_names"])
with open(sys.argv[2]) as table, open(sys.argv[3]) as told:
    rows, predictions = list(csv.DictReader(table)), list(csv.DictReader(told))
values = numpy.array([[float(row[column]) for column in columns] for row in rows])
logits = session.run(["logits"], {"input": values})[0].astype(float)
probabilities = numpy.exp(logits - logits.max(1, keepdims=True))
probabilities /= probabilities.sum(1, keepdims=True)
assert len(rows) == len(predictions) > 0
label = next(column for column in rows[0] if column not in columns)
for row, prediction, each in zip(rows, predictions, probabilities):
    assert int(prediction["class"]) == each.argmax(), (prediction, each)
    assert abs(float(prediction["probability"]) - each.max()) < 1e-5, (prediction, each)
    assert names[int(prediction["label"])] == row[label], (prediction, row)
