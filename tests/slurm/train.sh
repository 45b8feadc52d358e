#!/bin/bash
# train under srun: ranks from the allocation, a signal to the step that saves and exits 75, a resume on another number
# of ranks, and the refusal of the wrong launcher.
bin=$(realpath "$1")
export PATH=$bin:$PATH TRAINYARD_DEVICE=cpu
. "$(dirname "$0")/cluster.sh"

small_text 400 >"$folder/text.txt"
shard-data --input "$folder/text.txt" --split paragraphs --output "$folder/data" --validation 0 2>/dev/null
settings=(--model gpt2-nano --data "$folder/data" --global-batch 8 --micro-batch 2 --steps 400 --progress never --threads 1)

srun -N2 -n2 --mpi=pmix train "${settings[@]}" --output "$folder/whole" --zero 2 --steps 20 >"$folder/out" 2>&1 || { cat "$folder/out"; fail "two ranks on two nodes"; }

# A signal to the step: every rank finishes its step, saves, and ends with 75.
(srun -N2 -n4 --mpi=pmix --job-name=signalled train "${settings[@]}" --steps 100000 --output "$folder/run" --zero 3 >"$folder/out2" 2>&1 && code=0 || code=$?; echo "$code" >"$folder/code") &
for _ in $(seq 1 100); do [ -s "$folder/run/metrics.jsonl" ] && break; sleep 0.2; done
job=$(squeue -h -n signalled -o %i | head -1)
scancel --signal=USR1 "$job.0"
wait
[ "$(cat "$folder/code")" = 75 ] || { cat "$folder/out2"; fail "exit $(cat "$folder/code") after USR1, expected 75"; }
ls "$folder"/run/checkpoints/step-* >/dev/null || fail "no checkpoint after USR1"
steps=$(($(wc -l <"$folder/run/metrics.jsonl") + 5))
srun -N1 -n1 --mpi=pmix train "${settings[@]}" --steps 100000 --stop-after "$steps" --output "$folder/run" --zero 0 >"$folder/out3" 2>&1 && fail "expected 75 from --stop-after"
grep -q "resuming from" "$folder/out3" || { cat "$folder/out3"; fail "no resume on one rank"; }
[ "$(tail -1 "$folder/run/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/')" = "$steps" ] || fail "the resumed run did not reach step $steps"

# Without PMIx every task believes that it is alone.
code=0
srun -n2 --mpi=none train "${settings[@]}" --steps 5 --output "$folder/wrong" >"$folder/out4" 2>&1 || code=$?
[ "$code" = 4 ] || { cat "$folder/out4"; fail "exit $code with the wrong launcher, expected 4"; }
grep -q -- "--mpi=pmix" "$folder/out4" || fail "the refusal does not name --mpi=pmix"
passed
