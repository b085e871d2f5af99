#!/usr/bin/env bash
# The cost of gossip for a training peer: the steps of a peer that exchanges every 8 steps, compared with its steps without
# exchanges, in alternating rounds on the same machine. Its partner is slowed tenfold, so that a core is free for the protocol.
#   bench/gossip_cost.sh [ROUNDS] [SECONDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=${1:-5}
seconds=${2:-15}
program=${STARLING:-build/release/starling}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The first peer's steps per second under RULE.
steps_per_second() {
  "$program" swarm --peers 2 --model lenet --data glyphs --batch-size 64 --slow 1=10 --every '8 steps' --seconds "$seconds" \
    --rule "$1" --out "$scratch/$1" --force --json 2>/dev/null |
    sed -n 's/.*"seconds":\([0-9.e+-]*\),"wall.*"per_peer":\[{[^}]*"steps":\([0-9]*\).*/\2 \1/p' |
    awk '{ printf "%.3f", $1 / $2 }'
}

printf 'round  alone  gossiping  ratio   (steps/s of one LeNet worker, batch 64)\n'
for ((round = 1; round <= rounds; ++round)); do
  alone=$(steps_per_second none)
  gossiping=$(steps_per_second pairwise)
  awk -v r="$round" -v a="$alone" -v g="$gossiping" 'BEGIN { printf "%5d  %5.2f  %9.2f  %.4f\n", r, a, g, g / a }'
done | tee "$scratch/rounds"
sort -k4 -n "$scratch/rounds" | awk '{ ratio[NR] = $4 } END { printf "median ratio %.4f: gossiping costs %.1f %%\n", ratio[int((NR + 1) / 2)], 100 * (1 - ratio[int((NR + 1) / 2)]) }'
