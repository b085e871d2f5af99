#!/usr/bin/env python3
"""Swarms of four peers with LeNet on MNIST, whose steps PyTorch makes, our engine, or both: accuracy at equal samples.

usage: trainers.py PROGRAM MNIST-FOLDER [--epochs E] [--seeds N] [--every WHEN] [--only WORDS]

The four peers have a quarter of the samples each and the same settings (SGD, rate 0.05, momentum 0.9, batches of 64). The
accuracy is the mean of the four replicas on the test images at the end. This Python needs PyTorch.
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
CLIENTS = os.path.join(os.path.dirname(HERE), "clients")
KINDS = {"4 engine": 0, "2 engine + 2 PyTorch": 2, "4 PyTorch": 4}
PATIENCE = 600  # seconds, for a run


def parts_of_example():
    """The network and the functions of the example, without its main part."""
    parts = {}
    with open(os.path.join(CLIENTS, "examples", "mnist_plain.py"), encoding="utf-8") as file:
        exec(file.read().partition("\nparser = ")[0], parts)
    return parts


def work(arguments):
    """One trainer: the process that this program starts for each PyTorch peer."""
    sys.path.insert(0, os.path.join(CLIENTS, "python"))
    import starling
    import torch
    parts = parts_of_example()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    images, labels = parts["load"](arguments.data, "train")
    test_images, test_labels = parts["load"](arguments.data, "t10k")
    mean, deviation = images.mean(), images.std(unbiased=False)
    images, test_images = (images - mean) / deviation, (test_images - mean) / deviation
    shard = torch.arange(arguments.slot, len(images), 4)
    model = parts["LeNet"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    with starling.gossip(model, optimizer, socket=arguments.socket, model_name="lenet", data="mnist", epoch=len(images),
                         batch=64) as peer:
        model.train()
        while not peer.progress.done:
            for batch in shard[torch.randperm(len(shard))].split(64):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()
                if peer.progress.done:
                    break
    print(f"accuracy {100 * parts['accuracy'](model, test_images, test_labels):.2f} %")


class Run:
    """One swarm."""

    def __init__(self, arguments, of_torch, seed):
        self.arguments, self.seed, self.of_torch = arguments, seed, of_torch
        self.folder = tempfile.mkdtemp(prefix="starling-bench-")
        self.processes, self.logs, self.first = [], [], None

    def start(self, name, words):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as log:
            self.processes.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT,
                                                   env={**os.environ, "OMP_NUM_THREADS": "1"}))
        self.logs.append(path)
        return path

    def text(self, path):
        with open(path, encoding="utf-8") as log:
            return log.read()

    def await_line(self, path, words):
        end = time.monotonic() + PATIENCE
        while words not in self.text(path):
            if time.monotonic() > end:
                sys.exit(f"trainers.py: no line with '{words}' in {path}")
            time.sleep(0.05)

    def peer(self, number):
        arguments = self.arguments
        words = [arguments.program, "peer", "--name", f"p{number}", "--listen", "127.0.0.1:0", "--export", "none",
                 "--slot", f"{number}/4"]
        is_torch = number < self.of_torch
        socket = os.path.join(self.folder, f"s{number}")
        if is_torch:
            words += ["--trainer", socket]
        if self.first:
            words += ["--join", self.first]
        else:
            words += ["--epochs", arguments.epochs, "--every", arguments.every, "--seed", str(self.seed)]
            words += [] if is_torch else ["--model", "lenet", "--data", "mnist"]
        log = self.start(f"p{number}", words)
        if is_torch:
            self.start(f"t{number}", [sys.executable, os.path.abspath(__file__), arguments.program, arguments.data,
                                      "--socket", socket, "--slot", str(number), "--seed", str(10 * self.seed + number)])
        self.await_line(log, "listens at")
        if is_torch or not self.first:
            self.await_line(log, "training begins")
        self.first = self.first or re.search(r"listens at (\S+),", self.text(log)).group(1)

    def accuracy(self):
        for number in range(4):
            self.peer(number)
        for process in self.processes:
            if process.wait(PATIENCE) != 0:
                sys.exit("trainers.py: a process failed; see " + self.folder)
        found = [float(a) for path in self.logs for a in re.findall(r"accuracy ([\d.]+) %", self.text(path))]
        assert len(found) == 4, (self.folder, found)
        return statistics.mean(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data")
    parser.add_argument("--epochs", default="3")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--every", default="8 steps")
    parser.add_argument("--only", default="", help="only kinds whose names contain these words")
    parser.add_argument("--socket", help=argparse.SUPPRESS)
    parser.add_argument("--slot", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.socket:
        return work(arguments)
    os.environ["STARLING_DATA"] = os.path.dirname(os.path.abspath(arguments.data))
    for kind, of_torch in KINDS.items():
        if arguments.only not in kind:
            continue
        begin = time.monotonic()
        found = [Run(arguments, of_torch, seed).accuracy() for seed in range(1, arguments.seeds + 1)]
        print(f"{kind:22} {statistics.mean(found):.2f} %  ({', '.join(f'{a:.2f}' for a in found)})"
              f"  {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
