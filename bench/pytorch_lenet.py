#!/usr/bin/python3
"""Samples a second of PyTorch's training step for the LeNet of `train_bench lenet`: the same layers, batch and optimizer.

usage: pytorch_lenet.py [--threads N] [--seconds S]
"""
import argparse
import time

import torch
from torch import nn

BATCH = 64

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=2.0)
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
torch.manual_seed(1)
network = nn.Sequential(
    nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
    nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
    nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))
assert sum(p.numel() for p in network.parameters()) == 129068
optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
loss = nn.CrossEntropyLoss()
inputs = torch.rand(BATCH, 1, 28, 28) * 2 - 1
labels = torch.randint(0, 10, (BATCH,))


def step():
    optimizer.zero_grad()
    loss(network(inputs), labels).backward()
    optimizer.step()


for _ in range(5):
    step()
begin = time.perf_counter()
steps = 0
while True:
    step()
    steps += 1
    elapsed = time.perf_counter() - begin
    if elapsed >= arguments.seconds:
        break
print(f"lenet samples_per_second {steps * BATCH / elapsed:.1f}")
