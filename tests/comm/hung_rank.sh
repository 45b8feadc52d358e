#!/bin/bash
# A hung rank ends the job with exit code 6, one sentence and a reason from every rank; a hung pipeline stage does, too.
# A wrong launcher is refused with 4.
# usage: hung_rank.sh MPIEXEC PROGRAM
. "$(dirname "$0")/../script.sh"
set -e
end_at_first_failure
shown=log
code=0
timeout 20 "$1" --oversubscribe --bind-to none -n 3 "$2" exit 2>log || code=$?
[ $code = 6 ] || fail "exit code $code, not 6"
[ "$(grep -c '^watchdog: ' log)" = 1 ]
grep -q '^watchdog: no progress for .* s in barrier (call 3 of group data, step 5): ranks 0, 2 are waiting; rank 1 on [^ ]* is behind' log
for rank in 0 1 2; do
  grep -q '"reason": "no progress for' exit/rank-0000$rank.json
  grep -q '"exit_code": 6,' exit/rank-0000$rank.json
done

code=0
timeout 20 "$1" --oversubscribe --bind-to none -n 3 "$2" exit pipe 2>log || code=$?
[ $code = 6 ] || fail "exit code $code, not 6"
[ "$(grep -c '^watchdog: ' log)" = 1 ]
grep -q '^watchdog: no progress for .* s in [a-z]* (call 1 of group pipe of ranks [01], [12], step 0): rank [02] is waiting; rank 1 on [^ ]* is behind' log

code=0
SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 timeout 20 "$2" exit 2>log || code=$?
[ $code = 4 ] || fail "exit code $code, not 4"
grep -q 'Slurm started 4 tasks, but MPI sees 1 rank$' log
grep -q -- '--mpi=pmix' log
passed
