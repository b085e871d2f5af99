"""A trainer without dependencies: fits a line to noisy points, and exchanges with the other peers of its run.
trainer.py listen|join ADDRESS; prints the instant of the first step, the exchanges, and the line."""
import array
import random
import sys
import time

import starling

SLOPE, OFFSET, BATCH = 3, -1, 16

line = array.array("f", [0, 0])
begun = None
role, address = sys.argv[1:]
of_run = {"epochs": 2, "every": "8 steps"} if role == "listen" else {}
with starling.gossip({"line": line}, **{role: address}, name=role, epoch=16000, batch=BATCH, **of_run) as peer:
    while not peer.progress.done:
        loss, gradient = 0, [0, 0]
        for _ in range(BATCH):
            x = random.uniform(-1, 1)
            error = line[0] * x + line[1] - (SLOPE * x + OFFSET + random.gauss(0, 0.1))
            loss += error * error / BATCH
            gradient = [gradient[0] + 2 * error * x / BATCH, gradient[1] + 2 * error / BATCH]
        line[0] -= 0.1 * gradient[0]
        line[1] -= 0.1 * gradient[1]
        peer.exchange(samples=BATCH, loss=loss)
        begun = begun or time.time()
        time.sleep(0.001)
    exchanges = peer.progress.exchanges
print(f"first step {begun:.3f}, exchanges {exchanges}, line {line[0]:.2f} {line[1]:.2f}")
