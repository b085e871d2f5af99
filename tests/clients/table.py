"""What several tests train: a table that a linear model can learn, as a CSV file, and a network with tied weights."""
import csv
import random


def table(path, rows=2000, inputs=8, classes=4, seed=1):
    """Standard normal columns x0, x1, ..., and a label that is the largest of `classes` linear functions of them."""
    chance = random.Random(seed)
    weights = [[chance.gauss(0, 1) for _ in range(inputs)] for _ in range(classes)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{i}" for i in range(inputs)), "label"])
        for _ in range(rows):
            x = [chance.gauss(0, 1) for _ in range(inputs)]
            scores = [sum(a * b for a, b in zip(row, x)) for row in weights]
            writer.writerow([*(f"{value:.4f}" for value in x), scores.index(max(scores))])
    return path


def tied():
    """A network with 8 inputs and 2 outputs, two layers of which have the same weights."""
    from torch import nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2)
            self.out.weight = self.into.weight

        def forward(self, x):
            return self.head(self.out(self.into(x).relu()).relu())
    return Tied()
