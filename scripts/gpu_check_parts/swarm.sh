# shellcheck shell=bash disable=SC2154
# Part of scripts/gpu-check: swarms of a GPU peer and two CPU peers: whether all learn, and whether the GPU peer is slowed down.

# CPU lists for taskset: for the GPU peer and for each of the others, on different physical cores. Empty if there are too few.
choose_processors() {
  gpu_processors='' other_processors=('' '')
  command -v taskset >/dev/null || return 0
  local lists=()
  read -ra lists < <(python3 -c 'import os
l = sorted(os.sched_getaffinity(0))
print(*([",".join(map(str, l[:4])), l[len(l) // 2 - 1], l[-1]] if len(l) >= 12 else []))' 2>/dev/null) || true
  ((${#lists[@]} == 3)) || return 0
  gpu_processors=${lists[0]} other_processors=("${lists[@]:1}")
}

# start_peer LOG PROCESSORS FLAGS...: starts a peer in the background; $! is its process, which has a time limit.
start_peer() {
  local log=$1 pinned=()
  [[ -z $2 ]] || pinned=(taskset -c "$2")
  shift 2
  "${pinned[@]}" "$build/starling" peer --listen 127.0.0.1:0 --data "$swarm_data" --out "$logs" "$@" >"$log" 2>&1 </dev/null &
}

# Waits until the file contains the text, for at most some seconds.
wait_for() {
  local i
  for ((i = 0; i < 300; ++i)); do
    ! grep -q "$2" "$1" 2>/dev/null || return 0
    sleep 0.1
  done
  return 1
}

# The address after a text in a peer's log.
word_behind() {
  sed -n "s/.*$2\([0-9.:]*\).*/\1/p" "$1" | head -n 1
}

end_peers() {
  kill -KILL "$@" 2>/dev/null || true
  wait "$@" 2>/dev/null || true
}

log_peers() {
  local log
  for log in "$@"; do
    { printf '\n==== %s\n' "$(basename "$log")" && cat "$log"; } >>"$out/log.txt" 2>/dev/null || true
  done
}

check_swarm() {
  local swarm_data=glyphs gpu_processors other_processors
  [[ $data_there == no ]] || swarm_data=mnist
  choose_processors
  check_swarm_learns
  check_swarm_slows_nobody
}

# After some seconds all peers must have a good replica.
check_swarm_learns() {
  local address='' name exchanges accuracy lowest=100 seconds=15 least=97 batch=64 pids=() i=0
  [[ $quick == no ]] || seconds=8
  [[ $emulated == no ]] || { seconds=8 least=50 batch=16; }
  start_peer "$logs/swarm-gpu" "$gpu_processors" --name gpu --device "$device" --model lenet --batch-size "$batch" --seconds "$seconds" \
    --seed 1
  pids+=($!)
  if wait_for "$logs/swarm-gpu" ' listens at '; then
    address=$(word_behind "$logs/swarm-gpu" ' listens at ')
    for name in processor-1 processor-2; do
      start_peer "$logs/swarm-$name" "${other_processors[i++]}" --name "$name" --device cpu --join "$address"
      pids+=($!)
    done
  fi
  # They end with the run and evaluate their replicas.
  for ((i = 0; i < 600; ++i)); do
    [[ -n $(jobs -pr) ]] || break
    sleep 0.1
  done
  end_peers "${pids[@]}"
  for name in gpu processor-1 processor-2; do
    accuracy=$(sed -n 's/.* accuracy \([0-9.]*\) %,.*/\1/p' "$logs/swarm-$name" 2>/dev/null | tail -n 1)
    lowest=$(awk -v a="${accuracy:-0}" -v b="$lowest" 'BEGIN { print (a < b) ? a : b }')
  done
  log_peers "$logs"/swarm-{gpu,processor-1,processor-2}
  exchanges=$(sed -n 's/.* \([0-9]*\) exchanges begun and \([0-9]*\) answered.*/\1 \2/p' "$logs/swarm-gpu" | tail -n 1 | awk '{ print $1 + $2 }')
  row "a GPU and two CPU peers, least accurate" "$lowest %" "$least % or more" \
    "$(awk -v a="$lowest" -v b="$least" 'BEGIN { print (a + 0 >= b + 0) ? "ok" : "failed" }')"
  row "  exchanges of the GPU peer" "${exchanges:-0}" "1 or more" "$( ((${exchanges:-0} > 0)) && echo ok || echo failed)"
}

# Sets `rate` and `exchanges` of a GPU peer, alone or with two CPU peers; empty on failure.
# measure_peer NAME alone|beside
measure_peer() {
  local log=$logs/$1-$2 address http pids=() name moment i=0 flags=(--name gpu --device "$device" --model lenet --http 127.0.0.1:0)
  rate='' exchanges=''
  start_peer "$log" "$gpu_processors" "${flags[@]}" --batch-size "$batch" --seconds 90 --seed 1
  pids+=($!)
  if wait_for "$log" 'training begins'; then
    http=$(word_behind "$log" 'HTTP at ')
    address=$(word_behind "$log" ' listens at ')
    if [[ $2 == beside ]]; then
      for name in processor-1 processor-2; do
        start_peer "$log-$name" "${other_processors[i++]}" --name "$name" --device cpu --join "$address"
        pids+=($!)
      done
      for name in processor-1 processor-2; do wait_for "$log-$name" 'training begins' || true; done
    fi
    sleep 1
    for moment in begin end; do
      timeout 10 "$build/starling" status --at "$http" --json >"$log-$moment" 2>&1 </dev/null || true
      [[ $moment == end ]] || sleep "$seconds"
    done
    read -r rate exchanges < <(python3 -c 'import json, sys
a, b = (json.loads(open(name).read()) for name in sys.argv[1:])
count = lambda o: o["exchanges"]["begun"] + o["exchanges"]["answered"]
print("%.0f" % ((b["samples"] - a["samples"]) / (b["uptime_seconds"] - a["uptime_seconds"])), count(b) - count(a))
' "$log-begin" "$log-end" 2>>"$log") || true
  fi
  end_peers "${pids[@]}"
  log_peers "$log"*
}

median() {
  printf '%s\n' "$@" | sort -g | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

# The GPU peer's rate with CPU peers relative to its rate alone, in alternating runs: it must not wait for them.
check_swarm_slows_nobody() {
  local round rounds=3 seconds=4 batch=64 alone=() beside=() rate exchanges least_exchanges='' a b
  [[ $quick == no ]] || seconds=2
  [[ $emulated == no ]] || { rounds=1 seconds=2 batch=16; }
  for ((round = 1; round <= rounds; ++round)); do
    ((patience - (SECONDS - begun) > 25)) || break
    measure_peer "rate-$round" alone
    [[ -z $rate ]] || alone+=("$rate")
    measure_peer "rate-$round" beside
    [[ -z $rate ]] || beside+=("$rate")
    if [[ -z $least_exchanges ]] || ((${exchanges:-0} < least_exchanges)); then least_exchanges=${exchanges:-0}; fi
  done
  if ((${#alone[@]} == 0 || ${#beside[@]} == 0 || ${least_exchanges:-0} == 0)); then
    row "the GPU peer with two CPU peers, % of alone" "no rate, or no exchanges" "97 or more" failed
    return
  fi
  a=$(median "${alone[@]}") b=$(median "${beside[@]}")
  at_least "the GPU peer with two CPU peers ($b samples/s, $least_exchanges exchanges in $seconds s), % of alone" \
    "$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.1f", 100 * b / (a + 1e-9) }')" 97
}
