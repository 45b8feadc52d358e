#!/bin/bash
# Settings that differ on one rank end a job within seconds, in training and with --evaluate: one message names the
# setting and the rank, and no run folder is made.
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
small_text 100 >text
tiny_model >model.toml
sed 's/16/32/' model.toml >other.toml
shard-data --input text --split paragraphs --output data --validation 0.1 >out 2>&1 || fail shard-data
train=(train --model model.toml --data data --steps 4 --global-batch 2 --micro-batch 1 --progress never --hang-timeout 30)
evaluate=(train --evaluate done --progress never --hang-timeout 30)

# CODE SENTENCE, then the arguments of rank 0 that rank 1 lacks, then `--` and the arguments of both ranks.
differ() {
  local want=$1 sentence=$2 own=() code=0
  shift 2
  while [ "$1" != -- ]; do own+=("$1"); shift; done
  shift
  timeout 30 mpirun -q --bind-to none -n 1 "$@" "${own[@]}" : -n 1 "$@" >out 2>&1 </dev/null || code=$?
  [ "$code" = "$want" ] || fail "exit $code, expected $want: ${own[*]}"
  [ "$(grep -c -- "$sentence" out)" = 1 ] || fail "'$sentence' is not said once: ${own[*]}"
  [ ! -e run ] || fail "a run folder was made: ${own[*]}"
}
one=("${train[@]}" --output run --threads 1)
# A mistake in the command line is reported once, whether the parser finds it or the reader of the values; also a
# mistake of one rank alone.
for wrong in '--bogus' '--trace=' '--pipeline-parallel abc' '--config a --config b'; do
  expect 2 mpirun -q --bind-to none -n 3 "${one[@]}" $wrong
  once '^train: '; once '^  try: '
done
differ 2 '^train: --bogus is not known' --bogus -- "${one[@]}"
# A rank that only prints something ends the others, too, and all ranks print it once.
for shows in --help --help-model; do
  differ 2 "^train: rank 1: $shows is off, on rank 0 on" $shows -- "${one[@]}"
  code=0
  timeout 30 mpirun -q --bind-to none -n 1 "${one[@]}" : -n 1 "${one[@]}" $shows >out 2>&1 </dev/null || code=$?
  [ "$code" = 2 ] || fail "exit $code, expected 2: $shows on rank 1"
  once "^train: rank 1: $shows is on, on rank 0 off"
  expect 0 train $shows
  mv out alone
  expect 0 mpirun -q --bind-to none -n 2 train $shows
  same out alone "$shows on both ranks"
done
differ 2 '^train: rank 1: --zero 7 ' --help -- "${one[@]}" --zero 7
differ 2 'rank 1: --stop-after is 0, on rank 0 2' --stop-after 2 -- "${one[@]}"
differ 2 'rank 1: --zero is 0, on rank 0 3; --validate-every is 0, on rank 0 2' --zero 3 --validate-every 2 --validation-sequences 64 -- "${one[@]}"
differ 2 'rank 1: --dtype is f32, on rank 0 bf16' --dtype bf16 -- "${one[@]}"
differ 2 'rank 1: --device is cpu, on rank 0 auto' --device auto -- "${one[@]}"
differ 2 'rank 1: --dry-run is off, on rank 0 on' --dry-run -- "${one[@]}"
differ 2 'rank 1: --print-config is off, on rank 0 on' --print-config -- "${one[@]}"

# Ranks may name files by different paths, but only copies.
sed 's/trains/planes/' text >other-text
shard-data --input other-text --split paragraphs --output other-data --validation 0.1 >out 2>&1 || fail shard-data
differ 2 'rank 1: --model is model.toml, on rank 0 other.toml, and the content is not the same: model$' --model other.toml -- "${one[@]}"
bare=(train --model model.toml --steps 4 --global-batch 2 --micro-batch 1 --progress never --hang-timeout 30 --output run --threads 1)   # without --data
code=0
timeout 30 mpirun -q --bind-to none -n 1 "${bare[@]}" --data other-data : -n 1 "${one[@]}" >out 2>&1 </dev/null || code=$?
[ "$code" = 2 ] && [ "$(grep -c 'rank 1: --data is data, on rank 0 other-data, and the content is not the same: data' out)" = 1 ] || fail "other data: exit $code, $(cat out)"
cp -r data copied-data
cp model.toml copied-model.toml
code=0
timeout 30 mpirun -q --bind-to none -n 1 "${one[@]}" --dry-run : -n 1 "${bare[@]}" --data copied-data --model copied-model.toml --dry-run >out 2>&1 </dev/null || code=$?
[ "$code" = 0 ] || fail "copies of the same files: exit $code"

