#!/bin/bash
# How train ends under mpirun: on an error of one rank (a damaged shard, a full disk), on an error of all ranks, when a
# terminal closes, and with --stop-after.
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
reason() { # RUN RANK CODE TEXT
  jq -e --argjson code "$3" --arg text "$4" --arg host "$(hostname)" '.exit_code == $code and .host == $host and (.reason | contains($text))' "$1/exit/rank-0000$2.json" >/dev/null ||
    fail "no reason of rank $2 in $1: $(cat "$1"/exit/* 2>&1)"
}

small_text 400 >text
shard-data --input text --split paragraphs --output data --validation 0 >out 2>&1 || fail "shards"
tiny_model >tiny.toml
base=(train --model tiny.toml --global-batch 4 --micro-batch 1 --threads 1)
two() { echo mpirun -q --bind-to none -n 1 "${base[@]}" "$@"; }

# One rank reads a block that differs from its checksum: the message, the exit code and the reason are that rank's, and
# no rank waits for it.
cp -r data torn
printf 'X' | dd of="torn/$(jq -r ".train[0].file" torn/index.json)" bs=1 seek=$(($(jq '.train[0].payload_offset' torn/index.json) + 100)) conv=notrunc status=none
mkdir -p torn-run/exit
echo '{"rank": 0, "exit_code": 3, "reason": "of long ago"}' >torn-run/exit/rank-00000.json
expect 3 mpirun -q --bind-to none -n 1 "${base[@]}" --progress never --data data --output torn-run --steps 100000 : -n 1 "${base[@]}" --progress never --data torn --output torn-run --steps 100000
said "train: rank 1 on $(hostname): shard torn/.*checksum"
reason torn-run 1 3 checksum
[ ! -e torn-run/exit/rank-00000.json ] || fail "a reason of an earlier run is still there"

# Rank 0 alone has no room for metrics. Its limit also holds for shared memory, so ranks communicate by sockets here. It
# also holds for a file that the thread sanitizer maps in TMPDIR if it can.
export OMPI_MCA_btl=self,tcp
expect 4 mpirun -q --bind-to none -n 1 bash -c 'ulimit -f 8; TMPDIR=/proc exec "$@"' limited "${base[@]}" --progress never --data data --output full --steps 100000 : \
  -n 1 "${base[@]}" --progress never --data data --output full --steps 100000
unset OMPI_MCA_btl
said "train: rank 0 on $(hostname): cannot write full/metrics.jsonl: File too large"
reason full 0 4 metrics.jsonl
unsaid Success

# An error of all ranks is printed once. A refused start leaves no reason. An error that ends a run leaves a reason of
# rank 0.
run=(mpirun -q --bind-to none -n 2 "${base[@]}" --data data --steps 10)
expect 2 "${run[@]}" --progress yes --output shared
once "--progress yes"
expect 3 "${run[@]}" --progress never --output shared --config nowhere.toml
once "nowhere.toml"
[ ! -e shared/exit ] || fail "a start that was refused left a reason"
expect 5 "${run[@]}" --progress never --output shared --learning-rate 1e30 --clip 0
once "is not finite"
reason shared 0 5 "is not finite"
[ ! -e shared/exit/rank-00001.json ] || fail "an error of all left a reason of each"
expect 4 mpirun -q --bind-to none -n 1 bash -c 'exec "$@" >/dev/full' full "${base[@]}" --data data --steps 10 --output dry --dry-run : -n 1 "${base[@]}" --data data --steps 10 --output dry --dry-run
[ ! -e dry ] || fail "--dry-run wrote $(find dry)"
expect 0 "${run[@]}" --progress never --output shared --print-config
once "^steps = 10"

# A closing terminal sends HUP twice.
mpirun -q --bind-to none -n 1 "${base[@]}" --progress never --data data --output closed --steps 10000000 >out 2>&1 </dev/null &
launcher=$!
for _ in $(seq 1 300); do [ "$(wc -l 2>/dev/null <closed/metrics.jsonl || echo 0)" -gt 3 ] && break; sleep 0.1; done
rank=$(pgrep -P "$launcher" -x train)
kill -HUP "$rank"; sleep 0.01; kill -HUP "$rank" 2>/dev/null
code=0; wait "$launcher" || code=$?
[ "$code" = 75 ] || fail "exit $code after HUP twice, expected 75"
ls closed/checkpoints/step-* >/dev/null 2>&1 || fail "no checkpoint after HUP twice"

