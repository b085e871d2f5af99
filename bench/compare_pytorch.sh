#!/bin/sh
# Starling's and PyTorch's LeNet training step by turns, in one go, so that both see the same machine: a table of the medians
# of five rounds, and the ratios. usage: bench/compare_pytorch.sh [TRAIN_BENCH] (default: build/release/train_bench).
# PYTHON names a Python that has PyTorch; default /usr/bin/python3, where Debian's python3-torch is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bench=${1:-$here/../build/release/train_bench}
python=${PYTHON:-/usr/bin/python3}
rounds=5

if [ ! -x "$bench" ]; then
  echo "compare_pytorch: there is no program $bench; build the target train_bench with -DSTARLING_BENCH=ON" >&2
  exit 2
fi
have_torch=yes
if ! "$python" -c 'import torch' 2>/dev/null; then
  have_torch=no
  echo "PyTorch is not installed for $python (Debian: python3-torch), so only Starling is measured."
fi

results=$(mktemp)
trap 'rm -f "$results"' EXIT
rate() { awk -v who="$1" '$2 == "samples_per_second" { print who, $3 }' >>"$results"; }

round=0
while [ $round -lt $rounds ]; do
  "$bench" --seconds 2 lenet | rate starling-1
  if [ $have_torch = yes ]; then
    for threads in 1 2; do
      OMP_NUM_THREADS=$threads "$python" "$here/pytorch_lenet.py" --threads $threads --seconds 2 | rate pytorch-$threads
    done
  fi
  round=$((round + 1))
done

median() { awk -v who="$1" '$1 == who { print $2 }' "$results" | sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }

echo "LeNet, batch 64, float32, SGD with momentum; samples a second, median of $rounds rounds"
ours=$(median starling-1)
printf '%-22s %10.0f\n' 'Starling, 1 worker' "$ours"
if [ $have_torch = yes ]; then
  for threads in 1 2; do
    theirs=$(median pytorch-$threads)
    awk -v ours="$ours" -v theirs="$theirs" -v threads=$threads 'BEGIN {
      printf "%-22s %10.0f   Starling is %.2f times as fast\n", "PyTorch, threads: " threads, theirs, ours / theirs }'
  done
fi
