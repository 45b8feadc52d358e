#!/bin/bash
# One rank with all cores compared with one rank a core at every ZeRO stage: the same model, batch and bits. All take
# turns in each round, so that other load on the machine affects all alike. Prints the median step over all rounds, and
# two shares of speed: of the first one's in the same round (median, least to most), and of ZeRO 0's on as many ranks.
# Needs a quiet machine. FLAGS go to every train.
# usage: ranks.sh BIN_FOLDER [ROUNDS [STEPS [RANKS [FLAGS...]]]]
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../../tests/script.sh"
set -e
end_at_first_failure
unset OMP_WAIT_POLICY OMPI_MCA_mpi_yield_when_idle   # as users run it
export TRAINYARD_DEVICE=cpu
rounds=${2:-3} steps=${3:-12} ranks=${4:-$(nproc)}
shift $(($# < 4 ? $# : 4))
for ((i = 0; i < 6000; ++i)); do echo "line $i of a text that is written for this test, $((i * i % 977)) words long"; done >text.txt
shard-data --input text.txt --split lines --output data --validation 0 >/dev/null 2>&1
printf 'layers = 4\nhidden = 256\nheads = 4\nkv-heads = 4\nffn = 1024\ncontext = 128\n' >model.toml
common="--model model.toml --data data --global-batch $((4 * ranks)) --micro-batch 2 --steps $steps --progress never $*"
for ((round = 0; round < rounds; ++round)); do
  for stage in one 0 1 2 3; do
    rm -rf run
    if [ $stage = one ]; then train $common --threads "$ranks" --output run >/dev/null 2>log || { cat log; exit 1; }
    else mpirun -n "$ranks" train $common --threads 1 --zero $stage --output run >/dev/null 2>log || { cat log; exit 1; }; fi
    jq -rs --arg who $stage 'map(.step_seconds)[3:] | sort | [$who, (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2] | @tsv' run/metrics.jsonl >>times
    tail -n 1 run/metrics.jsonl | jq -r .loss >>losses
  done
done
[ "$(sort -u losses | wc -l)" = 1 ] || fail "the last loss is not one: $(sort -u losses | tr '\n' ' ')"
printf '%-20s %10s %24s %24s\n' "ranks x threads" "step s" "speed of one rank's" "speed of ZeRO 0's"
jq -rRn '
  def middle: sort | (.[(length - 1) / 2 | floor] + .[length / 2 | floor]) / 2;
  def text: "\(middle * 1000 | round / 1000) (\(min * 1000 | round / 1000)-\(max * 1000 | round / 1000))";
  [inputs / "\t" | {who: .[0], s: (.[1] | tonumber)}] as $all | [$all[] | select(.who == "one").s] as $one | [$all[] | select(.who == "0").s] as $zero |
  ("one", "0", "1", "2", "3") as $who | [$all[] | select(.who == $who).s] as $s |
  [$who, ($s | middle), ([range($s | length) | $one[.] / $s[.]] | text), ([range($s | length) | $zero[.] / $s[.]] | text)] | @tsv' times |
  while IFS=$'\t' read -r who s one zero; do
    [ "$who" = one ] && who="1 x $ranks" zero=- || who="$ranks x 1, ZeRO $who"
    printf '%-20s %10.4f %24s %24s\n' "$who" "$s" "$one" "$zero"
  done
passed "the losses are one; what the ratios ought to be is not judged here"
