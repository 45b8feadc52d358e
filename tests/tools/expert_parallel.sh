#!/bin/bash
# Expert parallelism from the command line: a run with it has the numbers of a run without it, also with nodes, by a
# plan, and in an evaluation.
# usage: expert_parallel.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
time_limit=200
small_text 4000 >text
expect 0 shard-data --input text --output data
cat >experts.toml <<'end'
hidden = 128
layers = 4
context = 256

[experts]
count = 8
every = 2
top-k = 1
capacity-factor = 1.25
end
expect 0 partition-model --model experts.toml --vocabulary 257 --ranks 4 --expert-parallel 4 --zero 1 --global-batch 16
expect 0 mpirun -n 2 train --model experts.toml --data data --output runs/experts --zero 1 --sequence 256 --global-batch 16 --steps 3
expect 0 inspect runs/experts --experts
words=(mpirun -n 4 train --model experts.toml --data data --output runs/shared --expert-parallel 4 --zero 1 --sequence 256 --global-batch 16 --steps 3)
expect 0 "${words[@]}"

# The metrics of a step without times and memory.
numbers() { jq -c '[.step, .loss, .gradient_norm, .experts]' "$1/metrics.jsonl"; }
[ "$(numbers runs/experts | wc -l)" = 3 ] || fail "runs/experts has other steps"
[ "$(numbers runs/experts)" = "$(numbers runs/shared)" ] || fail "ranks that share out the experts have other numbers"
expect 0 reshard-checkpoint --diff runs/experts runs/shared

# The same with a hierarchical all-to-all, nodes of two ranks: announced before, refused where there are none, in a
# plan, and in an evaluation.
words+=(--expert-ranks-per-node 2)
for ((w = 0; w < ${#words[@]}; ++w)); do [ "${words[w]}" != runs/shared ] || words[w]=runs/nodes; done
expect 0 "${words[@]}" --dry-run
said 'experts over 4 ranks (2 a node)'
said 'expert_outer all_to_all'
refused 2 'expert-ranks-per-node 3 does not divide the 4 expert-parallel ranks' "${words[@]/%2/3}"
expect 0 "${words[@]}"
[ "$(numbers runs/experts)" = "$(numbers runs/nodes)" ] || fail "rows that go by nodes have other numbers"
expect 0 reshard-checkpoint --diff runs/experts runs/nodes
expect 0 partition-model --model experts.toml --vocabulary 257 --ranks 4 --expert-parallel 4 --expert-ranks-per-node 2 --zero 1 --sequence 256 --global-batch 16 --output nodes.json
jq -e '.expert_node == 2' nodes.json >/dev/null || fail "the plan says no nodes"
expect 0 mpirun -n 4 train --plan nodes.json --data data --output runs/planned --steps 3
[ "$(numbers runs/planned)" = "$(numbers runs/nodes)" ] || fail "a plan's nodes have other numbers"
expect 0 mpirun -n 4 train --evaluate runs/nodes --evaluate-split train --evaluate-sequences 8 --expert-parallel 4 --expert-ranks-per-node 2
passed
