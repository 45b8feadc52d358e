#!/bin/bash
# A rank that gets no more threads: the job ends at once with 4, or goes on where it needs no more threads.
# usage: threads.sh BIN_FOLDER LIBRARY (interposed.c) FIRST...   (the first thread of rank 1 that cannot be started)
PATH=$(realpath "$1"):$PATH
library=$(realpath "$2")
shift 2
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
small_text 200 >text
tiny_model >model.toml
run=(train --model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never --steps 4 --save-every 2)
expect 0 shard-data --input text --split paragraphs --validation 0 --output data
for first in "$@"; do
  kept mpirun -q --bind-to none -n 1 "${run[@]}" --output "made-$first" : -n 1 env LD_PRELOAD="$library" INTERPOSED="threads:$first" "${run[@]}" --output "made-$first"
  # MPI handles its own threads: it ends the job with 1 during its start.
  [ "$code" = 1 ] && grep -q 'occurred in MPI_Init' err && continue
  [ "$code" = 4 ] || [ "$code" = 0 ] || fail "rank 1 without its thread $first ends the job with $code"
  echo "$code" >>codes
done
grep -qx 4 codes || fail "no thread was missed"
passed
