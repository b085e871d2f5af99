#!/usr/bin/env python3
"""A pairwise exchange as written by a PyTorch user: two processes, torch.distributed over Gloo on loopback, isend and
irecv of the whole vector at once, then the average. One line per vector, in the format of exchange_bench:
  gloo floats 11250000 gbit_per_second 5.31 median_ms 67.8
"""
import argparse
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def exchange(mine, theirs, other):
    waits = [dist.isend(mine, other), dist.irecv(theirs, other)]
    for wait in waits:
        wait.wait()
    mine.add_(theirs).mul_(0.5)


def run(rank, options, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    if options.pin:
        os.sched_setaffinity(0, {rank})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    for floats in options.floats:
        mine, theirs = torch.rand(floats), torch.empty(floats)
        for _ in range(3):
            exchange(mine, theirs, 1 - rank)
        rounds = options.rounds or max(10, 225_000_000 // floats)
        dist.barrier()
        seconds = []
        for _ in range(rounds):
            begun = time.perf_counter()
            exchange(mine, theirs, 1 - rank)
            seconds.append(time.perf_counter() - begun)
        if rank == 0:
            rate = 32e-9 * floats * rounds / sum(seconds)
            print(f"gloo floats {floats} gbit_per_second {rate:.2f} median_ms {1e3 * statistics.median(seconds):.3f}",
                  flush=True)
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--floats", type=int, nargs="+", default=[11_250_000, 125_000])
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--pin", action="store_true")
    options = parser.parse_args()
    processes.spawn(run, args=(options, free_port()), nprocs=2)
