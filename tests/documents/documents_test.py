#!/usr/bin/python3
"""Does what the documents of the first hour say: documents_test.py PROGRAM [CASE...]

Runs the commands of README.md, docs/THREE_MACHINES.md and, if STARLING_TESTS_ALL is set, docs/TUTORIAL.md as printed, and
compares what they print, without figures, with the documents; then also the pages of laboratory.py, with shorter runs; applies the diffs of docs/OWN_RULE.md to a copy of the
sources, and compiles them if STARLING_TESTS_ALL is set; checks links, the glossary, CITATION.cff and the statements of claims.py. Each CASE after
PROGRAM selects the cases whose names contain it. The three machines are network namespaces with the addresses of the
document and a firewall; where the system permits none, they share this one, with loopback addresses in place of those.
Commands that need a download or a program that is absent are left out, with a line. The last line is "N passed, N
failed"."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no files in the source tree
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "reach"), os.path.dirname(HERE)]
import claims  # noqa: E402
import laboratory  # noqa: E402
import network  # noqa: E402
import suite  # noqa: E402
from blocks import blocks_of, minutes, prose, read  # noqa: E402
from suite import SOURCE, require  # noqa: E402
from terminal import Machine, Reader, commands, first_missing  # noqa: E402

ADDRESSES = {"desktop": "192.168.1.10", "laptop": "192.168.1.11", "board": "192.168.1.12"}
# A firewall as it is common: it accepts answers, and nothing from outside.
FIREWALL = """table inet filter { chain input { type filter hook input priority 0; policy drop; iif lo accept;
  ct state established,related accept; icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept; }
}
"""
# Stand-ins for programs that reach other machines, or need root. The home folders of the machines lie side by side.
TOOLS = {"scp": '#!/bin/sh\ncp -p "$1" "$(dirname "$HOME")/${2%:}/"\n', "sudo": '#!/bin/sh\nexec "$@"\n'}


# What a reader of README.md has already: a network, its optimizer and the training loop.
OWN_PROGRAM = """import torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def train(model, optimizer):
    for _ in range(30):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        optimizer.step()

