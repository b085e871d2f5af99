#!/usr/bin/env bash
# The effect of the topology on learning: LeNet on 16 simulated peers with skewed data (Dirichlet 0.1) and rare exchanges,
# over topologies with different spectral gaps, as a Markdown table. All figures are means over the seeds 1 to SEEDS.
#   STARLING_DATA=... bench/topology_table.sh [SEEDS] [TOPOLOGY...]
# Other settings of `starling simulate` go into FLAGS, for example FLAGS="--epochs 1 --data glyphs".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seeds=${1:-2}
shift || true
topologies=("$@")
[ ${#topologies[@]} -gt 0 ] || topologies=(line ring torus exponential complete)
program=${STARLING:-build/release/starling}
read -ra more <<<"${FLAGS:-}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The number of a summary key; per-peer values are ignored.
field() { sed -n "s/\"per_peer\".*//; s/.*\"$1\":\([^,}]*\).*/\1/p" "$2"; }
# The mean over seeds, printed with FORMAT; a dash if a run has no such number.
mean() {
  for ((seed = 1; seed <= seeds; ++seed)); do field "$1" "$scratch/$seed.json"; done |
    awk -v format="$2" '$1 == "null" { none = 1 } { sum += $1 } END { if (none || NR == 0) print "-"; else printf format, sum / NR }'
}

echo "| topology | spectral gap | accuracy of the mean model | least accurate peer | consensus distance before settling | after | MB sent | virtual seconds |"
echo "|---|---|---|---|---|---|---|---|"
for topology in "${topologies[@]}"; do
  for ((seed = 1; seed <= seeds; ++seed)); do
    "$program" simulate --peers 16 --model lenet --data mnist --partition dirichlet:alpha=0.1 --batch-size 32 \
      --learning-rate 0.05 --momentum 0.9 --epochs 2 --every '8 steps' --topology "$topology" --seed "$seed" \
      --out "$scratch/run" --force --json "${more[@]}" >"$scratch/$seed.json"
  done
  printf '| %s | %s | %s | %s | %s | %s | %s | %s |\n' "$topology" "$(mean spectral_gap %.4f)" "$(mean accuracy %.4f)" \
    "$(mean accuracy_min %.4f)" "$(mean consensus_distance_before_settling %.4f)" "$(mean consensus_distance %.4f)" \
    "$(mean bytes_sent %.0f | awk '{ printf "%.0f", $1 / 1e6 }')" "$(mean seconds %.1f)"
done
