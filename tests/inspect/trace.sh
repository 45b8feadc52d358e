#!/bin/bash
# train --trace and inspect --timeline as users run them: two ranks, a stop by a signal, refusals before anything is
# made, and drawings.
# usage: trace.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu LC_ALL=C

small_text 200 >text
expect 0 shard-data --input text --split paragraphs --output data
base=(train --model gpt2-nano --data data --global-batch 4 --micro-batch 1 --progress never --threads 1)

# A run, its trace, and the reports of inspect.
expect 0 mpirun -q --bind-to none -n 2 "${base[@]}" --steps 3 --output run --zero 2 --trace trace.json
said 'trace trace.json: [0-9,]* spans of 2 ranks'
expect 0 inspect trace.json; said '^[0-9,]* spans, steps 1 to 3 whole$'; said 'rank 1 (stage 0, data 1, tensor 0)'
expect 0 inspect trace.json --timeline --svg step.svg
said '^step 3: '; said '^rank 0 *|.*F.*B'; said '^rank 1 *|.*F.*B'; said '^ideal: '; said 'measured [0-9.]* % of'
grep -q '^<svg ' step.svg || fail "no drawing: $(head -c 100 step.svg)"
expect 0 inspect trace.json --timeline --svg -
cmp -s out step.svg || fail "--svg - writes something else: $(head -c 100 out)"
absent ./-
refused 2 'both write to standard output' inspect trace.json --timeline --svg - --json
expect 0 inspect trace.json --timeline --step 2 --json; said '"idle_fraction"'
grep -q '"step": 2' out || fail "not step 2"

# A run that a signal stopped writes what it did.
mpirun -q --bind-to none -n 2 "${base[@]}" --steps 100000 --output stopped --trace stopped.json >signal-out 2>&1 &
launcher=$!
for _ in $(seq 1 300); do [ "$(wc -l 2>/dev/null <stopped/metrics.jsonl || echo 0)" -gt 5 ] && break; sleep 0.1; done
absent stopped.json
kill -TERM "$(pgrep -P "$launcher" -x train | tail -1)"
code=0; wait "$launcher" || code=$?
[ "$code" = 75 ] || { cat signal-out; fail "exit $code after TERM"; }
expect 0 inspect stopped.json --timeline; said '^step [0-9]*: '

# Refused before anything is made.
echo somebody >notes
mkdir folder
refused 4 'there is no folder missing' "${base[@]}" --steps 3 --output none --trace missing/trace.json
refused 2 'is no file' "${base[@]}" --steps 3 --output none --trace folder
refused 2 'is no trace' "${base[@]}" --steps 3 --output none --trace notes
refused 2 'no range of steps' "${base[@]}" --steps 3 --output none --trace trace.json --trace-steps 0:4
refused 2 'trace-steps needs --trace' "${base[@]}" --steps 3 --output none --trace-steps 2
refused 4 'there is no folder missing' "${base[@]}" --steps 3 --output none --trace missing/trace.json --dry-run
for own in none none/ none/. none/metrics.jsonl none/checkpoints none/lock none/last-checkpoint none/report.txt none/exit none/exit/t.json none/tokenizer-1.json data/t.json; do
  refused 2 'names a folder\|is or holds\|which the run keeps\|that the run gives\|lies in the shard set' "${base[@]}" --steps 3 --output none --trace "$own"
done
refused 2 'is or holds the folder of the run' "${base[@]}" --steps 3 --output none/run --trace none
refused 2 'names no step of this run, which runs steps 1 to 2' "${base[@]}" --steps 2 --output none --trace trace2.json --trace-steps 5:9
refused 2 'names no step of this run, which runs steps 1 to 2' "${base[@]}" --steps 9 --stop-after 2 --output none --trace trace2.json --trace-steps 3
refused 2 'names no step of this run, which runs steps 1 to 2' "${base[@]}" --steps 2 --output none --trace trace2.json --trace-steps 5:9 --dry-run
absent none missing trace2.json

# A single step as the range, in the run's own folder, over the file of an earlier start; then a trace of other steps.
expect 0 "${base[@]}" --steps 3 --output own --trace own/trace.json --trace-steps 2
expect 0 inspect own/trace.json; said 'steps 2 to 2 whole'
expect 0 "${base[@]}" --steps 4 --output own --change steps --trace own/trace.json
expect 0 inspect own/trace.json; said 'steps 4 to 4 whole'
refused 2 'names no step of this run, which runs steps 1 to 6' "${base[@]}" --steps 6 --output own --change steps --trace own/none.json --trace-steps 7:9
expect 0 "${base[@]}" --steps 4 --output own --trace own/none.json
said 'all 4 steps are done already; no trace is written to own/none.json'
# The same command again goes on behind the steps that it was to trace.
for dry in --dry-run ''; do
  expect 0 "${base[@]}" --steps 6 --output own --change steps --trace own/none.json --trace-steps 1:4 $dry
  unsaid 'names no step'
done
said 'no trace is written: the steps of --trace-steps 1:4 were done by an earlier start'
absent own/none.json

# A trace that cannot be written after the run has ended costs the run nothing else: here is no room for the name of an
# unfinished file.
long=$(printf '%0250d' 0)
expect 4 mpirun -q --bind-to none -n 2 "${base[@]}" --steps 2 --output whole --trace "$long"
once '^whole/checkpoints/step-00000002$'; once 'there is no trace of it$'; once '^train: .*too long'
[ -s whole/report.txt ] || fail "no report.txt"
absent whole/exit "$long"
refused 2 'does not hold it' inspect own/trace.json --timeline --step 9
refused 2 'for a trace' inspect own --timeline
refused 2 'does not go with' inspect own/trace.json --timeline --csv
refused 2 'no checksums' inspect --verify own/trace.json
refused 2 'nothing about' inspect own/trace.json --svg x.svg
head -c 3000 own/trace.json >cut.json
refused 3 'damaged or was cut short' inspect cut.json
echo '{"traceEvents":[{"name":"a","ph":"B","ts":1,"pid":1,"tid":1}]}' >other.json
refused 3 'another program' inspect other.json
absent x.svg
passed
