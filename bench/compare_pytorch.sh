#!/bin/sh
# Compares training steps of Starling and PyTorch in interleaved rounds on the same machine: for each network a table of
# medians, with Starling's ratio to PyTorch's best: eager or compiled (from version 2 on), with any number of threads; in
# float32 and, if the processor supports it, in bfloat16 (whose ratio is to PyTorch's best in any precision).
# usage: bench/compare_pytorch.sh [ROUNDS [MODEL...]] (default: 5 lenet mlp resnet18)
# TRAIN_BENCH is the program, default build/release/train_bench; PYTHON is a Python with PyTorch, default /usr/bin/python3,
# which Debian's python3-torch uses. Debian's PyTorch is slow without a good BLAS: install libopenblas0. The current wheel is
# faster: python3 -m venv DIR && DIR/bin/pip install torch, then PYTHON=DIR/bin/python.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bench=${TRAIN_BENCH:-$here/../build/release/train_bench}
python=${PYTHON:-/usr/bin/python3}
rounds=${1:-5}
[ $# -eq 0 ] || shift
models=${*:-lenet mlp resnet18}
cores=$(nproc)

if [ ! -x "$bench" ]; then
  echo "compare_pytorch: $bench does not exist; build the target train_bench" >&2
  exit 2
fi
have_torch=yes
if ! "$python" -c 'import torch' 2>/dev/null; then
  have_torch=no
  echo "PyTorch is not installed for $python (Debian: python3-torch); measuring Starling only."
fi

variants=eager
if [ $have_torch = yes ]; then
  "$python" "$here/pytorch_step.py" --version
  if "$python" -c 'import torch; torch.compile' 2>/dev/null; then variants="eager compile"; fi
fi

results=$(mktemp)
trap 'rm -f "$results"' EXIT
rate() { awk -v who="$1" '$2 == "samples_per_second" { print who, $3 }' >>"$results"; }
median() { awk -v who="$1" '$1 == who { print $2 }' "$results" | sort -n | awk '{ a[NR] = $1 } END { if (NR) print a[int((NR + 1) / 2)] }'; }

# bfloat16 only if the processor supports it.
precisions=f32
if "$bench" --precision bf16 --seconds 0 mlp >/dev/null 2>&1; then
  precisions="f32 bf16"
else
  echo "This processor has no bfloat16 arithmetic; measuring float32 only."
fi

# One thread, and one per core.
counts=1
[ "$cores" -eq 1 ] || counts="1 $cores"

for model in $models; do
  round=0
  while [ $round -lt "$rounds" ]; do
    for n in $counts; do
      for precision in $precisions; do
        "$bench" --seconds 3 --workers "$n" --precision "$precision" "$model" | rate "$model-starling-$precision-$n"
        [ $have_torch = yes ] || continue
        for variant in $variants; do
          "$python" "$here/pytorch_step.py" --seconds 3 --threads "$n" --precision "$precision" --variant "$variant" "$model" |
            rate "$model-pytorch-$variant-$precision-$n"
        done
      done
    done
    round=$((round + 1))
  done
  case $model in gpt-*) optimizer=AdamW ;; *) optimizer="SGD with momentum" ;; esac
  echo "$model, $optimizer; samples per second, median of $rounds rounds"
  best=0
  for precision in $precisions; do
    for n in $counts; do
      [ $have_torch = yes ] || continue
      for variant in $variants; do
        theirs=$(median "$model-pytorch-$variant-$precision-$n")
        label="PyTorch $variant, $precision, threads: $n"
        if [ -z "$theirs" ]; then
          printf '  %-36s %10s\n' "$label" failed
          continue
        fi
        printf '  %-36s %10.2f\n' "$label" "$theirs"
        best=$(awk -v a="$best" -v b="$theirs" 'BEGIN { print (a > b ? a : b) }')
      done
    done
    for n in $counts; do
      ours=$(median "$model-starling-$precision-$n")
      printf '  %-36s %10.2f' "Starling, $precision, workers: $n" "$ours"
      [ $have_torch = no ] || awk -v ours="$ours" -v best="$best" 'BEGIN { printf "   %.2f times PyTorch at its best", ours / best }'
      echo
    done
  done
done
