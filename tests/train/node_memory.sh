#!/bin/bash
# Ranks of one machine read one another's arenas, or send messages if one rank is told to. Both ways give the same
# numbers, and memory and traffic as predicted.
# usage: node_memory.sh BIN_FOLDER [SANITIZERS]
bin=$(realpath "$1")
. "$(dirname "$0")/../script.sh"
end_at_first_failure
PATH=$bin:$PATH
small_text 300 >text
shard-data --input text --split paragraphs --output data --validation 0 >/dev/null 2>&1 || fail shards
tiny_model >tiny.toml
run="train --model tiny.toml --data data --steps 4 --global-batch 8 --micro-batch 1 --threads 1 --progress never --memory-report --bytes"
numbers() { jq -c '[.step, .loss, .gradient_norm]' "$1/metrics.jsonl"; }

TRAINYARD_SHARED_MEMORY=off expect 0 mpirun -q --bind-to none -n 3 $run --zero 3 --output messages
numbers messages >expected
unsaid "read from other ranks"
for stage in 0 2 3; do
  expect 0 mpirun -q --bind-to none -n 3 $run --zero $stage --output looks-$stage
  said "total in arenas .* 0\$"
  said "data ordered_reduce_scatter .* 0\$"
  said "within"
  said "^read from other ranks  *0  *[1-9][0-9]*  *theirs\$"
  numbers looks-$stage >found
  same expected found "ZeRO $stage with shared memory"
done
# Replicas of two tensor-parallel ranks: groups whose ranks are not neighbours.
expect 0 mpirun -q --bind-to none -n 4 $run --zero 3 --tensor-parallel 2 --lanes 2 --output tensor
TRAINYARD_SHARED_MEMORY=off expect 0 mpirun -q --bind-to none -n 4 $run --zero 3 --tensor-parallel 2 --lanes 2 --output tensor-messages
numbers tensor >found
numbers tensor-messages >expected-tensor
same expected-tensor found "tensor ranks with shared memory"
expect 0 mpirun -q --bind-to none -n 2 $run --zero 3 --output one-will-not : -n 1 -x TRAINYARD_SHARED_MEMORY=off $run --zero 3 --output one-will-not
unsaid "read from other ranks"
numbers one-will-not >found
same expected found "one rank without shared memory"
TRAINYARD_SHARED_MEMORY= expect 0 mpirun -q --bind-to none -n 3 $run --zero 3 --output as-unsaid
said "read from other ranks"
TRAINYARD_SHARED_MEMORY=0 expect 2 mpirun -q --bind-to none -n 2 $run --zero 0 --output neither
once "TRAINYARD_SHARED_MEMORY=0 is neither on nor off"
absent neither
TRAINYARD_SHARED_MEMORY=0 refused 2 "TRAINYARD_SHARED_MEMORY=0 is neither on nor off" $run --output neither
TRAINYARD_SHARED_MEMORY=0 refused 2 "TRAINYARD_SHARED_MEMORY=0 is neither on nor off" mpirun -q --bind-to none -n 2 profile-comm --dry-run
if [ -z "${2:-}" ]; then   # sanitizers reserve more address space
  expect 0 bash -c "ulimit -v 8000000; exec mpirun -q --bind-to none -n 2 $run --zero 3 --output few-addresses"
  unsaid "read from other ranks"
  numbers few-addresses >found
  same expected found "a limit of addresses"
fi
passed
