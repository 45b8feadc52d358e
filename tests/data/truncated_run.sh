#!/bin/bash
# A shard that is truncated during a run ends the run with exit 3 and the shard's name. A pipe in place of a shard is refused at once.
# usage: truncated_run.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
end_at_first_failure
ulimit -f 400000
seq 1 60000 >text.txt
shard-data --input text.txt --split lines --output data --validation 0 >/dev/null 2>&1 || fail "no shards"
start() { timeout 60 train --model gpt2-nano --data data --output "$1" --steps 100000 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never >out 2>err; }
start run &
job=$!
for ((i = 0; i < 300; ++i)); do [ "$(cat run/metrics.jsonl 2>/dev/null | wc -l)" -ge 3 ] && break; sleep 0.1; done
truncate -s 9000 data/train/shard-00000.h5
code=0
wait $job || code=$?
[ $code = 3 ] || fail "a shard cut short: exit code $code"
grep -q 'data/train/shard-00000.h5 ends at byte 9000' err || fail "does not name the shard: $(cat err)"
grep -q '^  try: ' err || fail "no hint: $(cat err)"
rm data/train/shard-00000.h5
mkfifo data/train/shard-00000.h5
code=0
start other || code=$?
[ $code = 3 ] && grep -q 'shard-00000.h5' err || fail "a pipe for a shard: exit code $code, $(cat err)"
passed
