#!/usr/bin/python3
"""Losses and gradients of PyTorch for the Transformers of tests/models/pytorch_text_test.cc. The test compares Starling
with these numbers: the same parameters, batches and optimizer (SGD, momentum 0.9, the rates below), float32.

usage: scripts/pytorch_text_losses.py    (prints the numbers as C++; needs PyTorch, Debian: python3-torch)

All numbers come from one stream (that of pytorch_losses.py): first the parameters in the order of the network's tensors
(weights uniform with the deviation of their first values; scales of normalizations uniform in 1 +- 0.1, shifts and biases
in +-0.1), then the batches: for each sequence context + 1 tokens, the first one uniform, each next one 3 times the
last, or one more, modulo the vocabulary. Of the first batch's gradients each tensor has two
numbers: its norm, and its product with as many draws, uniform in +-1, of a second stream.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

from pytorch_losses import Stream

VOCABULARY, CONTEXT, FEATURES, LAYERS, HEADS, BATCH, STEPS = 65, 64, 128, 4, 4, 12, 20
SIZE = FEATURES // HEADS
DEVIATION, OUT_DEVIATION = 0.02, 0.02 / math.sqrt(2 * LAYERS)


class Scaled(nn.Module):
    """Layer norm without a shift, or RMS norm."""

    def __init__(self, center):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(FEATURES))
        self.center = center

    def forward(self, x):
        if self.center:
            x = x - x.mean(-1, keepdim=True)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    def __init__(self, groups, rotary):
        super().__init__()
        self.groups, self.rotary = groups, rotary
        self.inputs = nn.Linear(FEATURES, (HEADS + 2 * groups) * SIZE, bias=False)
        self.outputs = nn.Linear(HEADS * SIZE, FEATURES, bias=False)

    def turn(self, x):  # [batch, heads, context, size]
        if not self.rotary:
            return x
        angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64),
                             10000.0 ** (-torch.arange(0, SIZE, 2, dtype=torch.float64) / SIZE))
        cosine, sine = angles.cos().float(), angles.sin().float()
        a, b = x[..., :SIZE // 2], x[..., SIZE // 2:]
        return torch.cat((a * cosine - b * sine, a * sine + b * cosine), -1)

    def forward(self, x):
        batch, context, _ = x.shape
        sizes = [HEADS * SIZE, self.groups * SIZE, self.groups * SIZE]
        q, k, v = (part.view(batch, context, -1, SIZE).transpose(1, 2) for part in self.inputs(x).split(sizes, -1))
        q, k = self.turn(q), self.turn(k)
        k, v = (part.repeat_interleave(HEADS // self.groups, 1) for part in (k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(SIZE)
        mask = torch.ones(context, context, dtype=torch.bool).tril()
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return self.outputs((weights @ v).transpose(1, 2).reshape(batch, context, -1))


class Block(nn.Module):
    def __init__(self, llama):
        super().__init__()
        self.llama = llama
        hidden = 352 if llama else 4 * FEATURES
        self.norm1, self.attention = Scaled(not llama), Attention(2 if llama else HEADS, llama)
        self.norm2 = Scaled(not llama)
        self.up = nn.Linear(FEATURES, 2 * hidden if llama else hidden, bias=False)
        self.down = nn.Linear(hidden, FEATURES, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        h = self.up(self.norm2(x))
        if self.llama:
            a, b = h.chunk(2, -1)
            h = F.silu(a) * b
        else:
            h = F.gelu(h)
        return x + self.down(h)


class Network(nn.Module):
    def __init__(self, llama):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.position = None if llama else nn.Parameter(torch.zeros(CONTEXT, FEATURES))
        self.blocks = nn.ModuleList(Block(llama) for _ in range(LAYERS))
        self.norm = Scaled(not llama)
        self.head = nn.Linear(FEATURES, VOCABULARY, bias=False)
        if not llama:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.position is not None:
            x = x + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def tensors(self):
        """In Starling's order, each with the bound of its draws."""
        yield self.embedding.weight, DEVIATION * math.sqrt(3)
        if self.position is not None:
            yield self.position, DEVIATION * math.sqrt(3)
        for block in self.blocks:
            yield block.norm1.weight, None
            yield block.attention.inputs.weight, DEVIATION * math.sqrt(3)
            yield block.attention.outputs.weight, OUT_DEVIATION * math.sqrt(3)
            yield block.norm2.weight, None
            yield block.up.weight, DEVIATION * math.sqrt(3)
            yield block.down.weight, OUT_DEVIATION * math.sqrt(3)
        yield self.norm.weight, None
        if self.head.weight is not self.embedding.weight:
            yield self.head.weight, DEVIATION * math.sqrt(3)


def sequence(stream):
    tokens = [stream.bits() % VOCABULARY]
    while len(tokens) <= CONTEXT:
        tokens.append((3 * tokens[-1] + stream.bits() % 2) % VOCABULARY)
    return tokens


def run(llama, rate):
    stream, marks = Stream(1), Stream(2)
    network = Network(llama)
    for tensor, bound in network.tensors():
        shape = tuple(tensor.shape)
        tensor.data = stream.uniform(shape, bound) if bound else 1 + stream.uniform(shape, 0.1)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
    losses, gradients = [], []
    for step in range(STEPS):
        tokens = torch.tensor([sequence(stream) for _ in range(BATCH)])
        optimizer.zero_grad()
        logits = network(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        loss.backward()
        if step == 0:
            for tensor, _ in network.tensors():
                gradient = tensor.grad.double()
                mark = marks.uniform(tuple(tensor.shape), 1).double()
                gradients.append((gradient.norm().item(), (gradient * mark).sum().item()))
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients


def main():
    torch.set_num_threads(1)
    for name, llama, rate in (("gpt-tiny", False, 0.1), ("llama-tiny", True, 0.02)):
        losses, gradients = run(llama, rate)
        print(f"// {name}: losses, then the norm and the product of each tensor's gradient")
        print("{" + ", ".join(f"{loss:.7f}" for loss in losses) + "},")
        print("{" + ", ".join(f"{{{a:.7e}, {b:.7e}}}" for a, b in gradients) + "},")


if __name__ == "__main__":
    main()
