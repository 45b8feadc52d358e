#!/bin/sh
# A hung rank ends the job with exit code 6, one sentence and a reason from every rank; a wrong launcher is refused with 4.
# usage: hung_rank.sh MPIEXEC PROGRAM
set -eu
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
code=0
timeout 20 "$1" --oversubscribe --bind-to none -n 3 "$2" "$out/exit" 2> "$out/log" || code=$?
cat "$out/log"
[ $code = 6 ] || { echo "exit code $code, not 6"; exit 1; }
[ "$(grep -c '^watchdog: ' "$out/log")" = 1 ]
grep -q '^watchdog: no progress for .* s in barrier (call 3 of group data, step 5): ranks 0, 2 are waiting; rank 1 on [^ ]* is behind' "$out/log"
grep -q '"reason": "no progress for' "$out/exit/rank-00000.json"
grep -q '"exit_code": 6,' "$out/exit/rank-00000.json"

code=0
SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 timeout 20 "$2" "$out/exit" 2> "$out/log" || code=$?
cat "$out/log"
[ $code = 4 ] || { echo "exit code $code, not 4"; exit 1; }
grep -q 'Slurm started 4 tasks, but MPI sees 1 rank$' "$out/log"
grep -q -- '--mpi=pmix' "$out/log"
