#!/usr/bin/python3
"""Samples per second of PyTorch's training step (SGD with momentum, AdamW for text; float32, or bfloat16 by autocast) for
a network of `train_bench`: the same layers, batch and optimizer.

usage: pytorch_step.py lenet|mlp|resnet18|gpt-tiny|gpt-char [--batch N] [--threads N] [--seconds S] [--precision f32|bf16]
                       [--variant eager|compile]
       pytorch_step.py --version    PyTorch's version and BLAS
"""
import argparse
import os
import re
import time

# Where PyTorch calls OpenBLAS, --threads are PyTorch's own: OpenBLAS's would compete with them, and are never faster here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import torch
from torch import nn

from pytorch_models import MODELS, draw_batch, make, make_optimizer

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=sorted(MODELS), nargs="?")
parser.add_argument("--version", action="store_true")
parser.add_argument("--variant", choices=("eager", "compile"), default="eager")
parser.add_argument("--batch", type=int)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seconds", type=float, default=2.0)
parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
arguments = parser.parse_args()

if arguments.version or not arguments.model:
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    print(f"PyTorch {torch.__version__}, BLAS: {blas.group(1) if blas else 'unknown'}")
    raise SystemExit
batch = arguments.batch or MODELS[arguments.model][3]
torch.set_num_threads(arguments.threads)
torch.manual_seed(1)
network = make(arguments.model)
if arguments.variant == "compile":
    network = torch.compile(network)
optimizer = make_optimizer(arguments.model, network)
loss = nn.CrossEntropyLoss()
inputs, labels = draw_batch(arguments.model, batch)


def step():
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
        value = loss(network(inputs), labels)
    value.backward()
    optimizer.step()


for _ in range(2 if arguments.model == "resnet18" else 5):
    step()
begin = time.perf_counter()
steps = 0
while True:
    step()
    steps += 1
    elapsed = time.perf_counter() - begin
    if elapsed >= arguments.seconds:
        break
print(f"{arguments.model} samples_per_second {steps * batch / elapsed:.2f}")