# mpirun kills its ranks soon after it is asked to stop. The ranks report that before they save, with the command that
# goes on.
mpirun -q --bind-to none -n 2 "${base[@]}" --progress never --data data --output killed --steps 10000000 >out 2>err </dev/null &
launcher=$!
for _ in $(seq 1 300); do [ "$(wc -l 2>/dev/null <killed/metrics.jsonl || echo 0)" -gt 3 ] && break; sleep 0.1; done
kill -TERM "$launcher"
wait "$launcher" || true
once "asked to stop: the ranks save. If mpirun was asked, it ends them .* To go on: .*mpirun .*-n 2 .*--output killed"

# --stop-after counts from the beginning of the run. The printed command to go on works.
one=("${base[@]}" --progress never --data data --output "a run" --steps 12)
expect 75 "${one[@]}" --stop-after 4
said "stopped after step 4 of 12"
expect 0 "${one[@]}" --stop-after=4 --resume auto   # 75 would let a loop that starts it again never end
said "step 4 of 12 is done already, and --stop-after is 4: nothing was done; to go on: "
[ "$(wc -l <"a run/metrics.jsonl")" = 4 ] || fail "a start that had nothing to do made steps"
expect 75 env TRAINYARD_STOP_AFTER=6 "${one[@]}"
said "stopped after step 6"
said "--stop-after 0$"
unsaid 'TRAINYARD_STOP_AFTER='
# The printed command also removes a fixed --resume. It keeps one to a checkpoint elsewhere until this run has a
# checkpoint of its own.
expect 75 env TRAINYARD_RESUME="a run/checkpoints/step-00000006" "${one[@]}" --stop-after 7
said "--resume auto$"
expect 0 "${one[@]}" --output elsewhere --stop-after 6 --resume "a run/checkpoints/step-00000006"
said "--resume 'a run/checkpoints/step-00000006'$"
expect 75 "${one[@]}" --stop-after 8 --resume "a run/checkpoints/step-00000006"
said "to go on: TRAINYARD_DEVICE=cpu train "
onward=$(sed -n 's/.*to go on: //p' err)
case $onward in *--stop-after* | *--resume*) fail "not without --stop-after and --resume: $onward" ;; esac
expect 0 bash -c "$onward"
[ "$(wc -l <"a run/metrics.jsonl")" = 12 ] || fail "'$onward' did not go on to the end"
# Variables that decided something are printed in front of the command, for another shell.
expect 75 env TRAINYARD_OUTPUT="by variable" TRAINYARD_ZERO=2 TRAINYARD_ISA=baseline TRAINYARD_STOP_AFTER=4 "${base[@]}" --progress never --data data --steps 12 --zero 1
said "to go on: TRAINYARD_OUTPUT='by variable' TRAINYARD_DEVICE=cpu TRAINYARD_ISA=baseline train "
unsaid 'TRAINYARD_ZERO\|TRAINYARD_STOP_AFTER'
onward=$(sed -n 's/.*to go on: //p' err)
expect 0 env -u TRAINYARD_DEVICE bash -c "$onward"
[ "$(wc -l <"by variable/metrics.jsonl")" = 12 ] || fail "'$onward' did not go on to the end"
expect 75 mpirun -q --bind-to none -n 2 "${one[@]}" --output several --stop-after 2
said "to go on: TRAINYARD_DEVICE=cpu mpirun -x TRAINYARD_DEVICE -n 2 train "
# Nothing began, so nobody is told how to go on, though mpirun also stops the ranks of a refused start.
expect 2 mpirun -q --bind-to none -n 3 "${one[@]}" --output refused --global-batch 2 --micro-batch 1
unsaid 'asked to stop'

# A run knows whose weights it began with, also after a resume, and says how long its saves took.
begun=("${one[@]}" --output begun --save-every 2 --init-from "a run")
expect 75 "${begun[@]}" --stop-after 4
unsaid 'is for a new run'
inspect begun | grep -q '^  stopped at step 4 of 12: ' || fail "inspect: $(inspect begun | head -3)"
expect 0 "${begun[@]}"
said '[-]-init-from a run is for a new run: this one goes on from its own checkpoint'
jq -e '.provenance.weights_from | test("^a run/checkpoints/step-[0-9]*, step [0-9]*$")' begun/checkpoints/step-00000012/manifest.json >/dev/null || fail "weights_from: $(jq .provenance begun/checkpoints/step-00000012/manifest.json)"
inspect begun | grep -q '^  all 12 steps are done$' || fail "inspect: $(inspect begun | head -3)"
expect 0 inspect "a run" begun; said 'weights from: a run has initial values, begun a run/checkpoints/'
jq -se 'any(.[]; (.save_seconds // 0) > 0)' begun/metrics.jsonl >/dev/null || fail "no save_seconds in $(head -2 begun/metrics.jsonl)"
passed
