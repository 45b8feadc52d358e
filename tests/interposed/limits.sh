#!/bin/bash
# A run in which memory, the disk or a clock fails. It ends with a reason and goes on afterwards, with the weights that
# it has elsewhere.
# usage: limits.sh BIN_FOLDER LIBRARY (interposed.c)
PATH=$(realpath "$1"):$PATH
library=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
small_text 200 >text
tiny_model >model.toml
run=(train --model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never --steps 4 --save-every 2)
weights=checkpoints/step-00000004/rank-00000.h5
expect 0 shard-data --input text --split paragraphs --validation 0 --output data
expect 0 "${run[@]}" --output plain

# ends_well KIND WORDS: the run on that system is complete, or ends with 4 and WORDS; afterwards it goes on.
ends_well() {
  local code=0
  rm -rf limited
  timeout "$time_limit" env LD_PRELOAD="$library" INTERPOSED="$1" "${run[@]}" --output limited >out 2>err || code=$?
  case $code in
    0) ;;
    4) said "$2"; refusals=$((refusals + 1)) ;;
    *) fail "exit code $code with $1" ;;
  esac
  expect 0 "${run[@]}" --output limited
  same limited/$weights plain/$weights "weights after $1"
}

# A disk that is full after so many bytes.
refusals=0
for bytes in 1 1000 20000 100000 120000 250000 300000; do ends_well "full:$bytes" 'No space left on device'; done
[ "$refusals" -ge 5 ] || fail "only $refusals runs found the disk full"

# A clock that jumps by an hour: nothing counts as late, and no time is negative.
for seconds in 3600 -3600; do
  expect 0 env LD_PRELOAD="$library" INTERPOSED="clock:$seconds" "${run[@]}" --output "clock$seconds" --hang-timeout 30
  same "clock$seconds/$weights" plain/$weights "weights with a clock that jumps"
  [ "$(jq -s 'map(select(.step_seconds < 0)) | length' "clock$seconds/metrics.jsonl")" = 0 ] || fail "a step took less than no time"
done

# Memory that runs out, and one allocation that is refused.
refusals=0
for bytes in 1000 20000 70000 150000 250000 350000 600000; do ends_well "memory:$bytes" 'memory'; done
[ "$refusals" -ge 4 ] || fail "only $refusals runs found no memory"
for number in 100 800 2200 5000 7100 9200 11300 13400 15500 17600 19700 21800; do ends_well "moment:$number" 'memory'; done
passed
