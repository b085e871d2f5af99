"""A table that a linear model can learn, as a CSV file."""
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
