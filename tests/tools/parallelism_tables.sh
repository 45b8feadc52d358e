#!/bin/bash
# The guide's numbers about parallel layouts are those of partition-model: the costs of ZeRO, tensor and pipeline
# parallelism, and which presets have how many lanes.
# usage: parallelism_tables.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
guide=$(realpath "$2")/tools/guide
. "$(dirname "$0")/../script.sh"

# Sizes as they are rounded for readers: three digits of GB.
bytes='def gb: . / 1e9 | if . == 0 then "0" elif . >= 100 then "\(round) GB" elif . >= 10 then "\(. * 10 | round / 10) GB" else "\(. * 100 | round / 100) GB" end;
  def short: . / 1e9 | if . == 0 then "0" elif . >= 100 then "\(round) GB" else "\(. * 10 | round / 10) GB" end;
  def of(group): [.step_traffic[].operations[] | select((.group == "data") == (group == "data")) | .bytes] | add // 0;
  def most(groups): [.step_traffic[] | [.operations[] | select(.group | IN(groups)) | .bytes] | add // 0] | max;'
# rows FILE HEADING: the rows of the table in that section, without spaces around cells.
rows() { sed -n "/^## $2/,/^## /p" "$guide/$1" | grep '^| [0-9]' | sed 's/^| *//; s/ *|$//; s/ *| */|/g'; }
says() { grep -qF "$2" "$guide/$1" || fail "$1 does not say '$2'"; }
plan() { expect 0 partition-model "$@" --json; }

count=0
says parallelism.md 'For gpt2 in bf16 on 8 ranks, with 64 sequences a step and micro-batches of 4:'
while IFS='|' read -r zero _ memory sent; do
  plan --model gpt2 --ranks 8 --zero "$zero" --dtype bf16 --global-batch 64 --micro-batch 4
  found=$(jq -r "$bytes"'.predicted | [([.rank_bytes[]] | add | gb), ([.step_traffic[].operations[].bytes] | add | gb)] | join("|")' out)
  [ "$found" = "$memory|$sent" ] || fail "--zero $zero: $found, the guide says $memory|$sent"
  count=$((count + 1))
done < <(rows parallelism.md 'Data parallelism and ZeRO')
[ $count = 4 ] || fail "$count rows of ZeRO stages"

count=0
says parallelism.md 'Of gpt2 in bf16 on 8 ranks with ZeRO 3, `--recompute full`, and 256 sequences a step in micro-batches of 4:'
while IFS='|' read -r order local memory sent; do
  plan --model gpt2 --ranks 8 --zero 3 --dtype bf16 --recompute full --global-batch 256 --micro-batch 4 \
    --accumulation-order "$order" --local-accumulation "$local"
  found=$(jq -r "$bytes"'.predicted | [([.rank_bytes[]] | add | gb), ([.step_traffic[].operations[].bytes] | add | gb)] | join("|")' out)
  [ "$found" = "$memory|$sent" ] || fail "--accumulation-order $order --local-accumulation $local: $found, the guide says $memory|$sent"
  count=$((count + 1))
done < <(grep -E '^\| `(depth|breadth)` \| [0-9]' "$guide/parallelism.md" | tr -d '`' | sed 's/^| *//; s/ *|$//; s/ *| */|/g')
[ $count = 4 ] || fail "$count rows of accumulation orders"

count=0
says parallelism.md 'For llama-8b on 64 ranks, with 64 sequences of 8192 tokens a step, ZeRO 1 and bf16:'
words=(--model llama-8b --ranks 64 --zero 1 --dtype bf16 --global-batch 64 --sequence 8192)
while IFS='|' read -r t memory split replicas neighbours; do
  plan "${words[@]}" --tensor-parallel "$t"
  found=$(jq -r "$bytes"'.predicted | [([.rank_bytes[]] | add | gb), (of("data") | gb), (of("tensor") | gb)] | join("|")' out)
  [ "$found" = "$memory|$replicas|$neighbours" ] || fail "--tensor-parallel $t: $found, the guide says $memory|$replicas|$neighbours"
  if [ "$t" != 1 ]; then
    plan "${words[@]}" --tensor-parallel "$t" --sequence-parallel
    found=$(jq -r "$bytes"'.predicted.rank_bytes | add | gb' out)
    [ "$found" = "$split" ] || fail "--tensor-parallel $t --sequence-parallel: $found, the guide says $split"
  fi
  count=$((count + 1))
done < <(rows parallelism.md 'Tensor parallelism')
[ $count = 4 ] || fail "$count rows of tensor-parallel degrees"

listed=0
while IFS=: read -r lanes models; do
  for model in $(sed 's/, since .*//' <<<"$models" | tr -d ','); do
    listed=$((listed + 1))
    source=()
    case $model in t5-* | mt5-* | zcode-*) source=(--source-sequence 64) ;; esac
    plan --model "$model" "${source[@]}"
    [ "$(jq ".model.lanes // 1" out)" = "$lanes" ] || fail "$model has $(jq .model.lanes out) lanes, the guide says $lanes"
  done
done < <(sed -n 's/^- \([0-9]*\) lanes\?: /\1:/p' "$guide/parallelism.md")
[ $listed = "$(train --help-model | sed -n '/^Presets:/,/^$/p' | tr -d ',' | sed 's/^Presets://' | wc -w)" ] || fail "$listed presets are in the guide"

count=0
says pipeline.md 'This is llama-8b on 64 ranks: ZeRO 1, bf16, 256 sequences of 8192 tokens, for the stage that needs or sends most.'
words=(--model llama-8b --ranks 64 --zero 1 --dtype bf16 --global-batch 256 --sequence 8192)
while IFS='|' read -r p memory replicas others idle; do
  plan "${words[@]}" --pipeline-parallel "$p"
  found=$(jq -r "$bytes"'.predicted | [([.rank_bytes[]] | add | short), (most("data") | short), (most("pipe", "stages") | short)] | join("|")' out)
  [ "$found" = "$memory|$replicas|$others" ] || fail "--pipeline-parallel $p: $found, the guide says $memory|$replicas|$others"
  expect 0 partition-model "${words[@]}" --pipeline-parallel "$p"
  found=$(sed -n 's/^  idle \([0-9]* %\) .*/\1/p' out)
  [ "${found:-0 %}" = "$idle" ] || fail "--pipeline-parallel $p: idle is ${found:-0 %}, the guide says $idle"
  count=$((count + 1))
done < <(grep '^| [1-9] | [0-9.]* GB' "$guide/pipeline.md" | sed 's/^| *//; s/ *|$//; s/ *| */|/g')
[ $count = 4 ] || fail "$count rows of pipeline stages"

# Settings of pipeline stages have the same defaults in both programs. A word that only files use is refused on the
# command line.
expect 0 train --print-config
batch=$(sed -n 's/^global-batch = \([0-9]*\) .*/\1/p' out)
expect 0 partition-model --model gpt2-nano --ranks 2 --pipeline-parallel 2 --json
[ "$(jq .global_batch out)" = "$batch" ] || fail "train takes a global batch of $batch by itself, partition-model $(jq .global_batch out)"
expect 0 partition-model --model gpt2-nano --ranks 10 --pipeline-parallel 2 --micro-batch 3 --json
[ "$(jq .global_batch out)" = 15 ] || fail "$(jq .global_batch out) sequences for 5 replicas of micro-batches of 3"
expect 0 partition-model --model gpt2-nano --ranks 6 --pipeline-parallel 2 --json
[ "$(jq .global_batch out)" = 9 ] || fail "$(jq .global_batch out) sequences for 3 replicas"
for program in train partition-model; do
  expect 0 $program --help
  grep -A2 -e '--pipeline-schedule' out | grep -qF '[1f1b]' || fail "$program --help has another default of --pipeline-schedule: $(grep -A2 -e '--pipeline-schedule' out)"
done
expect 2 partition-model --model gpt2-nano --ranks 2 --pipeline-parallel 2 --pipeline-schedule one-stage
grep -q 'one-stage is not known; use naive' err || fail "one-stage: $(cat err)"
passed
