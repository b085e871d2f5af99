#!/usr/bin/env python3
"""Seconds and peak memory of reading data: reading.py [--data DIR] [--repeat N] [--rows N] PROGRAM [PROGRAM]

Runs `starling data info` of each PROGRAM (a build/release/starling) on MNIST and CIFAR-10, if DIR (default $STARLING_DATA)
has them, and on a generated table of 200 MB, N times (default 5), in turns, so that both programs meet the same noise.
Prints the median seconds and the peak memory of each, and the second program's over the first one's."""
import argparse
import os
import random
import statistics
import subprocess
import tempfile
import time

COLUMNS = 20


def write_table(path, rows):
    """Numbers of 8 characters, so a row of 20 has about 190 bytes."""
    numbers = random.Random(1)
    lines = [",".join(f"{numbers.uniform(-100, 100):.5f}"[:8] for _ in range(COLUMNS)) for _ in range(10_000)]
    with open(path, "w", encoding="ascii") as file:
        file.write(",".join(f"c{k}" for k in range(COLUMNS)) + ",label\n")
        for row in range(rows):
            file.write(f"{lines[row * 7919 % len(lines)]},{row % 10}\n")


def read(program, path):
    """Seconds and bytes."""
    begun = time.monotonic()
    process = subprocess.Popen([program, "data", "info", path, "--json"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{program} data info {path} ended with code {process.returncode}")
    return time.monotonic() - begun, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="+")
    parser.add_argument("--data", default=os.environ.get("STARLING_DATA", ""), help="a folder with mnist and cifar10")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_100_000, help="of the table")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "table.csv")
        write_table(table, arguments.rows)
        paths = [os.path.join(arguments.data, name) for name in ("mnist", "cifar10") if arguments.data]
        paths = [path for path in paths if os.path.isdir(path)] + [table]
        for path in paths:
            figures = {program: [] for program in arguments.program}
            for _ in range(arguments.repeat):
                for program in arguments.program:
                    figures[program].append(read(program, path))
            size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)
            size = size or os.path.getsize(path)
            print(f"{os.path.basename(path)}, {size / 1e6:.0f} MB")
            medians = []
            for program in arguments.program:
                seconds, memory = (statistics.median(values) for values in zip(*figures[program]))
                medians.append((seconds, memory))
                print(f"  {seconds:7.3f} s (fastest {min(figures[program])[0]:.3f} s) {memory / 1e6:8.1f} MB   {program}")
            if len(medians) == 2:
                ratios = [second / first for first, second in zip(*medians)]
                print(f"  the second over the first: time {ratios[0]:.2f}, memory {ratios[1]:.2f}")


if __name__ == "__main__":
    main()
