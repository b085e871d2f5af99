# shellcheck shell=bash disable=SC2154
# Part of scripts/gpu-check: the checks, one function each, in the order of their runs. The most fundamental checks come first,
# and those that may be cut short come last.

run_checks() {
  local program
  for program in starling train_bench cuda_bench; do
    if [[ ! -x $build/$program ]]; then
      echo "scripts/gpu-check: $build/$program does not exist; build it with scripts/gpu-check --build" >&2
      exit 2
    fi
  done
  local module=$build/libstarling_cuda.so
  [[ $emulated == no ]] || module=$build/libstarling_cuda_emulated.so
  STARLING_CUDA_MODULE=$(readlink -f "$module")
  # Without a working GPU tests must fail instead of using the emulated device.
  export STARLING_CUDA_MODULE STARLING_TESTS_GPU=must
  check_device || return 0
  local group
  for group in "${groups[@]}"; do
    [[ -n $only && ,$only, != *,$group,* ]] || "check_$group"
  done
}

# field FILE PYTHON-EXPRESSION-OF-o: evaluates it for the JSON object o in the last line of the file; prints nothing on failure.
field() {
  python3 -c 'import json, sys
o = json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])
print(eval(sys.argv[2]))' "$1" "$2" 2>/dev/null || true
}

check_device() {
  local status=0 name
  step 60 doctor "$build/starling" doctor --json || status=$?
  step 60 doctor-text "$build/starling" doctor || true
  cat "$logs/doctor-text"
  name=$(field "$logs/doctor" "next(d['name'] + ', ' + d['compute_capability'] for d in o['cuda']['devices'] if d['device'] == '$device' and d['usable'])")
  if ((status == 0)) && [[ -n $name ]]; then
    row "$device" "$name" "usable" ok
  else
    row "$device" "$(field "$logs/doctor" "o['cuda']['problem'] or 'no such usable device'")" "usable" failed
    return 1
  fi
}

# Runs the test programs whose cases use every back end, and the tagged GPU cases of others. Cases that check a guarantee of
# the whole back end also have their own row.
check_tests() {
  local room lanes=1 leak_case="exchanges and workers that come and go leave no memory behind on a GPU"
  (($(nproc) < 8)) || lanes=3
  for room in kernels training models node cli; do
    [[ $quick == no || $room != cli ]] || continue
    while (($(jobs -pr | wc -l) >= lanes)); do wait -n || true; done
    check_tests_of "$room" &
  done
  wait
  check_case training "ten steps of LeNet on a GPU have the host's losses" "ten steps of LeNet, losses beside the processor's" \
    "within 1e-3"
  check_case training "small Transformers on a GPU have the host's losses in steps and in an evaluation" \
    "steps of gpt-tiny and llama-tiny, losses beside the processor's" "within 1e-3"
  check_case training "stages on devices have the gradient of stages on the host" "stages on 2 and 4 GPUs, beside the host" \
    "within 1e-4"
  check_case training "PipeDream's stages on devices train like those on the host" \
    "PipeDream on 2 and 4 GPUs, beside the host" "within 2e-4"
  check_case training "replicas of stages on devices train like those on the host" \
    "stages with replicas on 4 GPUs, beside the host" "within 2e-4"
  check_case training "layers that are divided among devices have the gradient of those on the host" \
    "divided layers on 2 and 3 GPUs, beside the host" "within 1e-4"
  check_case kernels "attention with heads of usual sizes agrees with the reference" \
    "attention, heads of 16 to 128, beside the reference" "within 3e-5"
  check_case training "$leak_case" "device memory after 1,000 exchanges, 50 joins" "none lost"
  check_case cli "a peer that loses its GPU leaves, and the others continue" \
    "a lost GPU, emulated" "the swarm continues"
  check_case cli "too little GPU memory is an error with the required and the free memory" \
    "too little memory, emulated" "one line, need within 5 %"
  check_no_room
}

