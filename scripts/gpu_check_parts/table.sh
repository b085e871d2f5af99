# shellcheck shell=bash disable=SC2154
# Part of scripts/gpu-check: steps with a time limit whose output goes to the log, and the table at the end.

# Time limit of all checks in seconds: later checks are not run and count as failed.
readonly patience=510

begin_table() {
  rows=$(mktemp)
  logs=$(mktemp -d)
  trap 'rm -rf "$rows" "$logs"' EXIT
  begun=$SECONDS
}

# row CHECK FIGURE WANTED VERDICT: adds a row; VERDICT is ok, failed, below or skipped
row() {
  printf '%s\t%s\t%s\t%s\n' "$@" >>"$rows"
  printf '%4d s  %-52s %-24s %s\n' $((SECONDS - begun)) "$1" "$2" "$4"
}

# at_least CHECK FIGURE LEAST [UNIT]: adds a row for a speed.
at_least() {
  local verdict
  verdict=$(awk -v a="$2" -v b="$3" 'BEGIN { print (a + 0 >= b + 0) ? "ok" : "below" }')
  [[ $emulated == no ]] || verdict=ok # speeds do not matter
  row "$1" "$2${4:+ $4}" "$([[ $emulated == no ]] && echo "$3${4:+ $4} or more" || echo -)" "$verdict"
}

# step LIMIT NAME COMMAND...: runs it with output to $logs/NAME. Returns its exit code, 124 on timeout.
step() {
  local limit=$1 name=$2 left=$((patience - (SECONDS - begun))) status=0
  shift 2
  if ((left < 5)); then
    echo "no time left" >"$logs/$name"
    return 124
  fi
  timeout --kill-after=5 "$((limit < left ? limit : left))" "$@" >"$logs/$name" 2>&1 </dev/null || status=$?
  {
    printf '\n==== %s: %s\n' "$name" "$*"
    cat "$logs/$name"
    printf '==== exit code %d\n' "$status"
  } >"$logs/$name.told"
  flock "$logs" cat "$logs/$name.told" >>"$out/log.txt" # serializes the output of parallel steps
  return "$status"
}

# A short reason for a failed step.
why() {
  if (($1 == 124 || $1 == 137)); then
    echo "took too long"
  else
    echo "exit code $1"
  fi
}

show_table() {
  local failed
  failed=$(awk -F '\t' '$4 !~ /^(ok|below|skipped)$/' "$rows" | wc -l)
  {
    echo
    awk -F '\t' '
      function line(a, b, c, d) { printf "%-" w[1] "s  %-" w[2] "s  %-" w[3] "s  %s\n", a, b, c, d }
      BEGIN { head = "check\tfigure\twanted\tverdict"; n = split(head, h, "\t"); for (i = 1; i <= n; ++i) w[i] = length(h[i]) }
      { for (i = 1; i <= 4; ++i) { cell[NR, i] = $i; if (length($i) > w[i]) w[i] = length($i) } }
      END {
        line(h[1], h[2], h[3], h[4])
        for (r = 1; r <= NR; ++r) line(cell[r, 1], cell[r, 2], cell[r, 3], cell[r, 4])
      }' "$rows"
    echo
    awk -F '\t' '{ ++n[$4] } END { printf "%d ok, %d failed, %d below target, %d skipped\n", n["ok"], n["failed"], n["below"], n["skipped"] }' "$rows"
  } | tee "$out/table.txt"
  echo "full output: $out/log.txt"
  ((failed == 0))
}
