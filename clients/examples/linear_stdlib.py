#!/usr/bin/env python3
"""Softmax regression on a table, the network of `starling peer --model softmax --data FILE.csv`, with the standard
library only: linear_stdlib.py SOCKET FILE.csv [STEPS]. The last column is the class, from 0 on.
"""
import array
import csv
import math
import random
import statistics
import sys

import starling

BATCH, RATE = 32, 0.05


def read_table(path):
    """Rows with columns of mean 0 and deviation 1, and their classes."""
    with open(path, newline="", encoding="utf-8") as file:
        table = [[float(value) for value in row] for row in list(csv.reader(file))[1:]]
    *columns, classes = zip(*table)
    scaled = []
    for column in columns:
        mean, deviation = statistics.fmean(column), statistics.pstdev(column)
        scaled.append([(value - mean) / deviation for value in column])
    return list(zip(*scaled)), [int(value) for value in classes]


def probabilities(w, b, x):
    n = len(x)
    powers = [math.exp(b[c] + sum(map(float.__mul__, w[c * n:c * n + n].tolist(), x))) for c in range(len(b))]
    return [power / sum(powers) for power in powers]


def make_step(w, b):
    """Stochastic gradient descent; returns the batch's mean cross-entropy."""
    loss, gradient = 0, [[0.0] * (len(rows[0]) + 1) for _ in b]
    for k in random.choices(range(len(rows)), k=BATCH):
        p = probabilities(w, b, rows[k])
        loss -= math.log(p[classes[k]]) / BATCH
        p[classes[k]] -= 1
        gradient = [[g + share * value / BATCH for g, value in zip(row, (*rows[k], 1))] for row, share in zip(gradient, p)]
    for c, (*of_weights, of_bias) in enumerate(gradient):
        for i, value in enumerate(of_weights):
            w[c * len(of_weights) + i] -= RATE * value
        b[c] -= RATE * of_bias
    return loss


rows, classes = read_table(sys.argv[2])
count = max(classes) + 1
w, b = array.array("f", bytes(4 * count * len(rows[0]))), array.array("f", bytes(4 * count))
shaped = memoryview(w).cast("B").cast("f", (count, len(rows[0])))
with starling.attach({"fc1.weight": shaped, "fc1.bias": b}, socket=sys.argv[1], model_name="softmax", data="table",
                     epoch=len(rows), batch=BATCH) as peer:
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 10**9):
        loss = make_step(w, b)
        peer.exchange(samples=BATCH, loss=loss)
        if peer.progress.done:
            break
predictions = [max(range(count), key=probabilities(w, b, x).__getitem__) for x in rows]
right = sum(map(int.__eq__, predictions, classes))
print(f"loss {loss:.4f}, accuracy {right / len(rows):.4f}")