# Variables of one rank, which other nodes do not get.
code=0
timeout 30 mpirun -q --bind-to none -n 1 -x TRAINYARD_SAVE_EVERY=2 "${one[@]}" : -n 1 "${one[@]}" >out 2>&1 </dev/null || code=$?
[ "$code" = 2 ] || fail "a variable of one rank: exit $code"
grep -q 'rank 1: --save-every is 0, on rank 0 2' out || fail "the variable is not named"
code=0
timeout 30 mpirun -q --bind-to none -n 1 -x TRAINYARD_HOPPER=on "${one[@]}" : -n 1 "${one[@]}" >out 2>&1 </dev/null || code=$?
[ "$code" = 2 ] || fail "attention kernels for one rank: exit $code"
grep -q 'rank 1: TRAINYARD_HOPPER is off, on rank 0 on' out || fail "the variable is not named as it is"

code=0
timeout 30 mpirun -q --bind-to none -n 1 "${one[@]}" : -n 1 -x TRAINYARD_ISA=baseline "${one[@]}" >out 2>&1 </dev/null || code=$?
[ "$code" = 4 ] || fail "another instruction set on one rank: exit $code"
grep -q 'rank 1: the kernels of this rank use baseline' out || fail "the instruction set is not named"

# An instruction-set path that differs only in products of bf16 matters only for bf16.
for dtype in f32 bf16; do
  code=0
  timeout 30 mpirun -q --bind-to none -n 1 -x TRAINYARD_ISA=baseline "${train[@]}" --dtype $dtype --output paths-$dtype --threads 1 : -n 1 -x TRAINYARD_ISA=emulated-bf16 "${train[@]}" --dtype $dtype --output paths-$dtype --threads 1 >out 2>&1 </dev/null || code=$?
  if [ $dtype = f32 ]; then [ "$code" = 0 ] || fail "two paths with the same bits in f32: exit $code: $(tail -3 out)"
  else
    [ "$code" = 4 ] || fail "two paths in bf16: exit $code"
    grep -q 'the kernels of this rank use emulated-bf16, but on rank 0 they use baseline' out || fail "the paths are not named"
  fi
done

# Settings that may differ between ranks.
code=0
timeout 30 mpirun -q --bind-to none -n 1 "${train[@]}" --output done --threads 1 --memory-limit 1GB : -n 1 "${train[@]}" --output done >out 2>&1 </dev/null || code=$?
[ "$code" = 0 ] || fail "threads of one rank: exit $code"

code=0
timeout 30 mpirun -q --bind-to none -n 1 -x TRAINYARD_ISA=baseline "${evaluate[@]}" --data data : -n 1 -x TRAINYARD_ISA=emulated-bf16 "${evaluate[@]}" --data data >out 2>&1 </dev/null || code=$?
[ "$code" = 0 ] || fail "an evaluation in f32 on two paths with the same bits: exit $code: $(tail -3 out)"

differ 2 'rank 1: --evaluate-sequences is 0, on rank 0 2' --evaluate-sequences 2 -- "${evaluate[@]}"
differ 2 'rank 1: --zero is 0, on rank 0 3' --zero 3 -- "${evaluate[@]}"
differ 2 'rank 1: --dtype is the checkpoint.s, on rank 0 bf16' --dtype bf16 -- "${evaluate[@]}"
differ 2 'rank 1: --evaluate is off, on rank 0 on' --evaluate done -- train --progress never --threads 1 --data data --model model.toml
passed
