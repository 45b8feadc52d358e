#!/bin/bash
# What the README says of degrees of --tensor and --pipeline: which presets have which, and what they cost, is what partition-model says.
# usage: degrees.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
readme=$(realpath "$2")/README.md
. "$(dirname "$0")/../script.sh"
sed -n '/^## Layers that ranks share/,/^## Stages/p' "$readme" >section
sed -n '/^## Stages/,/^## Where/p' "$readme" >stages

# As sizes are rounded for people: three digits of GB.
bytes='def gb: . / 1e9 | if . == 0 then "0" elif . >= 100 then "\(round) GB" else "\(. * 10 | round / 10) GB" end;
  def of(group): [.step_traffic[].operations[] | select((.group == "data") == (group == "data")) | .bytes] | add // 0;'
read -ra words < <(sed -n 's/.*`\(partition-model .*--ranks [^`]*\)`.*/\1/p' section)
[ ${#words[@]} -gt 8 ] || fail "the README does not say how its figures are made"
rows=0
while IFS='|' read -r _ t memory shared replicas neighbours _; do
  for ((w = 0; w < ${#words[@]}; ++w)); do [ "${words[w]}" != --tensor ] || words[w + 1]=${t// /}; done
  expect 0 "${words[@]}" --json
  [ "$(jq -r "$bytes"'.predicted | [([.rank_bytes[]] | add | gb), (of("data") | gb), (of("tensor") | gb)] | join("|")' out)" = "$(sed 's/ *| */|/g; s/^ *//; s/ *$//' <<<"$memory|$replicas|$neighbours")" ] ||
    fail "--tensor $t: the README says $memory, $replicas, $neighbours"
  if [ "${t// /}" != 1 ]; then
    expect 0 "${words[@]}" --sequence-parallel --json
    [ "$(jq -r "$bytes"'.predicted.rank_bytes | add | gb' out)" = "$(xargs <<<"$shared")" ] || fail "--tensor $t with shared rows: the README says $shared"
  fi
  rows=$((rows + 1))
done < <(grep '^| [1-9] | [0-9.]* GB' section)
[ $rows = 4 ] || fail "$rows rows of costs"

listed=0
while IFS='|' read -r _ lanes degrees models _; do
  for model in $(grep -o '\(gpt[23]\|llama\)[a-z0-9-]*' <<<"$models"); do
    listed=$((listed + 1))
    for t in 2 3 4 5 8 16; do
      code=0
      partition-model --model "$model" --ranks $t --tensor $t >/dev/null 2>err || code=$?
      can=2
      [[ ",${degrees// /}," != *",$t,"* ]] || can=0
      [ $code = $can ] || fail "$model of $lanes lanes, --tensor $t: exit $code, and the README says $degrees"
    done
  done
done < <(grep -E '^\| [1-9] \| ([2-9]|none)' section)
[ $listed = "$(train --help-model | sed -n '/^Presets:/,/^$/p' | grep -o '\(gpt[23]\|llama\)[a-z0-9-]*' | wc -l)" ] || fail "$listed presets are in the README"

bytes=$bytes' def most(groups): [.step_traffic[] | [.operations[] | select(.group | IN(groups)) | .bytes] | add // 0] | max;'
read -ra words < <(sed -n 's/.*`\(partition-model .*--ranks [^`]*\)`.*/\1/p' stages)
[ ${#words[@]} -gt 8 ] || fail "the README does not say how the figures of stages are made"
rows=0
while IFS='|' read -r _ p memory replicas others idle _; do
  for ((w = 0; w < ${#words[@]}; ++w)); do [ "${words[w]}" != --pipeline ] || words[w + 1]=${p// /}; done
  expect 0 "${words[@]}" --json
  [ "$(jq -r "$bytes"'.predicted | [([.rank_bytes[]] | add | gb), (most("data") | gb), (most("pipe", "stages") | gb)] | join("|")' out)" = "$(sed 's/ *| */|/g; s/^ *//; s/ *$//' <<<"$memory|$replicas|$others")" ] ||
    fail "--pipeline $p: the README says $memory, $replicas, $others"
  expect 0 "${words[@]}"
  found=$(sed -n 's/^  idle \([0-9]* %\) .*/\1/p' out)
  [ "${found:-0 %}" = "$(xargs <<<"$idle")" ] || fail "--pipeline $p: idle is ${found:-0 %}, the README says $idle"
  rows=$((rows + 1))
done < <(grep '^| [1-9] | [0-9.]* GB' stages)
[ $rows = 4 ] || fail "$rows rows of costs of stages"

# What nobody says of stages is the same for both programs, and a word of files is none of the command line.
expect 0 train --print-config
batch=$(sed -n 's/^global-batch = \([0-9]*\) .*/\1/p' out)
expect 0 partition-model --model gpt2-nano --ranks 2 --pipeline 2 --json
[ "$(jq .global_batch out)" = "$batch" ] || fail "train takes a global batch of $batch by itself, partition-model $(jq .global_batch out)"
expect 0 partition-model --model gpt2-nano --ranks 10 --pipeline 2 --micro-batch 3 --json
[ "$(jq .global_batch out)" = 15 ] || fail "$(jq .global_batch out) sequences for 5 replicas of micro-batches of 3"
expect 0 partition-model --model gpt2-nano --ranks 6 --pipeline 2 --json
[ "$(jq .global_batch out)" = 9 ] || fail "$(jq .global_batch out) sequences for 3 replicas"
for program in train partition-model; do
  expect 0 $program --help
  grep -A2 -e '--pipeline-schedule' out | grep -qF '[1f1b]' || fail "$program --help has another default of --pipeline-schedule: $(grep -A2 -e '--pipeline-schedule' out)"
done
expect 2 partition-model --model gpt2-nano --ranks 2 --pipeline 2 --pipeline-schedule one-stage
grep -q 'one-stage is not known; use naive' err || fail "one-stage: $(cat err)"
passed
