#!/usr/bin/env python3
"""LeNet on MNIST with PyTorch. --data: the folder with the four idx files, plain or .gz; default $STARLING_DATA/mnist.

The network, its tensors' names and the settings are those of `starling peer --model lenet --data mnist`.
"""
import argparse
import gzip
import math
import os
import time

import starling
import torch
import torch.nn.functional as F


class LeNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 20, 3)
        self.conv2 = torch.nn.Conv2d(20, 50, 5)
        self.fc1 = torch.nn.Linear(50 * 4 * 4, 128)
        self.fc2 = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = F.avg_pool2d(F.relu(self.conv1(x)), 2)
        x = F.avg_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def read_idx(path):
    """The bytes of an idx file as a tensor of its shape."""
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz")
    with opened as file:
        data = bytearray(file.read())
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(data, dtype=torch.uint8, offset=4 + 4 * data[3], count=math.prod(shape)).reshape(shape)


def load(folder, name):
    """Images of 1x28x28 from 0 to 1, and labels."""
    images = read_idx(f"{folder}/{name}-images-idx3-ubyte").float().div(255).unsqueeze(1)
    return images, read_idx(f"{folder}/{name}-labels-idx1-ubyte").long()


def train(model, optimizer):
    model.train()
    for epoch in range(arguments.epochs):
        begin = time.monotonic()
        for batch in torch.randperm(len(images)).split(arguments.batch_size):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, {time.monotonic() - begin:.1f} s", flush=True)


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = [(model(x).argmax(1) == y).sum() for x, y in zip(images.split(1000), labels.split(1000))]
    return float(sum(right)) / len(labels)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", default=os.path.join(os.environ.get("STARLING_DATA", "."), "mnist"))
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--learning-rate", type=float, default=0.05)
arguments = parser.parse_args()

images, labels = load(arguments.data, "train")
test_images, test_labels = load(arguments.data, "t10k")
mean, deviation = images.mean(), images.std(unbiased=False)
images, test_images = (images - mean) / deviation, (test_images - mean) / deviation

model = LeNet()
optimizer = torch.optim.SGD(model.parameters(), lr=arguments.learning_rate, momentum=0.9)
with starling.gossip(model, optimizer, model_name="lenet", data="mnist", epoch=len(images), batch=arguments.batch_size):
    train(model, optimizer)
print(f"accuracy {accuracy(model, test_images, test_labels):.2%}")
