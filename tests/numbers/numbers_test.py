#!/usr/bin/python3
"""Compares figures that the program prints with the same figures by NumPy, in double precision, from their definitions: models
for text, graphs, times to a target. numbers_test.py PROGRAM [--seed N]; the seed follows from the commit. The last line is
"N passed, N failed"."""

import csv
import json
import math
import os
import random
import re
import struct
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import suite  # noqa: E402
from suite import require, seed_of_commit  # noqa: E402

CONTEXT, HEADS, WIDTH = 64, 4, 32  # of gpt-tiny and llama-tiny: tokens, heads, features of a head
GRAPHS = ["line", "ring", "torus", "complete", "star", "exponential", "hypercube", "random-regular:k=4", "erdos-renyi:p=0.3",
          "small-world:k=4,p=0.2"]


def close(theirs, own, relative, what):
    require(abs(theirs - own) <= relative * max(1, abs(own)), f"{what}: {theirs}, by NumPy {own}")


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v):
    """Causal, [tokens, heads, features of a head]; heads of k and v serve as many neighboring heads of q each."""
    k, v = (np.repeat(x, HEADS // x.shape[1], 1) for x in (k, v))
    scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(WIDTH)
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    return np.einsum("hij,jhd->ihd", softmax(scores), v).reshape(len(q), -1)


def rotated(x):
    """RoFormer (Su et al., 2021) in the order of Llama: features i and i + WIDTH / 2 are a pair."""
    angle = np.outer(np.arange(len(x)), 10000.0 ** (-np.arange(WIDTH // 2) / (WIDTH // 2)))[:, None]
    a, b = x[..., :WIDTH // 2], x[..., WIDTH // 2:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


class Text:
    """A model for text from a safetensors file, with a tokenizer of characters."""

    def __init__(self, path):
        with open(path, "rb") as file:
            head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = file.read()
        about = head.pop("__metadata__")
        self.weights = {name: np.frombuffer(data[slice(*it["data_offsets"])], "<f4").reshape(it["shape"]).astype(float)
                        for name, it in head.items()}
        ranges = about["tokenizer"].splitlines()[1].split()[1:]
        self.letters = "".join(map(chr, (c for r in ranges for c in range(int(r[:2], 16), int(r[-2:], 16) + 1))))

    def logits(self, tokens):
        w, products, norms = self.weights, 0, 0

        def linear(x):
            nonlocal products
            products += 1
            return x @ w[f"fc{products}.weight"].T

        def norm(x):
            nonlocal norms
            norms += 1
            if f"norm{norms}.weight" in w:
                return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"norm{norms}.weight"]
            x = x - x.mean(-1, keepdims=True)
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[f"ln{norms}.weight"]

        def heads(x):
            return x.reshape(len(x), -1, WIDTH)

        x, llama = w["embedding1.weight"][tokens], "norm1.weight" in w
        x = x if llama else x + w["position1.weight"][:len(tokens)]
        for _ in range(4):
            q, k, v = map(heads, np.split(linear(norm(x)), [128, 192 if llama else 256], 1))
            x = x + linear(attention(*((rotated(q), rotated(k)) if llama else (q, k)), v))
            h = linear(norm(x))
            if llama:
                gate, up = np.split(h, 2, 1)
                h = gate / (1 + np.exp(-gate)) * up
            else:
                h = h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
            x = x + linear(h)
        x = norm(x)
        return linear(x) if llama else x @ w["embedding1.weight"].T

    def judged(self, text):
        """(mean loss in nats, accuracy) of the next characters, in windows of CONTEXT."""
        tokens = np.array([self.letters.index(c) for c in text])
        loss, right = 0.0, 0
        for at in range(0, len(tokens) - 1, CONTEXT):
            x, y = tokens[at:at + CONTEXT], tokens[at + 1:at + CONTEXT + 1]
            p = softmax(self.logits(x[:len(y)]))
            loss -= np.log(p[np.arange(len(y)), y]).sum()
            right += (p.argmax(1) == y).sum()
        return loss / (len(tokens) - 1), right / (len(tokens) - 1)


class Numbers(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        seed = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else seed_of_commit()
        self.program, self.random = program, random.Random(seed)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("STARLING_")}
        print(f"   seed {seed}")

    def ask(self, *words):
        done = subprocess.run([self.program, *words], cwd=self.folder, env=self.environment, text=True, capture_output=True,
                              timeout=suite.HANG, check=False)
        require(done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr}")
        return done.stdout

    def json(self, *words):
        return json.loads(self.ask(*words, "--json"))

    def text(self, name):
        words = "the swarm learns from its neighbors while one peer is slow and another leaves".split()
        text = " ".join(self.random.choice(words) + self.random.choice(("", "", ".", ",")) for _ in range(2500))
        with open(f"{self.folder}/text.txt", "w", encoding="ascii") as file:
            file.write(text)
        self.ask("swarm", "--peers", "1", "--model", name, "--data", "text.txt", "--steps", "25", "--batch-size", "8",
                 "--looks", "0", "--seed", str(self.random.randrange(1000)), "--force", "--out", name)
        path = f"{name}/model.safetensors"
        model = Text(f"{self.folder}/{path}")
        printed = self.json("evaluate", path, "--data", "text.txt")
        loss, accuracy = model.judged(text[len(text) - printed["tokens"] - 1:])
        close(printed["loss"], loss, 1e-6, "loss")
        close(printed["perplexity"], math.exp(loss), 1e-5, "perplexity")
        close(printed["bits_per_character"], loss / math.log(2), 1e-6, "bits per character")
        tokens = [model.letters.index(c) for c in "the swarm"]
        for _ in range(CONTEXT - len(tokens)):
            tokens.append(model.logits(np.array(tokens))[-1].argmax())
        own = "".join(model.letters[token] for token in tokens)
        written = self.ask("generate", path, "--prompt", own[:9], "--tokens", str(len(own) - 9), "--temperature", "0")
        require(written.rstrip("\n") == own.rstrip("\n"), f"continued as {written!r}, by NumPy {own!r}")
        require(abs(printed["accuracy"] - accuracy) * printed["tokens"] <= 2, f"accuracy: {printed['accuracy']}, {accuracy}")

    def graph(self, name):
        peers = self.random.choice([8, 16]) if name == "hypercube" else self.random.randrange(8, 21)
        if name.startswith("random"):  # of other graphs the factor of an exchange is an eigenvalue of this size, too
            name += f",seed={self.random.randrange(100)}"
        printed = self.json("topology", "show", name, "--peers", str(peers))
        lines = self.ask("topology", "show", name, "--peers", str(peers), "--format", "edges").splitlines()
        edges = {tuple(sorted(map(int, line.split()[:2]))) for line in lines if line[:1].isdigit()}
        require(len(edges) == printed["edges"], f"{name}: {len(edges)} edges, not {printed['edges']}")
        linked = np.zeros((peers, peers))
        for a, b in edges:
            linked[a, b] = linked[b, a] = 1
        degree = linked.sum(1)
        w = linked / (1 + np.maximum(degree[:, None], degree))  # Metropolis
        w += np.diag(1 - w.sum(1))
        second = np.sort(abs(np.linalg.eigvalsh(w)))[-2]
        close(printed["spectral_gap"], 1 - second, 1e-10, f"{name}, gap")
        close(printed["round_factor"], second ** 2, 1e-10, f"{name}, factor per round")
        # E[P kron P] of an exchange: a peer, drawn uniformly, takes the mean with one of its neighbors.
        apart = np.eye(peers) - 1 / peers
        mean = np.zeros((peers ** 2, peers ** 2))
        for a, b in edges:
            v = np.zeros(peers)
            v[a], v[b] = 1, -1
            p = np.eye(peers) - np.outer(v, v) / 2
            mean += (1 / degree[a] + 1 / degree[b]) / peers * np.kron(p, p)
        mean = np.kron(apart, apart) @ mean @ np.kron(apart, apart)
        close(printed["consensus_factor"], np.linalg.eigvalsh((mean + mean.T) / 2)[-1], 1e-9, f"{name}, factor per exchange")

    def times(self):
        """Interpolated between evaluations; the interval is Student's, of logarithms (3 runs, 95 %)."""
        with open(f"{self.folder}/sweep.toml", "w", encoding="ascii") as file:
            file.write("peers = 4\nlooks = 40\n[model]\nname = 'softmax'\n[training]\nbatch_size = 16\npace = '20ms'\nepochs = 1\n"
                       f"[sweep]\ngossip.rule = ['pairwise', 'push-sum', 'd-psgd']\nseed = {self.random.sample(range(1000), 3)}\n")
        self.ask("sweep", "sweep.toml", "--out", "sweep")
        curves = {}  # by rule: of each run (seconds, accuracy)
        for run in os.listdir(f"{self.folder}/sweep"):
            if rule := re.search(r"rule=([\w-]+)", run):
                with open(f"{self.folder}/sweep/{run}/metrics.jsonl", encoding="utf-8") as file:
                    looks = [look for look in map(json.loads, file) if look.get("peer") == "mean" and look.get("accuracy")]
                curves.setdefault(rule.group(1), []).append([(look["seconds"], look["accuracy"]) for look in looks])
        every = [curve for of_rule in curves.values() for curve in of_rule]
        low, high = max(curve[0][1] for curve in every), min(max(y for _, y in curve) for curve in every)
        require(low < high, f"evaluations from {low} to {high}")
        target = round(self.random.uniform(low, high), 4)

        def reached(curve):
            at = next(i for i, (_, y) in enumerate(curve) if y >= target)
            (x0, y0), (x1, y1) = curve[max(at - 1, 0)], curve[at]
            return x1 if at == 0 else x0 + (target - y0) / (y1 - y0) * (x1 - x0)

        self.ask("report", "sweep", "--target", str(target), "--csv", "table.csv", "--out", "page.html")
        with open(f"{self.folder}/table.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        require(len(rows) == len(curves) == 3, f"{len(rows)} rows, {len(curves)} rules")
        for row in rows:
            own = np.array([reached(curve) for curve in curves[row["rule"]]])
            logs = np.log(own)
            half = 4.302652729911275 * logs.std(ddof=1) / math.sqrt(3)
            figures = {"median": np.median(own), "min": own.min(), "max": own.max(), "geomean": math.exp(logs.mean())}
            if half > 0:
                figures.update(ci95_low=math.exp(logs.mean() - half), ci95_high=math.exp(logs.mean() + half))
            for name, value in figures.items():
                close(float(row[f"seconds_to_target_{name}"]), value, 1e-3, f"{row['rule']}, {target}, {name}")

    def run(self):
        for name in ("gpt-tiny", "llama-tiny"):
            self.case(f"{name} has NumPy's loss, accuracy, perplexity and likeliest text", lambda: self.text(name))
        for name in GRAPHS:
            self.case(f"{name} has NumPy's eigenvalues", lambda: self.graph(name))
        self.case("times to a target are interpolated as by definition", self.times)


if __name__ == "__main__":
    sys.exit(suite.main(Numbers, suite.memory()))
