#!/usr/bin/env python3
"""The time and the memory of reports and figures of many runs.

usage: report_scale.py PROGRAM [--runs N] [--folder DIR]

Makes one small simulation (4 peers, a softmax on a table of 600 rows, 40 steps), and N folders (default 10,000) that are copies
of it with other seeds, learning rates, momenta and steps' times: ten of each. Prints how long `starling report`, with the
page, the table and the curves, and `starling plot` take, and how much memory they need at most. The median of three.
"""
import argparse
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

VALUES = {"seed": [str(k) for k in range(1, 11)], "learning_rate": [f"0.0{k}" for k in range(1, 10)] + ["0.1"],
          "momentum": [f"0.{k}" for k in range(10)], "pace": [f'"{k}ms"' for k in range(10, 110, 10)]}


def first_run(program, folder):
    draw = random.Random(1)
    table = os.path.join(folder, "table.csv")
    with open(table, "w", encoding="utf-8") as file:
        print("u,v,kind", file=file)
        for k in range(600):
            print(f"{draw.gauss(k % 3, 1):.3f},{draw.gauss(0, 1):.3f},{k % 3}", file=file)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STARLING_")}
    out = os.path.join(folder, "first")
    subprocess.run([program, "simulate", "--peers", "4", "--model", "softmax", "--data", table, "--steps", "40", "--batch-size",
                    "8", "--out", out], env=environment, capture_output=True, check=True)
    texts = {}
    for name in ("summary.json", "experiment.toml", "metrics.jsonl", "timeline.jsonl"):
        with open(os.path.join(out, name), encoding="utf-8") as file:
            texts[name] = file.read()
    return texts


def copies(texts, folder, count):
    """Writes the folders."""
    summary = json.loads(texts["summary.json"])
    for number, values in enumerate(itertools.islice(itertools.cycle(itertools.product(*VALUES.values())), count)):
        out = os.path.join(folder, f"run-{number}")
        os.makedirs(out)
        text = texts["experiment.toml"]
        for key, value in zip(VALUES, values):
            text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", text)
        its = {**summary, "seed": int(values[0]), "trace_hash": f"{number:016x}", "accuracy": 0.8 + number % 997 / 1e4}
        for name, content in {**texts, "experiment.toml": text, "summary.json": json.dumps(its)}.items():
            with open(os.path.join(out, name), "w", encoding="utf-8") as file:
                file.write(content)


def measure(command):
    """Seconds, seconds of the processor, and bytes at most: the medians of three."""
    seconds, computing, most = [], [], []
    for _ in range(3):
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{' '.join(command)}: {said}")
        seconds.append(time.monotonic() - begin)
        computing.append(usage.ru_utime + usage.ru_stime)
        most.append(usage.ru_maxrss * 1024)
    return statistics.median(seconds), statistics.median(computing), statistics.median(most)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--folder", help="where to write them (default: a temporary folder)")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    with tempfile.TemporaryDirectory(dir=arguments.folder, prefix="starling-report-") as folder:
        copies(first_run(program, folder), os.path.join(folder, "runs"), arguments.runs)
        runs, page = os.path.join(folder, "runs"), os.path.join(folder, "page.html")
        for name, command in (
                ("report", ["report", runs, "--out", page]),
                ("report with --csv and --curves", ["report", runs, "--out", page, "--csv", os.path.join(folder, "table.csv"),
                                                    "--curves", os.path.join(folder, "curves.csv")]),
                ("plot of curves", ["plot", runs, "--by", "momentum", "--out", os.path.join(folder, "curves.svg")]),
                ("plot by a setting", ["plot", runs, "--x", "learning_rate", "--y", "accuracy", "--by", "momentum", "--out",
                                       os.path.join(folder, "setting.svg")])):
            seconds, computing, most = measure([program, *command])
            print(f"{arguments.runs} runs, {name:31} {seconds:6.2f} s, {computing:6.2f} s of a processor, {most / 1e6:5.0f} MB",
                  flush=True)
        print(f"page {os.path.getsize(page) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
