#!/usr/bin/env python3
"""A small vision transformer that tells drawn shapes apart, with Lightning: vit_lightning.py [--epochs N]

The lines with "# starling" are all that a peer needs: without them this is the plain program.
"""
import argparse

import lightning
import starling.lightning  # starling
import torch
from torch import nn

SIDE, PATCH, CLASSES = 32, 4, 4


def shapes(count, seed):
    """Images of one disk, square, cross or ring each, of any size and place, in noise; and the classes."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(CLASSES, (count,), generator=generator)
    center = torch.rand(2, count, 1, 1, generator=generator) * 14 + 9
    size = torch.rand(count, 1, 1, generator=generator) * 4 + 4
    y, x = (torch.arange(SIDE).view(shape) - center[i] for i, shape in ((0, (SIDE, 1)), (1, (1, SIDE))))
    near, far = torch.minimum(x.abs(), y.abs()), torch.maximum(x.abs(), y.abs())
    round_ = (x**2 + y**2).sqrt()
    drawn = torch.stack([round_ < size, far < size, (far < size) & (near < 2), (round_ - size).abs() < 1.5])
    images = drawn[classes, torch.arange(count)].float() + 0.3 * torch.randn(count, SIDE, SIDE, generator=generator)
    return torch.utils.data.TensorDataset(images.unsqueeze(1), classes)


class ViT(lightning.LightningModule):
    def __init__(self, width=64, layers=3):
        super().__init__()
        self.patches = nn.Conv2d(1, width, PATCH, PATCH)
        self.places = nn.Parameter(torch.randn(1, (SIDE // PATCH)**2, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.encoder(x).mean(1))

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("accuracy", (self(batch[0]).argmax(1) == batch[1]).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=5)
arguments = parser.parse_args()

trainer = lightning.Trainer(
    max_epochs=arguments.epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
    callbacks=[starling.lightning.Gossip(accuracy="accuracy", model_name="vit", data="shapes")],  # starling
)
model = ViT()
test = torch.utils.data.DataLoader(shapes(1000, 1), 100)
trainer.fit(model, torch.utils.data.DataLoader(shapes(4000, torch.seed() % 2**32), 32, shuffle=True), test)
print(f"accuracy {float(trainer.validate(model, test, verbose=False)[0]['accuracy']):.1%}")
