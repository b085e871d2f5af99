#!/bin/sh
# Compares the parameter exchange between two processes over loopback, in interleaved rounds on the same machine: Starling
# (exchange_bench: with checksum, check and mix), PyTorch over Gloo (isend, irecv, average) and the bare wire by iperf3
# --bidir (mean of both directions). Prints the medians of ROUNDS rounds, once with free scheduling and once with each process
# pinned to a core. Programs that are not installed are skipped.
#   bench/compare_exchange.sh [ROUNDS] [EXCHANGE_BENCH]     (default: 5 build/release/exchange_bench)
# PYTHON is a Python with PyTorch; default /usr/bin/python3, which Debian's python3-torch uses.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
rounds=${1:-5}
bench=${2:-$here/../build/release/exchange_bench}
python=${PYTHON:-/usr/bin/python3}
port=${PORT:-5317}

if [ ! -x "$bench" ]; then
  echo "compare_exchange: $bench does not exist; build the target exchange_bench" >&2
  exit 2
fi
gloo=yes
if ! "$python" -c 'import torch.distributed' 2>/dev/null; then
  gloo=no
  echo "PyTorch is not installed for $python (Debian: python3-torch); skipping Gloo."
fi
wire=yes
if ! command -v iperf3 >/dev/null; then
  wire=no
  echo "iperf3 is not installed; skipping the bare wire."
fi

results=$(mktemp)
trap 'rm -f "$results"' EXIT

# Converts the output of either program to lines "WHO FLOATS Gbit/s ms".
keep() { awk -v who="$1" '$2 == "floats" { print who, $3, $5, $7 }' >>"$results"; }

# keep_wire WHO [-A CORE,CORE]
keep_wire() {
  who=$1
  shift
  iperf3 --server --one-off --port "$port" >/dev/null 2>&1 &
  server=$!
  for try in 1 2 3 4 5; do
    if iperf3 --client 127.0.0.1 --port "$port" --bidir --length 1M --time 2 --format m "$@" 2>/dev/null |
      awk -v who="$who" '/receiver/ { for (i = 2; i <= NF; ++i) if ($i == "Mbits/sec") sum += $(i - 1) }
        END { if (!sum) exit 1; print who, 0, sum / 2000, 0 }' >>"$results"; then break; fi
    sleep 0.2 # it does not listen yet
  done
  kill $server 2>/dev/null || true
  wait $server 2>/dev/null || true
}

round=0
while [ $round -lt "$rounds" ]; do
  "$bench" | keep starling-free
  [ $gloo = no ] || "$python" "$here/gloo_exchange.py" | keep gloo-free
  [ $wire = no ] || keep_wire wire-free
  "$bench" --pin | keep starling-pinned
  [ $gloo = no ] || "$python" "$here/gloo_exchange.py" --pin | keep gloo-pinned
  [ $wire = no ] || keep_wire wire-pinned -A 0,1
  round=$((round + 1))
done

# median WHO FLOATS COLUMN
median() {
  awk -v who="$1" -v floats="$2" -v column="$3" '$1 == who && $2 == floats { print $column }' "$results" | sort -n |
    awk '{ a[NR] = $1 } END { if (NR) print a[int((NR + 1) / 2)]; else print 0 }'
}

printf '%-10s %-10s %20s %10s %14s %14s\n' processes what '45 MB, Gbit/s a way' '0.5 MB, ms' 'x Gloo (45 MB)' 'of the wire'
for how in free pinned; do
  theirs=$(median gloo-$how 11250000 3)
  bound=$(median wire-$how 0 3)
  for who in starling gloo; do
    awk -v how=$how -v who=$who -v rate="$(median $who-$how 11250000 3)" -v ms="$(median $who-$how 125000 4)" \
      -v theirs="$theirs" -v bound="$bound" 'BEGIN {
        if (rate == 0) exit
        printf "%-10s %-10s %20.2f %10.3f %14s %14s\n", how, who, rate, ms,
          (theirs > 0 ? sprintf("%.2f", rate / theirs) : "-"), (bound > 0 ? sprintf("%.0f %%", 100 * rate / bound) : "-") }'
  done
  awk -v how=$how -v bound="$bound" 'BEGIN { if (bound > 0) printf "%-10s %-10s %20.2f\n", how, "iperf3", bound }'
done
