"""Follows the pages of the laboratory, docs/EXPERIMENTS.md, RESULTS.md and TOPOLOGIES.md: what a reader has before each command,
and which of the printed lines must agree to the last digit. Runs are shortened by variables, which override the files."""

import csv
import dataclasses
import json
import os
import re
import shutil

from blocks import blocks_of
from suite import require
from terminal import commands

SHORT = {"STARLING_EPOCHS": "0.02"}
SWEEP = """name = "sweep"
peers = 4
model.name = "softmax"
data.source = "table.csv"
training.batch_size = 8
[[fault]]
peer = 1
slow = 1
[sweep]
fault.1.slow = [1, 10]
gossip.rule = ["pairwise", "d-psgd"]
seed = [1, 2]
"""
TOPOLOGIES = SWEEP.replace("[sweep]\n", '[sweep]\ngossip.topology = ["ring", "complete"]\n')
# What a network, a table and lists need before them.
HEADS = {"[[peer]]": "peers = 8\n", "[[fault]]": "peers = 8\n", "[sweep]": "peers = 4\n", "[daemon]": ""}


class Page:
    """A page and the folder of its reader."""

    def __init__(self, reader, document):
        self.reader, self.blocks = reader, blocks_of(document)
        self.machine = reader.machines[""]
        self.found = 0  # commands

    def save(self, name, text):
        path = os.path.join(self.machine.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.machine.folder, name), encoding="utf-8") as file:
            return file.read()

    def do(self, text, block=None, **variables):
        """Runs commands, and returns what they print."""
        block = dataclasses.replace(block or self.blocks[0], text=text)
        self.reader.environment.update(variables)
        self.reader.run(block)
        for name in variables:
            del self.reader.environment[name]
        self.found += 1
        return self.reader.shown[block.machine][0]()

    def block(self, begin):
        found = [block for block in self.blocks if block.text.startswith(begin)]
        require(found, f"there is no block {begin}")
        return found[0]


def same_lines(expected, shown, place):
    """Each line of the page is printed, figures included, in this order."""
    lines = iter(line.rstrip() for line in shown.split("\n"))
    for line in expected.rstrip().split("\n"):
        require(any(line.rstrip() == printed for printed in lines), f"{place}: not printed: {line}\nbut:\n{shown}")


def experiments(reader):
    page = Page(reader, "docs/EXPERIMENTS.md")
    page.save("one-slow-peer.toml", page.block('name = "one-slow-peer"').text)
    block = page.block("starling simulate one-slow-peer.toml")
    for command in commands(block.text):
        page.do(command, block, **SHORT)
    require(json.loads(page.read("runs/one-slow-peer-1/summary.json"))["peers"] == 8, "the run has other peers")
    require(json.loads(page.read("runs/one-slow-peer-2/summary.json"))["seed"] == 2, "--seed 2 is not the seed")
    page.do("starling key new swarm.key")
    for head, before in HEADS.items():
        page.save("part.toml", before + page.block(head).text.replace("/etc/starling/swarm.key", "swarm.key"))
        page.do({"[sweep]": "starling sweep part.toml --dry-run", "[daemon]": "env starling peer --config part.toml --print-config"}
                .get(head, "starling simulate part.toml --print-config"), **SHORT)
    lists = page.block('name = "stragglers"').text
    page.save("stragglers.toml", lists)
    shown = page.do("starling sweep stragglers.toml --dry-run", **SHORT)
    require("72 combinations" in shown, shown)
    for topology, seed in (("ring", 1), ("ring", 2), ("exponential", 1), ("exponential", 2)):
        page.do(f"starling simulate --name {topology} --seed {seed} --topology {topology} --peers 4 --model softmax", **SHORT)
    page.do(page.block("starling report runs/ring-1").text, page.block("starling report runs/ring-1"))
    rows = list(csv.DictReader(page.read("compared.csv").splitlines()))
    require([(row["topology"], row["runs"]) for row in rows] == [("ring", "2"), ("exponential", "2")], f"the table has {rows}")
    sweep(page)
    page.do(page.block("starling plot runs/sweep").text, page.block("starling plot runs/sweep"))
    return page.found


