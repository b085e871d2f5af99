#!/usr/bin/env python3
"""Compares virtual time with real processes: runs the same experiment with `starling swarm` and `starling simulate` and
prints a Markdown table of medians (and ranges) over seeds.

    STARLING_DATA=... bench/compare_reality.py [RULE...] [--seeds N] [-- FLAGS...]

Four peers train LeNet on MNIST for 1.5 epochs, with one paced step every 40 ms: on two cores the processes then have idle
time, as the simulator assumes. The machine should be idle otherwise. FLAGS go to both, for example `-- --epochs 3`.
Compares the final accuracy of the mean model, seconds, completed exchanges, and seconds to the target (96.5 %), for which
the mean model is evaluated 60 times per epoch."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

RULES = ["pairwise", "push-sum", "d-psgd", "ssp", "parameter-server", "all-reduce"]
BASE = ["--peers", "4", "--model", "lenet", "--data", "mnist", "--batch-size", "32", "--pace", "40ms", "--epochs", "1.5"]
TARGET = ["--target-accuracy", "0.965", "--looks", "60"]
# Loopback is not a network of 1 Gbit/s and 100 us.
VIRTUAL = ["--latency", "50us", "--bandwidth", "10Gbit/s"]


def run(mode, *flags):
    program = os.environ.get("STARLING", "build/release/starling")
    with tempfile.TemporaryDirectory() as folder:
        command = [program, mode, *BASE, *flags, "--json", "--force", "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        return json.loads(done.stdout)


def both(rule, seed, flags):
    """(real, simulated) by name of what is compared."""
    flags = ["--rule", rule, "--seed", str(seed), *flags]
    real = run("swarm", *flags, *TARGET)  # continues after the target, unlike a simulation
    virtual = run("simulate", *flags, *VIRTUAL)
    virtual["seconds_to_target"] = run("simulate", *flags, *VIRTUAL, *TARGET)["seconds_to_target"]
    values = {}
    for name in ("accuracy", "seconds", "seconds_to_target"):
        values[name] = (real[name], virtual[name])
    values["exchanges"] = (real["exchanges"]["completed"], virtual["exchanges"]["completed"])
    return values


def cell(values, digits):
    if None in values:
        return "not reached"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", default=RULES)
    parser.add_argument("--seeds", type=int, default=5)
    arguments, flags = parser.parse_known_args()
    flags = [flag for flag in flags if flag != "--"]
    shown = [("accuracy", 4), ("seconds", 2), ("exchanges", 0), ("seconds_to_target", 2)]
    print("| rule | what | real | simulated | apart |\n|---|---|---|---|---|")
    for rule in arguments.rules or RULES:
        runs = [both(rule, seed, flags) for seed in range(1, arguments.seeds + 1)]
        for name, digits in shown:
            real, virtual = ([r[name][i] for r in runs] for i in (0, 1))
            apart = "-"
            if None not in real + virtual:
                a, b = statistics.median(real), statistics.median(virtual)
                apart = f"{100 * abs(a - b):.2f} points" if name == "accuracy" else f"{100 * abs(a - b) / a:.1f} %"
            print(f"| {rule} | {name} | {cell(real, digits)} | {cell(virtual, digits)} | {apart} |", flush=True)


if __name__ == "__main__":
    main()
