#!/usr/bin/env python3
"""Samples per second of PyTorch's training steps on a GPU, for each of PyTorch's fast variants.

usage: pytorch_gpu.py [--device cuda|cpu] [--precisions f32,tf32,bf16] [--variants eager,graph,compile,compile+graph]
                      [--seconds S] [--rounds N] [--limit SECONDS] MODEL:BATCH...

A step is the same as in train_bench: forward, loss, backward, SGD with momentum 0.9, or AdamW for text; but the batch
is already on the device.
Variants: `eager`; `graph`, the whole step captured as a CUDA graph and replayed; `compile`, network and loss through
torch.compile; `compile+graph`, both. bf16 uses autocast. Images are channels first or last, whichever is faster in eager
mode. Time is measured between device synchronizations. After `--limit` seconds nothing more is compiled. One line per
figure, the median of the rounds; failures are reported on standard error:
  resnet18 bf16 graph samples_per_second 12345.6
"""
import argparse
import contextlib
import statistics
import sys
import time

import torch
from torch import nn

from pytorch_models import MODELS, draw_batch, is_text, make

START = time.perf_counter()
VARIANTS = ("eager", "graph", "compile", "compile+graph")

parser = argparse.ArgumentParser()
parser.add_argument("models", nargs="+", metavar="MODEL:BATCH")
parser.add_argument("--device", default="cuda")
parser.add_argument("--precisions", default="f32,tf32,bf16")
parser.add_argument("--variants", default=",".join(VARIANTS))
parser.add_argument("--seconds", type=float, default=1.0)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--limit", type=float, default=float("inf"))
arguments = parser.parse_args()

device = torch.device(arguments.device)
on_gpu = device.type == "cuda"


def say(text):
    print(f"pytorch_gpu: {text}", file=sys.stderr, flush=True)


def synchronize():
    if on_gpu:
        torch.cuda.synchronize()


def rate(step, batch, seconds, rounds):
    """Samples per second: the median of several rounds of the given length."""
    for _ in range(3):
        step()
    synchronize()
    begin = time.perf_counter()
    step()
    synchronize()
    once = max(time.perf_counter() - begin, 1e-6)
    # Measure again over about a tenth of the time: a single step includes its wait for the device.
    trial = max(1, int(seconds / 10 / once))
    begin = time.perf_counter()
    for _ in range(trial):
        step()
    synchronize()
    count = max(1, int(seconds / max((time.perf_counter() - begin) / trial, 1e-7)))
    rates = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        synchronize()
        rates.append(count * batch / (time.perf_counter() - begin))
    return statistics.median(rates)


class Training:
    """A network, its optimizer and one batch of noise on the device."""

    def __init__(self, model, batch, precision, layout):
        torch.manual_seed(1)
        self.autocast = precision == "bf16"
        self.network = make(model).to(device).to(memory_format=layout)
        self.loss = nn.CrossEntropyLoss()
        self.forward = self.network_and_loss
        inputs, labels = draw_batch(model, batch)
        self.inputs = inputs.to(device).contiguous(memory_format=layout)
        self.labels = labels.to(device)
        more = {"fused": True} if on_gpu else {}
        if is_text(model):
            if on_gpu:
                more["capturable"] = True  # in a graph
            self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-6, weight_decay=0.1, **more)
        else:
            self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-6, momentum=0.9, **more)

    def network_and_loss(self):
        # Cached casts must not outlive a capture, so the cache is cleared between steps.
        casting = torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
        with casting if self.autocast else contextlib.nullcontext():
            return self.loss(self.network(self.inputs), self.labels)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.forward().backward()
        self.optimizer.step()

    def captured(self):
        """The step as one graph, as in the documentation of torch.cuda.graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay


def set_precision(precision):
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.benchmark = True


def best_layout(model, batch, precision):
    layouts = (torch.contiguous_format, torch.channels_last)
    if is_text(model) or model == "mlp":
        return layouts[0]
    return max(layouts, key=lambda layout: rate(Training(model, batch, precision, layout).step, batch, 0.2, 1))


def measure(model, batch, precision):
    set_precision(precision)
    training = Training(model, batch, precision, best_layout(model, batch, precision))
    for variant in VARIANTS:
        if variant not in arguments.variants.split(","):
            continue
        if "graph" in variant and not on_gpu:
            say(f"{variant} needs a GPU")
            continue
        compiles = variant.startswith("compile")
        if compiles and time.perf_counter() - START > arguments.limit:
            say(f"time limit reached, skipping {model} {precision} {variant}")
            continue
        try:
            if compiles and training.forward == training.network_and_loss:
                training.forward = torch.compile(training.network_and_loss)
                training.step()
            step = training.captured() if "graph" in variant else training.step
            figure = rate(step, batch, arguments.seconds, arguments.rounds)
            print(f"{model} {precision} {variant} samples_per_second {figure:.1f}", flush=True)
        except Exception as error:  # one way that does not work here must not hide the others
            say(f"{model} {precision} {variant}: {str(error).strip().splitlines()[0] if str(error) else repr(error)}")


say(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name() if on_gpu else 'the processor'}")
for word in arguments.models:
    name, size = word.split(":")
    for kind in arguments.precisions.split(","):
        measure(name, int(size), kind)
