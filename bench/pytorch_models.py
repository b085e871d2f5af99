"""The networks of `train_bench` in PyTorch: the same layers and parameter counts."""
import torch
from torch import nn


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


def convolution(channels_in, channels_out, kernel, stride):
    return [nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(channels_out)]


class Block(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.layers = nn.Sequential(
            *convolution(channels_in, channels_out, 3, stride), nn.ReLU(),
            *convolution(channels_out, channels_out, 3, 1))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(*convolution(channels_in, channels_out, 1, stride))

    def forward(self, x):
        return torch.relu(self.layers(x) + self.shortcut(x))


def resnet18():
    layers = [*convolution(3, 64, 3, 1), nn.ReLU()]
    channels = 64
    for stage in (64, 128, 256, 512):
        layers += [Block(channels, stage, 1 if stage == channels else 2), Block(stage, stage, 1)]
        channels = stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


# Network, input shape, number of parameters, default batch size.
MODELS = {
    "lenet": (lenet, (1, 28, 28), 129068, 64),
    "mlp": (mlp, (1, 28, 28), 235146, 64),
    "resnet18": (resnet18, (3, 32, 32), 11173962, 32),
}


def make(name):
    """Creates the network `name` with default initialization."""
    network = MODELS[name][0]()
    assert sum(p.numel() for p in network.parameters()) == MODELS[name][2]
    return network
