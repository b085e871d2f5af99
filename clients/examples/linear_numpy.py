#!/usr/bin/env python3
"""Softmax regression on a table, the network of `starling peer --model softmax --data FILE.csv`, with NumPy:
linear_numpy.py SOCKET FILE.csv [STEPS]. The last column is the class, from 0 on.
"""
import sys

import numpy as np
import starling

BATCH, RATE = 32, 0.05


def probabilities(params, x):
    powers = np.exp(x @ params["fc1.weight"].T + params["fc1.bias"])
    return powers / powers.sum(1, keepdims=True)


table = np.loadtxt(sys.argv[2], delimiter=",", skiprows=1, dtype=np.float32)
rows, classes = table[:, :-1], table[:, -1].astype(int)
rows = (rows - rows.mean(0)) / rows.std(0)
count = classes.max() + 1
random = np.random.default_rng()
params = {"fc1.weight": np.zeros((count, rows.shape[1]), np.float32), "fc1.bias": np.zeros(count, np.float32)}
with starling.attach(params, socket=sys.argv[1], model_name="softmax", data="table", epoch=len(rows),
                     batch=BATCH) as peer:
    for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 10**9):
        chosen = random.integers(len(rows), size=BATCH)
        p = probabilities(params, rows[chosen])
        loss = -np.log(p[np.arange(BATCH), classes[chosen]]).mean()
        p[np.arange(BATCH), classes[chosen]] -= 1
        params["fc1.weight"] -= RATE * p.T @ rows[chosen] / BATCH
        params["fc1.bias"] -= RATE * p.mean(0)
        params = peer.exchange(params, samples=BATCH, loss=float(loss))
        if peer.progress.done:
            break
print(f"loss {loss:.4f}, accuracy {(probabilities(params, rows).argmax(1) == classes).mean():.4f}")