# check_case ROOM CASE ROW WANTED
check_case() {
  local status=0 name figure
  name=case-$(tr -c 'a-zA-Z0-9\n' - <<<"$2")
  step 120 "$name" "$build/tests-$1" "${2//,/\\,}" || status=$? # a comma would separate two patterns
  figure=$(why "$status")
  if ((status == 0)); then figure="passed"; fi
  if grep -qE 'skipped|No test' "$logs/$name"; then status=1 figure="did not run"; fi
  row "$3" "$figure" "$4" "$( ((status == 0)) && echo ok || echo failed)"
}

# Requests more memory than any real GPU has.
check_no_room() {
  local status=0 figure
  step 60 no-room "$build/starling" peer --listen 127.0.0.1:0 --data glyphs --device "$device" --model resnet18 --batch-size 16384 \
    --workers 64 --seconds 1 || status=$?
  figure=$(sed -n 's/.* \(has .* free\) of its .* \(needs about [0-9.]* [GM]B\);.*/\1, \2/p' "$logs/no-room")
  if ((status == 2)) && [[ -n $figure && $(wc -l <"$logs/no-room") == 1 ]]; then
    row "too little memory" "$figure" "one line with the need" ok
  else
    row "too little memory" "$(tail -n 1 "$logs/no-room" | cut -c 1-60)" "one line with the need" failed
  fi
}

