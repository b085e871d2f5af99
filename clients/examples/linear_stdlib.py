#!/usr/bin/env python3
"""A linear model y = w x + b, trained as a peer of a swarm, with the standard library only.

    linear_stdlib.py SOCKET [STEPS]
"""
import array
import random
import sys

import starling

INPUTS, BATCH, RATE = 8, 32, 0.1


def sample():
    """A point of the line that is to be learned: weights 1, 2, 3, ... and bias -1, with a little noise."""
    x = [random.uniform(-1, 1) for _ in range(INPUTS)]
    return x, sum((i + 1) * value for i, value in enumerate(x)) - 1 + 0.01 * random.uniform(-1, 1)


def make_step(w, b):
    """Stochastic gradient descent on the mean squared error, which it returns."""
    gradient, loss = [0.0] * (INPUTS + 1), 0
    for x, y in (sample() for _ in range(BATCH)):
        error = sum(map(float.__mul__, w.tolist(), x)) + b[0] - y
        gradient = [g + 2 * error * value / BATCH for g, value in zip(gradient, [*x, 1])]
        loss += error * error / BATCH
    for i in range(INPUTS):
        w[i] -= RATE * gradient[i]
    b[0] -= RATE * gradient[INPUTS]
    return loss


params = {"weight": array.array("f", [0] * INPUTS), "bias": array.array("f", [0])}
peer = starling.attach(params, socket=sys.argv[1] if len(sys.argv) > 1 else None, model_name="linear", batch=BATCH)
with peer:
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 500):
        loss = make_step(params["weight"], params["bias"])
        peer.exchange(params, samples=BATCH, loss=loss)
print(f"loss {loss:.6f}, {peer.progress.exchanges} exchanges,", *(f"{value:.3f}" for value in params["weight"]))
