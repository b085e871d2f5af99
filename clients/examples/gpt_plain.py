#!/usr/bin/env python3
"""A small GPT that learns a text character by character, with PyTorch. --text: a file; default
$STARLING_DATA/tinyshakespeare/input.txt.
"""
import argparse
import math
import os
import time

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    """Attention and a network of two layers, each added to its normalized input."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attend = torch.nn.Linear(width, 3 * width)
        self.join = torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, hidden):
        batch, length, width = x.shape
        parts = self.attend(self.ln1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width / self.heads)
        weights = scores.masked_fill(hidden[:length, :length], -math.inf).softmax(-1)
        x = x + self.join((weights @ value).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(torch.nn.Module):
    """Scores of the next character (batch, length, characters) for each of up to `length` characters."""

    def __init__(self, characters, length, width=128, heads=4, blocks=4):
        super().__init__()
        self.tokens = torch.nn.Embedding(characters, width)
        self.places = torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, characters, bias=False)
        self.head.weight = self.tokens.weight  # tied
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)  # characters that come later
        self.register_buffer("hidden", hidden, persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, text):
        x = self.tokens(text) + self.places.weight[:text.shape[1]]
        for block in self.blocks:
            x = block(x, self.hidden)
        return self.head(self.norm(x))


def batches(text, size, length):
    """Without end: passages of the text, and the same moved by one character."""
    while True:
        begins = torch.randint(len(text) - length - 1, (size, 1)) + torch.arange(length + 1)
        yield text[begins[:, :-1]], text[begins[:, 1:]]


def loss_of(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train(model, optimizer):
    model.train()
    begin = time.monotonic()
    for step, (x, y) in zip(range(1, arguments.steps + 1), batches(training, arguments.batch_size, arguments.length)):
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == arguments.steps:
            print(f"step {step}: loss {loss.item():.4f}, {time.monotonic() - begin:.1f} s", flush=True)


def test_loss(model):
    model.eval()
    with torch.no_grad():
        losses = [loss_of(model, x, y) for _, (x, y) in zip(range(10), batches(testing, 32, arguments.length))]
    return float(sum(losses)) / len(losses)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--text", default=os.path.join(os.environ.get("STARLING_DATA", "."), "tinyshakespeare/input.txt"))
parser.add_argument("--steps", type=int, default=500)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--length", type=int, default=64)
arguments = parser.parse_args()

with open(arguments.text, encoding="utf-8") as file:
    text = file.read()
index = {character: i for i, character in enumerate(sorted(set(text)))}
numbers = torch.tensor([index[character] for character in text])
training, testing = numbers[:len(numbers) * 9 // 10], numbers[len(numbers) * 9 // 10:]

model = GPT(len(index), arguments.length)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
train(model, optimizer)
print(f"loss on the last tenth of the text {test_loss(model):.4f}")