def sweep(page, text=SWEEP):
    shutil.rmtree(os.path.join(page.machine.folder, "runs/sweep"), ignore_errors=True)
    page.save("table.csv", "u,v,kind\n" + "".join(f"{k % 7 + k % 2},{k % 11},{k % 2}\n" for k in range(400)))
    page.save("sweep.toml", text)
    page.do("starling sweep sweep.toml --out runs/sweep", STARLING_EPOCHS="1")


def results(reader):
    page = Page(reader, "docs/RESULTS.md")
    figures = page.block("starling plot runs/sweep --only")
    for command in commands(figures.text):
        sweep(page, TOPOLOGIES if "--by topology" in command else SWEEP)
        page.do(command.partition("#")[0], figures)
    sweep(page)
    script = page.block("import matplotlib")
    page.save("figure.py", script.text)
    why = reader.obstacle("python3")
    if why:
        print(f"   left out: {script.place}: {why}", flush=True)
    else:
        require("slow rule" in " ".join(page.do("/usr/bin/python3 figure.py").split()), "the script prints another table")
    runs = sorted(os.listdir(os.path.join(page.machine.folder, "runs/sweep")))
    names(page, "runs/sweep/" + next(name for name in runs if "=" in name))
    return page.found


def names(page, folder):
    """The fields of the files are those of the page."""
    text = "\n".join(block.text for block in page.blocks)
    for name, begin in (("metrics.jsonl", '{"seconds"'), ("timeline.jsonl", '{"peer"')):
        shown = json.loads(page.block(begin).text)
        written = json.loads(page.read(f"{folder}/{name}").split("\n", 1)[0])
        require(list(shown) == list(written), f"{name} has {list(written)}, and the page {list(shown)}")
    require('"staleness":{' in text, "the page shows no staleness")
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "RESULTS.md"), encoding="utf-8") as file:
        columns = set(re.findall(r"`([a-z_0-9]+)`", file.read()))
    written = set(page.read("runs/sweep/curves.csv").split("\n", 1)[0].split(","))
    missing = written - columns - {"slow", "rule"}
    require(not missing, f"the page does not name the columns {missing} of curves.csv")


def topologies(reader):
    page = Page(reader, "docs/TOPOLOGIES.md")
    edges, graphml = page.block("# cities.txt"), page.block("<graphml")
    page.save("cities.txt", edges.text)
    page.save("cities.graphml", graphml.text)
    line, name = page.block("topology file:cities.txt:"), page.block("edges:file=cities.txt;")
    files = page.block("starling topology show file:cities.txt")
    first, second = commands(files.text)
    shown = page.do(first, files)
    same_lines(line.text, shown, line.place)
    page.do(second + " --model softmax", files, **SHORT)
    summary = json.loads(page.read("runs/run-1/summary.json"))
    require(summary["topology"] == "file:cities.graphml" and summary["peers"] == 3, f"the swarm has {summary['topology']}")
    graph = name.text.split("\n")[0].replace(".txt", ".graphml")
    require(graph in page.read("runs/run-1/experiment.toml"), "experiment.toml has another graph")
    tree = page.block("$ starling topology show tree")
    command, _, printed = tree.text.partition("\n")
    same_lines(printed, page.do(command[2:], tree), tree.place)
    drawing = page.block("starling topology show one-peer")
    page.do(drawing.text, drawing)
    require("</svg>" in page.read("rounds.svg"), "rounds.svg is no drawing")
    change = page.block("starling topology set")
    peer = reader.start(page.machine, "starling peer --listen 127.0.0.1:7100 --http 127.0.0.1:7180 --model softmax --epochs 10000")
    require("hypercube" in page.do(change.text, change), "the topology is another one")
    page.do("starling leave", change)
    require(peer.process.returncode == 0, peer.output())
    return page.found


PAGES = {"docs/EXPERIMENTS.md": experiments, "docs/RESULTS.md": results, "docs/TOPOLOGIES.md": topologies}
