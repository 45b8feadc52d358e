#!/bin/bash
# With a disk of 50 MB/s: the longest step beside the median step of the same run, while checkpoints are written. Needs
# a quiet machine.
# usage: throttled_save.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../../tests/script.sh"
set -e
end_at_first_failure
export TRAINYARD_DEVICE=cpu
for ((i = 0; i < 4000; ++i)); do echo "line $i of a text that is written for this test, $((i * i % 977)) words long"; done >text.txt
shard-data --input text.txt --split lines --output data --validation 0 >/dev/null 2>&1
printf 'layers = 6\nhidden = 384\nheads = 6\nkv-heads = 6\nffn = 1536\ncontext = 128\n' >model.toml
train --model model.toml --data data --output run --steps 60 --global-batch 8 --micro-batch 4 --save-every 15 --save-throttle 50000000 --progress never >/dev/null 2>log || { cat log; exit 1; }
bytes=$(stat -c %s run/checkpoints/step-00000060/rank-00000.h5)
longest=$(jq -s 'map(.step_seconds)[5:] | max' run/metrics.jsonl)
median=$(jq -s 'map(.step_seconds)[5:] | sort | .[length / 2 | floor]' run/metrics.jsonl)
echo "a checkpoint of $bytes bytes takes $((bytes / 50000000)) s or more at this rate; median step $median s, longest $longest s"
jq -n --argjson bytes "$bytes" --argjson median "$median" '$bytes / 50e6 > 3 * $median' | grep -q true || fail "the checkpoint is written within a few steps: nothing is shown"
jq -n --argjson a "$longest" --argjson b "$median" '$a <= 2 * $b' | grep -q true || fail "a step took more than twice the median"
passed
