#!/usr/bin/env python3
"""The effects of rules, payloads, slow links, skewed data and malicious peers on learning: LeNet on MNIST with 8
simulated peers, as Markdown tables.

    STARLING_DATA=... bench/rules_table.py [rules] [payloads] [thin] [unlike] [poison] [hasty] [--seeds N] [-- FLAGS...]

Without a name, prints all tables. FLAGS go to every `starling simulate`, for example `-- --epochs 1 --data glyphs`.
Figures are means over the seeds 1 to N."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

BASE = ["--model", "lenet", "--data", "mnist", "--batch-size", "32", "--learning-rate", "0.05"]
RULES = os.environ.get("RULES", "pairwise push-sum d-psgd choco noloco clipped all-reduce none").split()
PAYLOADS = ["f32", "bf16", "int8", "top-k"]
LIES = ["nan", "inf", "huge", "noise", "sign-flip", "frozen"]
LIAR = 3


class Runs:
    def __init__(self, seeds, flags):
        self.seeds, self.flags = seeds, flags
        self.program = os.environ.get("STARLING", "build/release/starling")
        self.folder = tempfile.TemporaryDirectory()

    def __call__(self, *flags, fault=""):
        """The summaries of one experiment, one per seed."""
        summaries = []
        for seed in range(1, self.seeds + 1):
            command = [self.program, "simulate"]
            if fault:
                path = os.path.join(self.folder.name, "experiment.toml")
                with open(path, "w") as file:
                    file.write(fault)
                command.append(path)
            peers = [] if "--peers" in flags else ["--peers", "8"]
            command += [*BASE, *peers, *flags, "--seed", str(seed), "--json", "--force"]
            command += ["--out", os.path.join(self.folder.name, "run"), *self.flags]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
            summaries.append(json.loads(done.stdout))
        return summaries


def mean(summaries, value, form="{:.4f}"):
    values = [value(s) if callable(value) else s.get(value) for s in summaries]
    return "-" if any(v is None for v in values) else form.format(statistics.mean(values))


def megabytes(summary):
    return summary["bytes_sent"] / 1e6


def honest(summary):
    """Mean accuracy of the honest peers."""
    return statistics.mean(p["accuracy"] for i, p in enumerate(summary["per_peer"]) if i != LIAR)


def table(*head):
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)


def row(*cells):
    print(f"| {' | '.join(cells)} |", flush=True)


def rules(run):
    table("rule", "accuracy of the mean model", "least accurate peer", "consensus distance before settling", "after",
          "exchanges", "MB sent", "virtual seconds")
    for rule in RULES:
        s = run("--rule", rule, "--epochs", "2")
        row(rule, mean(s, "accuracy"), mean(s, "accuracy_min"), mean(s, "consensus_distance_before_settling"),
            mean(s, "consensus_distance"), mean(s, lambda x: x["exchanges"]["completed"], "{:.0f}"),
            mean(s, megabytes, "{:.1f}"), mean(s, "seconds", "{:.1f}"))


def payloads(run):
    table("payload", "accuracy of the mean model", "least accurate peer", "consensus distance", "exchanges",
          "kB an exchange", "bytes against f32")
    reference = None
    for payload in PAYLOADS:
        s = run("--payload", payload, "--epochs", "2")
        each = statistics.mean(x["bytes_sent"] / max(1, x["exchanges"]["completed"]) for x in s)
        reference = reference or each
        row(payload, mean(s, "accuracy"), mean(s, "accuracy_min"), mean(s, "consensus_distance"),
            mean(s, lambda x: x["exchanges"]["completed"], "{:.0f}"), f"{each / 1e3:.1f}", f"1/{reference / each:.2f}")


def thin(run):
    table("payload over 10 Mbit/s links, exchanging as often as the link allows", "seconds to 97 %", "MB sent", "exchanges")
    for payload in PAYLOADS:
        s = run("--payload", payload, "--bandwidth", "10Mbit/s", "--every", "always", "--epochs", "4",
                "--target-accuracy", "0.97")
        row(payload, mean(s, "seconds_to_target", "{:.2f}"), mean(s, megabytes, "{:.1f}"),
            mean(s, lambda x: x["exchanges"]["completed"], "{:.0f}"))


def unlike(run):
    table("momentum, Dirichlet(0.1) partition, 6 epochs", "accuracy of the mean model", "least accurate peer")
    for name, flags in (("each worker's own", []), ("quasi-global", ["--quasi-global-momentum"])):
        s = run("--partition", "dirichlet:alpha=0.1", "--epochs", "6", *flags)
        row(name, mean(s, "accuracy"), mean(s, "accuracy_min"))


def poison(run):
    table("what one of eight peers sends, 3 epochs", "rule", "honest peers' accuracy", "without it", "chunks refused")
    for rule in ("clipped", "pairwise"):
        peace = run("--rule", rule, "--epochs", "3")
        for lie in LIES:
            s = run("--rule", rule, "--epochs", "3", fault=f'[[fault]]\npeer = {LIAR}\npoison = "{lie}"\n')
            row(lie, rule, mean(s, honest), mean(peace, honest),
                mean(s, lambda x: sum(x["exchanges"].get("refused_chunks", {}).values()), "{:.0f}"))


def hasty(run):
    """The baseline has the seven honest peers only, and as many samples as they consume in the other runs."""
    pace = 5
    table(f"what one of eight peers sends that is {pace} times faster, clipped", "honest peers' accuracy", "least accurate of them")
    peace = run("--rule", "clipped", "--peers", "7", "--epochs", str(3 * 7 / (7 + pace)))
    row("nothing: it does not take part", mean(peace, lambda x: statistics.mean(p["accuracy"] for p in x["per_peer"])),
        mean(peace, "accuracy_min"))
    slow = "".join(f"[[fault]]\npeer = {p}\nslow = {pace}\n" for p in range(8) if p != LIAR)
    for lie in LIES:
        s = run("--rule", "clipped", "--epochs", "3", fault=f'{slow}[[fault]]\npeer = {LIAR}\npoison = "{lie}"\n')
        row(lie, mean(s, honest), mean(s, lambda x: min(p["accuracy"] for i, p in enumerate(x["per_peer"]) if i != LIAR)))


def main():
    tables = {f.__name__: f for f in (rules, payloads, thin, unlike, poison, hasty)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *tables], metavar="TABLE", help=", ".join(tables))
    parser.add_argument("--seeds", type=int, default=1)
    arguments = sys.argv[1:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:at])
    run = Runs(options.seeds, arguments[at + 1:])
    for name in options.tables or tables:
        tables[name](run)


if __name__ == "__main__":
    main()
