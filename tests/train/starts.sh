#!/bin/bash
# How train starts: a signal in its first moments. starts.sh BIN [LIBRARY that sends the signal]
set -uo pipefail
export TRAINYARD_DEVICE=cpu PATH=$(realpath "$1"):$PATH OMP_WAIT_POLICY=passive
early=${2-}
folder=$(mktemp -d)
trap 'kill -KILL $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "FAILED: $*"; tail -20 out; exit 1; }
expect() { # CODE COMMAND...: runs it, output in `out`
  local want=$1 code=0
  shift
  timeout 60 "$@" >out 2>&1 </dev/null || code=$?
  [ "$code" = "$want" ] || fail "exit $code, expected $want: $*"
}
said() { grep -q -- "$1" out || fail "the output does not say '$1'"; }

for i in $(seq 1 200); do printf 'line %d of a small text about trains and yards\n\n' "$i"; done >text
shard-data --input text --split paragraphs --output data --validation 0.1 >out 2>&1 || fail "shards"
printf 'layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 16\ncontext = 8\n' >model.toml
base=(train --model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never)

# A scheduler's signal may come before a program has looked around.
if [ -n "$early" ]; then
  expect 75 env LD_PRELOAD="$early" "${base[@]}" --output early --steps 100000
  said "stopped after step 1 of"
  expect 0 env LD_PRELOAD="$early" train --evaluate early --evaluate-sequences 2 --threads 1
fi

echo "starts: all well"
