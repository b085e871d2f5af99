#!/usr/bin/python3
"""Ten training losses of PyTorch for the networks of tests/models/pytorch_test.cc. The test compares Starling with
these numbers: the same parameters, batches and optimizer (SGD, rate 0.05, momentum 0.9), float32. Then the first
parameters of each tensor after ten steps of AdamW, for tests/training/optimizer_state_test.cc.

usage: scripts/pytorch_losses.py        (prints the numbers; needs PyTorch, Debian: python3-torch)

All numbers come from one stream (splitmix64, 24 bits per draw): first the parameters in the order of the network's
tensors (weights and biases uniform in +-1/sqrt(fan-in); normalizations have weight 1 and bias 0 without a draw), then the
batches, each with inputs uniform in +-1, then labels.
"""
import math

import torch
from torch import nn

MASK = (1 << 64) - 1


class Stream:
    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def unit(self):
        """Uniform in [0, 1), a multiple of 2^-24."""
        return (self.bits() >> 40) / (1 << 24)

    def uniform(self, shape, bound):
        count = math.prod(shape)
        return torch.tensor([(2 * self.unit() - 1) * bound for _ in range(count)], dtype=torch.float64).float().reshape(shape)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


class Block(nn.Module):
    """The layers first, then those of the shortcut, in Starling's order."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return torch.relu(self.layers(x) + self.shortcut(x))


def resnet8():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def fill(network, stream):
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            bound = 1 / math.sqrt(module.weight[0].numel())
            for tensor in (module.weight, module.bias):
                if tensor is not None:
                    tensor.data = stream.uniform(tuple(tensor.shape), bound)


def losses(network, shape, batch, steps=10):
    stream = Stream(1)
    fill(network, stream)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    result = []
    for _ in range(steps):
        inputs = stream.uniform((batch, *shape), 1)
        labels = torch.tensor([stream.bits() % 10 for _ in range(batch)])
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(network(inputs), labels)
        loss.backward()
        optimizer.step()
        result.append(loss.item())
    return result


def adamw(steps=10):
    """Drawn parameters and gradients, of which two in three are clipped. Matrices decay, other tensors do not."""
    stream = Stream(2)
    shapes = (6, 5), (6,), (3, 2, 3), (3,)
    parameters = [nn.Parameter(stream.uniform(shape, 1)) for shape in shapes]
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.5},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    for step in range(1, steps + 1):
        for parameter in parameters:
            parameter.grad = stream.uniform(tuple(parameter.shape), 0.1 if step % 3 == 1 else 2)
        nn.utils.clip_grad_norm_(parameters, 1)
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * min(1, step / 5)
        optimizer.step()
    return parameters


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, make, shape, batch in (("lenet", lenet, (1, 28, 28), 64), ("resnet8", resnet8, (3, 32, 32), 16)):
        print(name, ", ".join(f"{loss:.7f}" for loss in losses(make(), shape, batch)))
    for parameter in adamw():
        print("adamw", ", ".join(f"{value:.7f}" for value in parameter.detach().flatten().tolist()[:6]))
