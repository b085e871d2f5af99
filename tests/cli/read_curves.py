"""Reads a sweep's curves.csv with Python's csv module and checks the types of its cells; then runs a script that plots it
with pandas, if pandas and matplotlib are installed. read_curves.py CURVES SCRIPT"""

import csv
import importlib.util
import os
import sys

TEXTS = {"rule": {"pairwise", "d-psgd"}, "end": {"true", "false"}}
MAY_BE_EMPTY = {"accuracy", "loss", "training_loss", "consensus_distance", "bytes_sent"}


def check(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows and list(rows[0])[:5] == ["slow", "rule", "seed", "run", "look"], list(rows[0])
    runs = {}
    for row in rows:
        runs.setdefault(row["run"], []).append(row)
        for column, cell in row.items():
            if column == "run" or (cell == "" and column in MAY_BE_EMPTY):
                continue
            if column in TEXTS:
                assert cell in TEXTS[column], (column, cell)
            else:
                float(cell)
        assert row["run"] == f"slow={row['slow']},rule={row['rule']},seed={row['seed']}", row
    assert len(runs) == 8, list(runs)
    for looks in runs.values():
        assert len(looks) > 3, looks
        assert [row["end"] for row in looks] == ["false"] * (len(looks) - 1) + ["true"], looks
        assert [int(row["look"]) for row in looks] == list(range(1, len(looks) + 1)), looks
        seconds = [float(row["seconds"]) for row in looks]
        assert seconds == sorted(seconds), seconds


def plot(script):
    missing = [name for name in ("pandas", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped the script: Python has no {' and no '.join(missing)}")
        return
    os.environ["MPLBACKEND"] = "agg"
    with open(script, encoding="utf-8") as file:
        names = {}
        exec(compile(file.read(), script, "exec"), names)
    kinds = names["kinds"]
    assert len(kinds) == 4 and kinds["seconds"].dtype == float, kinds
    assert os.path.getsize("accuracy.pdf") > 1000


if __name__ == "__main__":
    check(sys.argv[1])
    plot(sys.argv[2])
