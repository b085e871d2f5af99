#!/bin/sh
# Compares training steps of Starling and PyTorch on the same GPU, one after the other: for each network a table of medians,
# one line per precision, with Starling's ratio to PyTorch's fastest variant (listed in bench/pytorch_gpu.py).
# usage: bench/compare_pytorch_gpu.sh [--seconds S] [--rounds N] [--variants LIST] [--precisions LIST] [--limit SECONDS]
#                                     [--backend cuda:N] [--torch-device DEVICE] [MODEL:BATCH...]
# (default: 1 second each, 3 rounds, everything, lenet:64 mlp:64 resnet18:256 gpt-char:64)
# TRAIN_BENCH is the program, default build/release/train_bench; PYTHON is a Python with PyTorch, default python3. Without
# PyTorch only Starling is measured. The results are also appended to the file $RATIOS for scripts, with 0 for missing
# values: MODEL PRECISION STARLING PYTORCH-BEST PYTORCH-EAGER PYTORCH-COMPILED.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bench=${TRAIN_BENCH:-$here/../build/release/train_bench}
python=${PYTHON:-python3}
seconds=1 rounds=3 variants=eager,graph,compile,compile+graph precisions=f32,tf32,bf16 limit=100000
backend=cuda:0 torch_device=cuda

while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=$2 ;;
    --rounds) rounds=$2 ;;
    --variants) variants=$2 ;;
    --precisions) precisions=$2 ;;
    --limit) limit=$2 ;;
    --backend) backend=$2 ;;
    --torch-device) torch_device=$2 ;;
    --*)
      echo "compare_pytorch_gpu: unknown argument $1; see the head of this script" >&2
      exit 2
      ;;
    *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || set -- lenet:64 mlp:64 resnet18:256 gpt-char:64

if [ ! -x "$bench" ]; then
  echo "compare_pytorch_gpu: $bench does not exist; build the target train_bench" >&2
  exit 2
fi

results=$(mktemp)
trap 'rm -f "$results"' EXIT
failed=0
for word in "$@"; do
  for precision in $(echo "$precisions" | tr , ' '); do
    if line=$("$bench" --backend "$backend" --precision "$precision" --batch "${word#*:}" --seconds "$seconds" \
      --rounds "$rounds" "${word%:*}"); then
      echo "$line" | awk -v p="$precision" '$2 == "samples_per_second" { print $1, p, "starling", $3 }' >>"$results"
    else
      failed=1
    fi
  done
done

if "$python" -c 'import torch' 2>/dev/null; then
  "$python" "$here/pytorch_gpu.py" --device "$torch_device" --precisions "$precisions" --variants "$variants" \
    --seconds "$seconds" --rounds "$rounds" --limit "$limit" "$@" |
    awk '$4 == "samples_per_second" { print $1, $2, $3, $5; fflush() }' >>"$results" || failed=1
else
  echo "PyTorch is not installed for $python; measuring Starling only."
fi

for word in "$@"; do
  case $word in
    gpt-*) optimizer=AdamW ;;
    *) optimizer="SGD with momentum" ;;
  esac
  echo "${word%:*}, batch ${word#*:}, $optimizer; samples per second, median of $rounds rounds"
  awk -v model="${word%:*}" -v precisions="$precisions" -v ratios="${RATIOS:-/dev/null}" '
    $1 == model { rate[$2, $3] = $4 }
    function cell(value) { return value == "" ? "-" : sprintf("%.0f", value) }
    END {
      split("eager graph compile compile+graph", ways, " ")
      printf "  %-6s %12s %12s %12s %12s %14s   %s\n", "", "Starling", "eager", "graph", "compile", "compile+graph", "to the best"
      n = split(precisions, kinds, ",")
      for (i = 1; i <= n; ++i) {
        p = kinds[i]
        best = 0
        for (w in ways) if (rate[p, ways[w]] + 0 > best) best = rate[p, ways[w]] + 0
        ours = rate[p, "starling"]
        ratio = (best > 0 && ours != "") ? sprintf("%.2f", ours / best) : "-"
        printf "  %-6s %12s %12s %12s %12s %14s   %s\n", p, cell(ours), cell(rate[p, "eager"]), cell(rate[p, "graph"]), \
          cell(rate[p, "compile"]), cell(rate[p, "compile+graph"]), ratio
        if (ours != "") print model, p, ours, best, rate[p, "eager"] + 0, rate[p, "compile"] + 0 >> ratios
      }
    }' "$results"
done
exit $failed
