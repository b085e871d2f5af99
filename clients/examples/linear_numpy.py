#!/usr/bin/env python3
"""A linear model y = w x + b, trained as a peer of a swarm, with NumPy: linear_numpy.py SOCKET [STEPS]"""
import sys

import numpy as np
import starling

INPUTS, BATCH, RATE = 8, 32, 0.1
random = np.random.default_rng()


def batch():
    """Points of the line that is to be learned: weights 1, 2, 3, ... and bias -1, with a little noise."""
    x = random.uniform(-1, 1, (BATCH, INPUTS)).astype(np.float32)
    return x, x @ np.arange(1, INPUTS + 1, dtype=np.float32) - 1 + random.normal(0, 0.01, BATCH).astype(np.float32)


params = {"weight": np.zeros(INPUTS, np.float32), "bias": np.zeros((), np.float32)}
peer = starling.attach(params, socket=sys.argv[1] if len(sys.argv) > 1 else None, model_name="linear", batch=BATCH)
with peer:
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 500):
        x, y = batch()
        error = x @ params["weight"] + params["bias"] - y
        params["weight"] -= RATE * 2 * x.T @ error / BATCH
        params["bias"] -= RATE * 2 * error.mean()
        params = peer.exchange(params, samples=BATCH, loss=float((error ** 2).mean()))
print(f"loss {(error ** 2).mean():.6f}, {peer.progress.exchanges} exchanges,", params["weight"].round(3))
