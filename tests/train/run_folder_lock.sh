#!/bin/bash
# A second run in a folder in use is refused, once for all its ranks, and the first run goes on. A killed run holds no
# lock. The same for two shard-data.
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
shown="out first"
small_text 200 >text
tiny_model >model.toml

# shard-data reads a pipe as long as it is open, and holds its folder meanwhile.
mkfifo pipe
shard-data --input - --split paragraphs --output data --validation 0 <pipe >/dev/null 2>first &
exec 3>pipe
cat text >&3
for _ in $(seq 1 100); do [ -s data.partial/lock ] && break; sleep 0.05; done
code=0
timeout 20 shard-data --input text --split paragraphs --output data --validation 0 >out 2>&1 || code=$?
[ "$code" = 4 ] || fail "a second shard-data: exit $code, expected 4"
grep -q "in use by process [0-9]* on" out || fail "the holder is not named"
exec 3>&-
wait %1 || fail "the first shard-data failed"
[ ! -e data/lock ] || fail "a lock lies in the shard set"

run=(mpirun -q --bind-to none -n 2 train --model model.toml --data data --output run --steps 1000000 --global-batch 2 --micro-batch 1 --threads 1 --progress never --save-every 50)
"${run[@]}" >first 2>&1 </dev/null &
launcher=$!
for _ in $(seq 1 200); do ls run/checkpoints 2>/dev/null | grep -q 'step-[0-9]*$' && break; sleep 0.1; done
code=0
timeout 30 "${run[@]}" >out 2>&1 </dev/null || code=$?
[ "$code" = 4 ] || fail "a second run: exit $code, expected 4"
[ "$(grep -c "run is in use by process [0-9]* on $(hostname), since" out)" = 1 ] || fail "the holder is not named once"
before=$(wc -l <run/metrics.jsonl)
sleep 0.5
[ "$(wc -l <run/metrics.jsonl)" -gt "$before" ] || fail "the first run does not go on"
kill -KILL $(pgrep -P "$launcher" -x train) "$launcher"
wait "$launcher" 2>/dev/null
code=0
timeout 30 "${run[@]}" --stop-after "$(($(ls run/checkpoints | sed -n 's/^step-0*\([0-9]*\)$/\1/p' | sort -n | tail -1) + 1))" >out 2>&1 </dev/null || code=$?
[ "$code" = 75 ] || fail "after the first was killed: exit $code, expected 75"
grep -q "resuming from" out || fail "the run does not go on"
[ ! -s run/lock ] || fail "a run that has ended is still named"
passed
