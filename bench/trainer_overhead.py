#!/usr/bin/env python3
"""What gossip costs a PyTorch step: the median step with an exchange every 8 steps, divided by the median of the same
steps without a peer.

usage: trainer_overhead.py PROGRAM [--rounds N] [--network lenet|wide]

The trainer has processor 0, its peer and the partner processor 1. Rounds of both kinds alternate; each kind's steps are
those of all rounds, and a second figure has their means, which include the steps that post and take. This Python needs
PyTorch.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "clients", "python"))
STEPS, WARM = 200, 20


def make(torch, name):
    nn = torch.nn
    if name == "wide":  # 10 million parameters
        return nn.Sequential(nn.Linear(784, 2800), nn.ReLU(), nn.Linear(2800, 2800), nn.ReLU(), nn.Linear(2800, 10)), (784,)
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10)), (1, 28, 28)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--network", choices=["lenet", "wide"], default="lenet")
    parser.add_argument("--partner", metavar="SOCKET", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would take the other processor, too
    import starling
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, shape = make(torch, arguments.network)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.rand(64, *shape), torch.randint(0, 10, (64,))

    def step():
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    def steps():
        times = []
        for number in range(WARM + STEPS):
            begin = time.perf_counter()
            step()
            if number >= WARM:
                times.append(time.perf_counter() - begin)
        return times

    os.sched_setaffinity(0, {1})  # of the peers, which inherit it
    folder = tempfile.mkdtemp(prefix="starling-bench-")
    log = os.path.join(folder, "partner")
    with open(log, "wb") as file:
        partner = subprocess.Popen([arguments.program, "peer", "--listen", "127.0.0.1:0", "--trainer",
                                    os.path.join(folder, "socket"), "--every", "8 steps", "--export", "none"],
                                   stdout=file, stderr=subprocess.STDOUT)
    other, _ = make(torch, arguments.network)
    held = []

    def hold():  # attaches the partner's parameters, and makes no steps: the partner only answers
        held.append(starling.gossip(other, None, socket=os.path.join(folder, "socket"), model_name="net"))
    while not os.path.exists(os.path.join(folder, "socket")):
        time.sleep(0.01)
    hold()
    address = None
    while not address:
        with open(log, encoding="utf-8") as file:
            address = re.search(r"listens at (\S+),", file.read())
    with_peer, without = [], []
    exchanges = 0
    try:
        for _ in range(arguments.rounds):
            os.sched_setaffinity(0, {0})
            without += steps()
            os.sched_setaffinity(0, {1})
            with starling.gossip(model, optimizer, join=address.group(1), program=arguments.program, model_name="net",
                                 log=os.path.join(folder, "peer")) as peer:
                os.sched_setaffinity(0, {0})
                with_peer += steps()
                exchanges += peer.progress.exchanges
    finally:
        partner.terminate()
        partner.wait()
    ratios = [f(with_peer) / f(without) for f in (statistics.median, statistics.mean)]
    print(f"{arguments.network}, PyTorch {torch.__version__}: a step takes {1e3 * statistics.median(without):.3f} ms;"
          f" with exchanges {ratios[0]:.3f} of it (median), {ratios[1]:.3f} (mean); {exchanges} exchanges in"
          f" {len(with_peer)} steps")


if __name__ == "__main__":
    main()
