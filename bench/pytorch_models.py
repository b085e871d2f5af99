"""The networks of `train_bench` in PyTorch: the same layers and parameter counts."""
import math

import torch
from torch import nn
from torch.nn import functional as F


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


class LayerNorm(nn.Module):
    """Without a shift."""

    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None)


class Attention(nn.Module):
    def __init__(self, heads, features, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.inputs = nn.Linear(features, 3 * features, bias=False)
        self.outputs = nn.Linear(features, features, bias=False)

    def forward(self, x):
        batch, context, features = x.shape
        q, k, v = (part.view(batch, context, self.heads, -1).transpose(1, 2) for part in self.inputs(x).chunk(3, -1))
        dropout = self.dropout if self.training else 0
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            mask = torch.ones(context, context, dtype=torch.bool).tril()
            y = F.dropout(scores.masked_fill(~mask, -math.inf).softmax(-1), dropout) @ v
        return self.outputs(y.transpose(1, 2).reshape(batch, context, features))


class TransformerBlock(nn.Module):
    def __init__(self, heads, features, dropout):
        super().__init__()
        self.attention = nn.Sequential(LayerNorm(features), Attention(heads, features, dropout), nn.Dropout(dropout))
        self.perceptron = nn.Sequential(
            LayerNorm(features), nn.Linear(features, 4 * features, bias=False), nn.GELU(),
            nn.Linear(4 * features, features, bias=False), nn.Dropout(dropout))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.perceptron(x)


class Gpt(nn.Module):
    """Yields [batch x context, vocabulary]."""
    vocabulary = 65

    def __init__(self, layers, heads, features, context, dropout):
        super().__init__()
        self.embedding = nn.Embedding(self.vocabulary, features)
        self.position = nn.Parameter(0.02 * torch.randn(context, features))
        self.blocks = nn.Sequential(nn.Dropout(dropout),
                                    *(TransformerBlock(heads, features, dropout) for _ in range(layers)))
        self.norm = LayerNorm(features)
        self.head = nn.Linear(features, self.vocabulary, bias=False)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.blocks(self.embedding(tokens) + self.position)
        return self.head(self.norm(x)).flatten(0, 1)


# Network, input shape, number of parameters, default batch size. A text's input shape is its context.
MODELS = {
    "lenet": (lenet, (1, 28, 28), 129068, 64),
    "mlp": (mlp, (1, 28, 28), 235146, 64),
    "resnet18": (resnet18, (3, 32, 32), 11173962, 32),
    "gpt-tiny": (lambda: Gpt(4, 4, 128, 64, 0), 64, 804096, 12),
    "gpt-char": (lambda: Gpt(6, 6, 384, 256, 0.2), 256, 10745088, 12),
}


def is_text(name):
    return isinstance(MODELS[name][1], int)


def draw_batch(name, batch):
    """Random inputs and labels."""
    shape = MODELS[name][1]
    if is_text(name):
        return torch.randint(0, Gpt.vocabulary, (batch, shape)), torch.randint(0, Gpt.vocabulary, (batch * shape,))
    return torch.rand(batch, *shape) * 2 - 1, torch.randint(0, 10, (batch,))


def make_optimizer(name, network):
    """AdamW for text, else SGD with momentum, in PyTorch's fastest form."""
    if not is_text(name):
        return torch.optim.SGD(network.parameters(), lr=1e-6, momentum=0.9)
    fused = {} if torch.__version__.startswith("1.") else {"fused": True}
    return torch.optim.AdamW(network.parameters(), lr=1e-6, weight_decay=0.1, **fused)


def make(name):
    """Creates the network `name` with default initialization."""
    network = MODELS[name][0]()
    assert sum(p.numel() for p in network.parameters()) == MODELS[name][2]
    return network