"""


class Documents(suite.Suite):
    def __init__(self, program, folder):
        super().__init__(folder)
        self.program, self.net = program, None
        self.obstacle = None if os.environ.get(network.INSIDE) else "no network namespaces"

    def why_not(self, text):
        """Why a block cannot run here; None if it can."""
        needs = [("data fetch", "it downloads a data set"), ("ufw", "it changes the firewall of a whole system"),
                 ("ssh ", "it needs a server for SSH")]
        for word, reason in needs:
            if word in text:
                return reason
        if text.startswith("sudo") and self.obstacle:
            return self.obstacle
        if text.startswith("python3"):
            for module in ("pandas", "matplotlib"):
                found = subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True, check=False)
                if found.returncode:
                    return f"Python has no {module}"
        return None

    def read_through(self, document, machines, follow=None):
        """Follows a document, or does `follow(reader)`. Returns the seconds of Beats that it took. It must leave no process."""
        reader = Reader(self.program, os.path.join(self.folder, document.replace("/", "-")), machines, self.why_not)
        for name, text in TOOLS.items():
            path = os.path.join(reader.folder, "tools", name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
        with suite.Beats() as beats:
            try:
                if follow:
                    follow(reader)
                else:
                    reader.follow(blocks_of(document))
            except BaseException:
                reader.close()
                raise
            took, left = beats.passed(), reader.close()
        print(f"   {document}: {took:.0f} s", flush=True)
        require(not left, f"processes that were left: {left}")
        return took

    def tutorial(self):
        took = self.read_through("docs/TUTORIAL.md", {"": Machine(os.path.join(self.folder, "student"))})
        require(took < 60 * minutes("docs/TUTORIAL.md"), f"{took:.0f} s is more than the document says")

    def laboratory(self, document):
        machines = {"": Machine(os.path.join(self.folder, "laboratory", document))}
        self.read_through(document, machines, laboratory.PAGES[document])

    def three_machines(self):
        machines = {}
        for number, (name, address) in enumerate(ADDRESSES.items()):
            home = os.path.join(self.folder, "homes", name)
            if self.net is None:
                own = f"127.0.0.{10 + number}"
                known = [(f"info {name}: others can dial this peer at {address}:7100", "..."), ("ADDRESS:7100", "...")]
                others = [(theirs, f"127.0.0.{10 + k}") for k, theirs in enumerate(ADDRESSES.values())]
                replace = [*known, ("0.0.0.0", own), ("127.0.0.1:7180", f"{own}:7180"), *others]
                machines[name] = Machine(home, replace=replace, STARLING_AT=f"{own}:7180")
                continue
            inside = self.net.machine(name)
            self.net.plug(inside, "eth0")
            inside.address("eth0", f"{address}/24")
            machines[name] = Machine(home, inside.prefix())
        if self.net:
            self.net.machines[0].do("nft", "-f", "-", text=FIREWALL)
        took = self.read_through("docs/THREE_MACHINES.md", machines)
        require(took < 60 * minutes("docs/THREE_MACHINES.md"), f"{took:.0f} s is more than the document says")

    def readme(self):
        machines = {name: Machine(os.path.join(self.folder, "reader")) for name in ("", "north", "south", "west")}
        self.read_through("README.md", machines, self.read_readme)

    def read_readme(self, reader):
        blocks, home = blocks_of("README.md"), reader.machines[""]
        for block in blocks:
            if block.kind == "toml":
                reader.save(block)
                if "[sweep]" in block.text:
                    block.text = re.search(r"`(starling sweep [^`]+)`", read("README.md")).group(1)
                    reader.run(block)
            elif block.kind == "" and block.text.startswith("$ "):
                block.text, _, expected = block.text[2:].partition("\n")
                reader.run(block)
                missing = first_missing(expected.rstrip("\n"), reader.shown[""][0]())
                require(missing is None, f"{block.place}: not printed: {missing}")
            elif block.kind == "indented" and block.text.startswith("starling peer"):
                self.three_terminals(reader, commands(block.text), home)
            elif block.kind == "indented" and block.text.startswith("starling data fetch"):
                self.language_model(reader, block)
            elif block.kind == "indented" and block.text.startswith("starling"):
                reader.run(block)
            elif block.kind == "python":
                self.own_program(reader, block)

    def language_model(self, reader, block):
        """The example with a text of the documents in place of the download, and with fewer steps."""
        folder = os.path.join(reader.machines[""].folder, "data", "shakespeare")
        os.makedirs(folder)
        with open(os.path.join(folder, "input.txt"), "w", encoding="utf-8") as file:
            file.write("".join(c for c in read("docs/PROTOCOL.md") + read("docs/RULES.md") if c.isascii()))
        lines = commands(block.text)
        require(lines[0].startswith("starling data fetch") and lines[1] == "export STARLING_DATA=~/data", lines[:2])
        text = "\n".join(lines[1:]) + "\n"
        require(" --steps 2000 " in text, text)
        text = text.replace(" --steps 2000 ", " --steps 20 ")
        block.text = text
        reader.run(block)
        shown = reader.shown[""][0]()
        sample = next(b for b in blocks_of("README.md") if b.kind == "text")
        summary = sample.text.split("\n\n")[0]
        missing = first_missing(summary, shown)
        require(missing is None, f"{sample.place}: not printed: {missing}\nbut:\n{shown}")
        require("ROMEO:" in shown and "ROMEO:" in sample.text, f"{sample.place}: no text is shown, but:\n{shown}")
        require(os.path.getsize(os.path.join(reader.machines[""].folder, "gpt.safetensors")) > 0, "gpt.safetensors is empty")

    def own_program(self, reader, block):
        """The lines of README.md around a small network of PyTorch."""
        if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False).returncode:
            print(f"   left out: {block.place}: Python has no torch", flush=True)
            return
        program = os.path.join(reader.machines[""].folder, "own.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(OWN_PROGRAM + block.text)
        block.text = f"PYTHONPATH={SOURCE}/clients/python /usr/bin/python3 {program}\n"
        reader.run(block)

    def three_terminals(self, reader, lines, home):
        peers = {re.search(r"--name (\w+)", line).group(1): line for line in lines}
        require(list(peers) == ["north", "south", "west"], f"the peers are {list(peers)}")
        for name, line in peers.items():
            reader.start(reader.machines[name], line, name)
        north = reader.machines["north"].peer
        for name in ("south", "west"):
            reader.wait_for(f"member {name} at ... has joined", north.output, "README.md", north)
        listed = subprocess.run(["bash", "-ec", "starling members"], cwd=home.folder, env=reader.variables(home),
                                text=True, capture_output=True, timeout=suite.HANG, check=True).stdout
        require(all(re.search(f"(?m)^{name} ", listed) for name in peers), f"starling members prints {listed}")
        first = reader.machines["north"]
        # It writes the members' addresses every few seconds.
        reader.wait_for('"address": "...', lambda: text_of(f"{home.folder}/north/peers.json"), "north/peers.json", north)
        os.killpg(first.peer.process.pid, signal.SIGKILL)
        first.peer.process.wait()
        again = reader.start(first, peers["north"], "north")
        require("searching for the swarm in north" in again.output(), again.output())
        for name in ("north", "south", "west"):
            reader.machines[name].peer.end(signal.SIGINT)

    def own_rule(self):
        copy = os.path.join(self.folder, "sources")
        for room in ("base", "wire", "kernels", "models", "training", "tests", "docs"):
            shutil.copytree(os.path.join(SOURCE, room), os.path.join(copy, room))
        apply = next(b.text for b in blocks_of("docs/OWN_RULE.md") if b.kind == "indented" and "patch" in b.text)
        done = subprocess.run(["bash", "-ec", apply], cwd=copy, text=True, capture_output=True, check=False)
        require(done.returncode == 0 and "fuzz" not in done.stdout, f"{apply}{done.stdout}{done.stderr}")
        patched = re.findall(r"(?m)^\+\+\+ b/(.*)$", read("docs/OWN_RULE.md"))
        sources = [name for name in patched if name.endswith(".cc")]
        require(len(sources) == 3, f"the diffs are of {patched}")
        for name in sources if os.environ.get("STARLING_TESTS_ALL") else []:  # half a minute
            command = ["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-I.", name]
            done = subprocess.run(command, cwd=copy, text=True, capture_output=True, check=False)
            require(done.returncode == 0, f"{name} does not compile:\n{done.stderr}")

    def links(self):
        documents = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "scripts/deploy/README.md"]
        documents += ["docs/" + name for name in sorted(os.listdir(f"{SOURCE}/docs")) if name.endswith(".md")]
        broken, checked = [], 0
        for document in documents:
            for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
                if re.match(r"\w+:", target):
                    continue
                path, _, anchor = target.partition("#")
                there = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
                checked += 1
                if not os.path.exists(os.path.join(SOURCE, there)):
                    broken.append(f"{document}: {target}: no such file")
                elif anchor and anchor not in anchors(there):
                    broken.append(f"{document}: {target}: no such heading")
        require(not broken, "\n".join(broken))
        require(checked > 100, f"only {checked} links were found")

    def help_examples(self):
        """The examples of `simulate`, `swarm` and `sweep`, in the source folder and without a run."""
        found = 0
        for command, dry in (("simulate", "--print-config"), ("swarm", "--print-config"), ("sweep", "--dry-run")):
            text = subprocess.run([self.program, command, "--help"], text=True, capture_output=True, check=True).stdout
            for example in re.findall(rf"(?m)^  starling ({command} .*)$", text.partition("\nExample:\n")[2]):
                done = subprocess.run([self.program, *example.split(), dry], cwd=SOURCE, text=True, capture_output=True,
                                      check=False)
                require(done.returncode == 0, f"starling {example}: {done.stderr}")
                found += 1
        require(found == 5, f"{found} examples were found")

    def claims(self):
        """A case for each check of claims.py."""
        names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "clients/README.md", "scripts/deploy/README.md"]
        names += ["docs/" + name for name in sorted(os.listdir(f"{SOURCE}/docs")) if name.endswith(".md")]
        documents = {name: read(name) for name in names}

        def printed(*words):
            return subprocess.run([self.program, *words], text=True, capture_output=True, check=True).stdout

        facts = claims.facts_of(json.loads(printed("tables")), printed("topology", "list"))
        for sentence, check, document, text in claims.CHECKS:
            def work(check=check, document=document, text=text):
                claims.must_hold(check, documents, facts)
                claims.must_be_able_to_fail(check, documents, facts, document, text)
            self.case(sentence, work)

    def index(self):
        listed = set(re.findall(r"\]\((\w+\.md)\)", read("docs/README.md")))
        there = {name for name in os.listdir(f"{SOURCE}/docs") if name.endswith(".md")} - {"README.md"}
        require(listed == there, f"docs/README.md differs from docs/: {listed ^ there}")

    def glossary(self):
        rows = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|$", read("docs/GLOSSARY.md"))[1:]
        words = [word.lower() for word, _ in rows]
        require(len(words) > 50 and words == sorted(set(words)), f"not sorted, or twice: {out_of_order(words)}")
        needed = {"replica", "straggler", "epoch", "target", "spectral gap", "staleness", "settle", "mix", "kind",
                  "seed", "sweep", "home", "relay", "quarantine", "peer", "worker", "stage", "micro-batch", "flush",
                  "bubble", "cut", "split", "slice", "part", "version", "schedule", "plan", "stage replica", "pipeline"}
        require(needed <= set(words), f"missing: {needed - set(words)}")

    def citation(self):
        import yaml

        data = yaml.safe_load(read("CITATION.cff"))
        required = {"cff-version", "message", "title", "authors"}
        optional = {"type", "version", "date-released", "license", "abstract", "keywords"}
        require(required <= set(data) <= required | optional, f"the keys are {list(data)}")
        require(data["cff-version"] == "1.2.0" and data["type"] == "software", "not of a type of this format")
        require(all(set(author) == {"name"} for author in data["authors"]), "an author is not an entity with a name")
        # The last release; tests/packaging/checkouts_test.py compares it with the version of the sources.
        version, date = re.search(r"(?m)^## (\d+\.\d+\.\d+), (\d{4}-\d\d-\d\d)$", read("CHANGELOG.md")).groups()
        require((data["version"], str(data["date-released"])) == (version, date), f"the last release in CHANGELOG.md is {version}, {date}")
        require(f"Version {version.rpartition('.')[0]}:" in read("README.md"), f"README.md does not state version {version}")
        bibtex = next(b.text for b in blocks_of("docs/TUTORIAL.md") if b.kind == "bibtex")
        require(f"version = {{{version}}}" in bibtex and data["title"] in " ".join(bibtex.split()), bibtex)
        license_of = {"Apache-2.0": r"Apache License\s+Version 2\.0"}
        require(re.search(license_of[data["license"]], read("LICENSE")), f"LICENSE is not {data['license']}")
        require(len(data["keywords"]) == len(set(data["keywords"])), "a keyword stands twice")

    def case(self, name, work):
        if len(sys.argv) <= 2 or any(part in name for part in sys.argv[2:]):
            super().case(name, work)

    def run(self):
        self.claims()
        self.case("links in the documents lead to files and headings", self.links)
        self.case("docs/README.md lists every document", self.index)
        self.case("the glossary is sorted and has the words of the first hour", self.glossary)
        self.case("CITATION.cff has the version of the last release and the license", self.citation)
        self.case("the examples in the help of simulate, swarm and sweep are accepted", self.help_examples)
        self.case("the rule of docs/OWN_RULE.md fits the sources, and compiles with scripts/test --all", self.own_rule)
        if self.obstacle is None:
            self.net = network.Internet()
        if os.environ.get("STARLING_TESTS_ALL") or len(sys.argv) > 2:  # it takes minutes
            self.case("docs/TUTORIAL.md works as printed", self.tutorial)
            for document in laboratory.PAGES:
                self.case(f"{document} works as printed", lambda: self.laboratory(document))
        self.case("docs/THREE_MACHINES.md works as printed", self.three_machines)
        self.case("README.md works as printed", self.readme)

    def close(self):
        if self.net:
            self.net.close()


def text_of(path):
    """The text of a file, if it is there."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def out_of_order(words):
    return [b for a, b in zip(words, words[1:]) if b <= a]


def anchors(document):
    """The names by which headings are linked: lower case, no punctuation, hyphens for blanks."""
    headings = re.findall(r"(?m)^#+ (.*)$", prose(document))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


if __name__ == "__main__":
    why = network.enter()
    if why:
        print(f"   the three machines share this one: {why}", flush=True)
    sys.exit(suite.main(Documents))
