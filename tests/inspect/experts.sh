#!/bin/bash
# Experts in metrics and in inspect --experts: one rank and two ranks write the same, a collapsed gate is named once, a
# run without experts has nothing to show.
# usage: experts.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu LC_ALL=C

small_text 200 >text
expect 0 shard-data --input text --split paragraphs --output data
base=(train --data data --global-batch 4 --micro-batch 1 --threads 1 --progress never --steps 6)

# The same values in every parallel layout.
expect 0 "${base[@]}" --model moe-nano --output run; unsaid 'has collapsed'
expect 0 mpirun -q --bind-to none -n 2 "${base[@]}" --model moe-nano --output two --zero 3
expect 0 mpirun -q --bind-to none -n 2 "${base[@]}" --model moe-nano --output stages --pipeline-parallel 2
for run in run two stages; do jq -c '[.step, .balance_loss, .z_loss, .experts]' $run/metrics.jsonl >$run.experts; done
same run.experts two.experts 'two ranks'
same run.experts stages.experts 'two stages'
jq -es 'length == 6 and all(.[]; .experts.layers | length == 1 and all(.[]; .layer == 1 and .experts == 4 and .kept + .dropped == 4 * 64 and .fullest >= 1 and .emptiest <= 1))' run/metrics.jsonl >/dev/null ||
  fail "not what 4 sequences of 64 tokens are: $(head -1 run/metrics.jsonl)"

# Drawn, as JSON, as CSV and for TensorBoard.
expect 0 inspect run --experts --svg loads.svg
once '^1 layer with experts, 6 steps$'; once '^load of the fullest expert'; said '^layer 1 |......| [1-4][.][0-9][0-9]$'; said '^ *1  *4  *[1-4][.]'
grep -q '^<svg ' loads.svg || fail "no drawing: $(head -c 100 loads.svg)"
expect 0 inspect run/metrics.jsonl --experts --json
jq -e '.kind == "experts" and .steps == 6 and (.layers[0].fullest | length == 6)' out >/dev/null || fail "JSON: $(head -c 300 out)"
expect 0 inspect run; said '^  experts.fullest  *[1-4][.0-9]*$'; said '^  experts.layers  *--experts shows them$'
expect 0 inspect --csv run; said '^step,.*,balance_loss,z_loss,experts,'
for time in 1 2; do expect 0 inspect run --export csv metrics.csv; expect 0 inspect run --export tensorboard events; done
grep -q 'experts/dropped_share' events/* || fail "no share of what was dropped in the event file"

# A model without experts.
expect 0 "${base[@]}" --model gpt2-nano --output dense
jq -e 'has("experts") or has("balance_loss")' dense/metrics.jsonl >/dev/null && fail "a dense model tells of experts: $(tail -1 dense/metrics.jsonl)"
refused 3 'says nothing of experts' inspect dense --experts
refused 3 'says nothing of experts' inspect dense --experts --svg none.svg
refused 3 'holds no metrics.jsonl' inspect data --experts
refused 2 'experts does not go with --csv' inspect run --experts --csv
refused 2 'experts does not go with' inspect run dense --experts
absent none.svg

# All tokens are alike and go to one expert.
head -c 4000 /dev/zero | tr '\0' a >alike
expect 0 shard-data --input alike --output alike-data --validation 0
{ tiny_model; printf 'positions = "rotary"\nexperts-count = 4\nexperts-balance-loss = 0\n'; } | sed 's/layers = 1/layers = 2/' >one.toml
expect 0 "${base[@]/#data/alike-data}" --model one.toml --output collapsed --steps 9; unsaid 'has collapsed'
expect 0 "${base[@]/#data/alike-data}" --model one.toml --output fully --steps 25
for layer in 0 1; do once "^train: warning: the gate of layer $layer has collapsed: in each of the last 10 steps one expert got every token; .* 100 % of the tokens (an even share is 25 %); what helps: a larger experts-balance-loss (it is 0)"; done
jq -es 'all(.[]; .experts.fullest == 4)' fully/metrics.jsonl >/dev/null || fail "not all to one: $(tail -1 fully/metrics.jsonl)"
passed
