#!/bin/bash
# The commands of the README's section on experts, in its order and with fewer steps: they do what it says, and a run whose ranks share out the experts has the numbers of one whose ranks hold all.
# usage: experts.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
readme=$(realpath "$2")/README.md
. "$(dirname "$0")/../script.sh"
patience=200
sed -n '/^## Experts/,/^## Where/p' "$readme" >section
small_text 4000 >text
expect 0 shard-data --input text --output data

sed -n '/^    \$ cat experts.toml/,/^    \$ partition-model/p' section | sed '1d;$d; s/^    //' >experts.toml
grep -q '^\[experts\]' experts.toml || fail "the README shows no model with experts"
mapfile -t commands < <(sed -n 's/^    \$ //p' section | grep -v '^cat ')
[ ${#commands[@]} = 5 ] || fail "${#commands[@]} commands in the README's section on experts"
for command in "${commands[@]}"; do
  read -ra words <<<"$command"
  for ((w = 0; w < ${#words[@]}; ++w)); do [ "${words[w]}" != --steps ] || words[w + 1]=3; done
  expect 0 "${words[@]}"
done

# What metrics say of a step, but for times and memory.
numbers() { jq -c '[.step, .loss, .gradient_norm, .experts]' "$1/metrics.jsonl"; }
[ "$(numbers runs/experts | wc -l)" = 3 ] || fail "runs/experts has other steps"
[ "$(numbers runs/experts)" = "$(numbers runs/shared)" ] || fail "ranks that share out the experts have other numbers"
expect 0 reshard-checkpoint --diff runs/experts runs/shared
passed
