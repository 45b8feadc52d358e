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

# The same in two hops, nodes of two ranks: said beforehand, refused where there are none, in a plan, and for an evaluation.
words+=(--expert-node 2)
for ((w = 0; w < ${#words[@]}; ++w)); do [ "${words[w]}" != runs/shared ] || words[w]=runs/nodes; done
expect 0 "${words[@]}" --dry-run
said 'experts over 4 (2 a node)'
said 'expert_outer all_to_all'
refused 2 'expert-node 3 does not divide the 4 ranks' "${words[@]/%2/3}"
expect 0 "${words[@]}"
[ "$(numbers runs/experts)" = "$(numbers runs/nodes)" ] || fail "rows that go by nodes have other numbers"
expect 0 reshard-checkpoint --diff runs/experts runs/nodes
expect 0 partition-model --model experts.toml --vocabulary 257 --ranks 4 --expert-parallel 4 --expert-node 2 --zero 1 --sequence 256 --global-batch 16 --output nodes.json
jq -e '.expert_node == 2' nodes.json >/dev/null || fail "the plan says no nodes"
expect 0 mpirun -n 4 train --plan nodes.json --data data --output runs/planned --steps 3
[ "$(numbers runs/planned)" = "$(numbers runs/nodes)" ] || fail "a plan's nodes have other numbers"
expect 0 mpirun -n 4 train --evaluate runs/nodes --evaluate-split train --evaluate-sequences 8 --expert-parallel 4 --expert-node 2
passed