check_tests_of() {
  local room=$1 status=0 program=$build/tests-$1 filter=() last wanted="all pass"
  # Every operation, compared with the reference.
  [[ $room != kernels ]] || wanted="all pass: f32 1e-4, bf16 1e-2"
  if [[ ! -x $program ]]; then
    row "tests of $room" "not built" "all pass" failed
    return
  fi
  if [[ $room != kernels ]]; then
    # Other processes on the GPU change its free memory, so this case runs separately.
    filter=("[gpu]~$leak_case")
    if [[ $("$program" '[gpu]' --list-tests 2>/dev/null) =~ (^|[^0-9])0\ matching ]]; then
      row "tests of $room on a GPU" "no such tests" "all pass" skipped
      return
    fi
  fi
  step 240 "tests-$room" "$program" "${filter[@]}" || status=$?
  last=$(grep -E '^(All tests passed|test cases:)' "$logs/tests-$room" | tail -n 1 | tr -s ' ')
  last=${last#All tests passed }
  if ((status == 0)); then
    # A skipped test proves nothing.
    if grep -q 'skipped on a GPU' "$logs/tests-$room"; then status=1 last="skipped without a GPU"; fi
  fi
  row "tests of $room on a GPU" "${last:-$(why "$status")}" "$wanted" "$( ((status == 0)) && echo ok || echo failed)"
}

check_sanitizers() {
  local tool sanitizer what filter=()
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [[ $emulated == yes ]]; then
    sanitizer=''
  elif [[ -n $sanitizer && $("$sanitizer" --help 2>&1) == *--kernel-name* ]]; then
    filter=(--kernel-name kernel_substring=starling) # only ours: the libraries' kernels would take most of the time
  fi
  for tool in memcheck racecheck; do
    for what in lenet:f32 lenet:bf16 resnet8:f32 resnet8:bf16 gpt-tiny:f32 llama-tiny:bf16; do
      [[ $quick == no || $what == resnet8:bf16 || $what == llama-tiny:bf16 ]] || continue
      while (($(jobs -pr | wc -l) >= ($(nproc) < 8 ? 1 : 4))); do wait -n || true; done
      check_sanitizer "$tool" "${what%:*}" "${what#*:}" &
    done
  done
  wait
}

# Runs enough training steps for both lanes to record one, under the sanitizer that check_sanitizers() has found.
check_sanitizer() {
  local tool=$1 model=$2 precision=$3 status=0 name="$1-$2-$3" prefix_words=()
  if [[ -n $sanitizer ]]; then
    prefix_words=("$sanitizer" --tool "$tool" --error-exitcode 9 "${filter[@]}")
  elif [[ $emulated == no ]]; then
    row "$tool, a step of $model in $precision" "no compute-sanitizer" "no error" skipped
    return
  fi
  step 150 "$name" "${prefix_words[@]}" "$build/train_bench" --backend "$device" --precision "$precision" --steps 3 --batch 4 \
    "$model" || status=$?
  if ((status != 0)) && grep -q 'Device not supported' "$logs/$name"; then
    row "$tool, a step of $model in $precision" "device not supported" "no error" skipped
  elif ((status != 0)) && grep -q 'Internal Sanitizer Error' "$logs/$name"; then
    row "$tool, a step of $model in $precision" "an internal error of the sanitizer" "no error" failed
  elif ((status != 0)); then
    row "$tool, a step of $model in $precision" "$(why "$status")" "no error" failed
  elif [[ -z $sanitizer ]]; then
    row "$tool, a step of $model in $precision" "ran without sanitizer" "no error" skipped
  else
    row "$tool, a step of $model in $precision" "no error" "no error" ok
  fi
}

# A single peer learns in each precision: to read digits, and to continue text.
check_learning() {
  check_learning_of_images
  check_learning_of_text
}

check_learning_of_images() {
  local precision data=glyphs epochs=5 least=0.988 status accuracy seconds
  [[ $data_there == no ]] || data=mnist
  [[ $data == mnist ]] || least=0.98
  [[ $quick == no ]] || { epochs=1 least=0.95; }
  [[ $emulated == no ]] || { data=glyphs epochs=0.03 least=0.1; }
  for precision in f32 tf32 bf16; do
    status=0
    step 120 "learning-$precision" "$build/starling" swarm --peers 1 --device "$device" --precision "$precision" --model lenet \
      --data "$data" --batch-size 64 --learning-rate 0.05 --epochs "$epochs" --seed 1 --out "$logs/run-$precision" --json || status=$?
    accuracy=$(field "$logs/learning-$precision" "'%.4f' % o['accuracy']")
    seconds=$(field "$logs/learning-$precision" "'%.1f' % o['wall_seconds']")
    row "LeNet on $data, $epochs epochs in $precision" "${accuracy:-$(why "$status")}${seconds:+ in $seconds s}" "$least or more" \
      "$(awk -v a="${accuracy:-0}" -v b="$least" 'BEGIN { print (a + 0 >= b + 0) ? "ok" : "failed" }')"
  done
}

# The text is this project's documents.
check_learning_of_text() {
  local precision epochs=4 warmup='100 steps' most=2.0 status loss seconds
  [[ $quick == no ]] || { epochs=1 most=2.7; }
  [[ $emulated == no ]] || { epochs=0.02 warmup='2 steps' most=4.7; }
  cat docs/*.md >"$logs/documents.txt"
  for precision in f32 bf16; do
    status=0
    step 120 "text-$precision" "$build/starling" swarm --peers 1 --device "$device" --precision "$precision" \
      --model gpt-tiny --data "$logs/documents.txt" --batch-size 12 --optimizer adamw --learning-rate 0.003 \
      --beta2 0.99 --clip-norm 1 --warmup "$warmup" --schedule cosine --epochs "$epochs" --seed 1 \
      --out "$logs/text-run-$precision" --json || status=$?
    loss=$(field "$logs/text-$precision" "'%.3f' % o['loss']")
    seconds=$(field "$logs/text-$precision" "'%.1f' % o['wall_seconds']")
    row "gpt-tiny on documents, $epochs epochs in $precision, loss" "${loss:-$(why "$status")}${seconds:+ in $seconds s}" \
      "$most or less" "$(awk -v a="${loss:-99}" -v b="$most" 'BEGIN { print (a + 0 <= b + 0) ? "ok" : "failed" }')"
  done
}

# Passes over the arena compared with a plain copy, and exchanges through pinned memory.
check_memory() {
  local status=0 words=(--seconds 1) a b c d e
  [[ $quick == no ]] || words=(--seconds 0.3)
  [[ $emulated == no ]] || words=(--seconds 0.05 --megabytes 8 --model lenet --batch 4)
  step 120 cuda-bench "$build/cuda_bench" --backend "$device" --precision bf16 "${words[@]}" || status=$?
  if ((status != 0)); then row "cuda_bench" "$(why "$status")" "exit code 0" failed; fi
  while read -r a b c d e; do
    case $a in
      copy) row "copy within the device" "$b GB/s" "-" ok ;;
      pass) at_least "$b over the arena, % of the copy ($d GB/s)" "$c" 85 ;;
      device) at_least "exchange, $b, chunks of $c KiB ($d GB/s), % of the host's" "$e" 80 ;;
      beside) at_least "training beside $b, chunks of $c KiB ($e GB/s), % kept" "$d" 98 ;;
    esac
  done < <(awk '
    $1 == "pass" && $2 == "copy" { print "copy", $6 }
    $1 == "pass" && $2 != "copy" { print "pass", $2, $8, $6 }
    $1 == "exchange" && $2 == "host" { host[$3, $5] = $7 }
    $1 == "exchange" && $2 == "device" { print "device", $3, $5, $7, sprintf("%.1f", 100 * $7 / (host[$3, $5] + 1e-9)) }
    $1 == "exchange" && $2 == "beside_training" && $3 == "read_and_mix" { print "beside", $3, $5, $11, $7 }
  ' "$logs/cuda-bench")
}

# speed_beside NAME RATE LEAST: adds a row for the ratio of `ours` of check_speed() to RATE; 0 means unmeasured.
speed_beside() {
  if [[ $2 == 0 ]]; then
    row "$model in $precision, samples a second" "$ours, $1 unmeasured" "$3 or more of it" skipped
  else
    at_least "$model in $precision ($ours a second), to $1" "$(awk -v a="$ours" -v b="$2" 'BEGIN { printf "%.2f", a / b }')" "$3"
  fi
}

# Samples per second compared with PyTorch. It may use the remaining time, except for some seconds to print.
check_speed() {
  local status=0 left=$((patience - (SECONDS - begun) - 10)) words model precision ours best eager compiled
  local models=(lenet:64 mlp:64 resnet18:256 gpt-char:64)
  words=(--seconds 1 --rounds 3 --limit $((left > 150 ? left - 150 : 0)))
  [[ $quick == no ]] || words=(--seconds 0.5 --rounds 3 --variants "eager,graph")
  if [[ $emulated == yes ]]; then
    words=(--seconds 0.1 --rounds 1 --variants eager --torch-device cpu)
    models=(lenet:4 mlp:4 gpt-tiny:2)
  fi
  RATIOS=$logs/ratios TRAIN_BENCH=$build/train_bench PYTHON=$python step "$((left > 5 ? left : 5))" pytorch \
    bench/compare_pytorch_gpu.sh --backend "$device" "${words[@]}" "${models[@]}" || status=$?
  cat "$logs/pytorch"
  if ((status != 0)); then row "bench/compare_pytorch_gpu.sh" "$(why "$status")" "exit code 0" failed; fi
  while read -r model precision ours best eager compiled; do
    # Small networks are compared with PyTorch's default mode, the large one with its fastest.
    case $model:$precision in
      lenet:f32 | mlp:f32) speed_beside "PyTorch, eager" "$eager" 8 ;;
      resnet18:bf16) speed_beside "torch.compile" "$compiled" 1 ;;
      gpt-*)
        speed_beside "PyTorch, eager" "$eager" 1
        speed_beside "torch.compile" "$compiled" 1
        ;;
      *) speed_beside "PyTorch's best" "$best" 1 ;;
    esac
  done < <(cat "$logs/ratios" 2>/dev/null)
}
