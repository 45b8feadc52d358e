#!/bin/bash
# A rank that hangs ends the job with 6, and the reason names it. A rank that dies ends the job, too. Over MPI on CPUs,
# and over NCCL on GPUs (the emulated module and the stand-in library in the same folder as the programs).
bin=$(realpath "$1")
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
PATH=$bin:$PATH

small_text 400 >text
shard-data --input text --split paragraphs --output data --validation 0 >/dev/null 2>&1 || fail shards
tiny_model >tiny.toml

# lose SIGNAL NAME OPTION...: begins a run of three ranks, sends the signal to one rank after some steps, and sets `code`.
lose() {
  local signal=$1 launcher rank
  run=$2 shown="$2.out"
  shift 2
  mpirun -q --bind-to none -n 3 train --model tiny.toml --data data --output "$run" --steps 100000 --global-batch 3 --micro-batch 1 --threads 1 --progress never \
    --hang-timeout 3 --zero 2 "$@" >"$run.out" 2>&1 </dev/null &
  launcher=$!
  for _ in $(seq 1 600); do [ "$(wc -l 2>/dev/null <"$run/metrics.jsonl" || echo 0)" -gt 3 ] && break; sleep 0.1; done
  sleep 1   # ranks report twice a second what they do
  rank=$(pgrep -P "$launcher" -x train | sed -n 2p)
  [ -n "$rank" ] || fail "no rank to lose"
  kill -"$signal" "$rank"
  for _ in $(seq 1 400); do kill -0 "$launcher" 2>/dev/null || break; sleep 0.1; done
  kill -0 "$launcher" 2>/dev/null && fail "the job goes on without one rank"
  code=0
  wait "$launcher" || code=$?
}

lose STOP hangs-cpu --device cpu
[ "$code" = 6 ] || fail "exit $code after a rank hung, expected 6"
grep -q "rank 1 on $(hostname)" hangs-cpu.out || fail "the sentence does not name the rank"
grep -q '"exit_code": *6' hangs-cpu/exit/rank-00000.json || fail "no reason was written"
lose STOP hangs-stages --device cpu --pipeline-parallel 3 --global-batch 96   # so that it is hardly ever between steps
[ "$code" = 6 ] || fail "exit $code after a stage hung, expected 6"
grep -Eq "rank 1 on $(hostname) is silent.*\(stage 1, ([a-z ]+ of micro-batch [0-9]|agree|ask|reduce|update|the end of a step)" hangs-stages.out || fail "the sentence names no stage, micro-batch or action"
lose KILL dies-stages --device cpu --pipeline-parallel 3
[ "$code" != 0 ] || fail "exit 0 after a stage died"
lose KILL dies-cpu --device cpu
[ "$code" != 0 ] || fail "exit 0 after a rank died"

export TRAINYARD_GPU_MODULE=$bin/libtrainyard_emulated.so TRAINYARD_NCCL_LIBRARY=$bin/libtrainyard_standin_nccl.so TRAINYARD_EMULATED_GPUS=3
lose STOP hangs-nccl --device cuda --communicator nccl
[ "$code" = 6 ] || fail "exit $code after a rank hung over NCCL, expected 6"
grep -q "rank 1 on $(hostname)" hangs-nccl.out || fail "the sentence does not name the rank"
passed
