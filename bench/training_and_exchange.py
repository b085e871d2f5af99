#!/usr/bin/env python3
"""The cost of training while exchanging as often as possible, compared with the CPU time of the exchanges.

    STARLING_DATA=... bench/training_and_exchange.py [--rounds N] [--seconds S] [--model NAME] [--data NAME]

A swarm with one single-worker peer per core runs in three alternating modes: learning alone; exchanging back to back with
nearly idle workers, which gives the CPU time of an exchange; and both at once. The medians over rounds show how many
samples per second remain, and how many would remain if the exchanges cost only their own CPU time."""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def swarm(options, folder, *flags):
    program = os.environ.get("STARLING", "build/release/starling")
    command = [program, "swarm", "--peers", str(options.peers), "--model", options.model, "--data", options.data,
               "--seconds", str(options.seconds), "--out", os.path.join(folder, "run"), "--force", "--json", *flags]
    before = processor_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout), processor_seconds() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--peers", type=int, default=os.cpu_count())
    parser.add_argument("--model", default="lenet")
    parser.add_argument("--data", default="mnist")
    options = parser.parse_args()

    alone, each, left, frequency, expected = [], [], [], [], []
    print("round  alone  both  exchanges/s  expected  both/expected   (samples/s of the swarm)")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, options.rounds + 1):
            summary, _ = swarm(options, folder, "--rule", "none")
            alone.append(summary["samples_per_second"])
            # Startup, data loading and evaluation cost the same with and without exchanges.
            _, start = swarm(options, folder, "--rule", "none", "--pace", "1h")
            summary, busy = swarm(options, folder, "--every", "always", "--pace", "1h")
            each.append(max(0.0, busy - start) / summary["exchanges"]["completed"])
            summary, _ = swarm(options, folder, "--every", "always")
            left.append(summary["samples_per_second"])
            frequency.append(summary["exchanges"]["completed"] / summary["seconds"])
            expected.append(alone[-1] * (1 - frequency[-1] * each[-1] / os.cpu_count()))
            print(f"{number:5}  {alone[-1]:5.0f}  {left[-1]:4.0f}  {frequency[-1]:11.0f}  {expected[-1]:8.0f}"
                  f"  {left[-1] / expected[-1]:13.3f}", flush=True)
    median = statistics.median
    print(f"an exchange takes {1e6 * median(each):.0f} us of CPU time on both sides together; medians: "
          f"{median(alone):.0f} samples/s alone, {median(left):.0f} with {median(frequency):.0f} exchanges/s, "
          f"{median(l / e for l, e in zip(left, expected)):.3f} of the expected rate")


if __name__ == "__main__":
    main()
