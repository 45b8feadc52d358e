#!/bin/bash
# Expert parallelism: tokens per second of 1, 2 and 4 ranks with equal work for each rank, and how much overlap chunks
# hide. The model has four experts a layer for each rank, so that a rank's part of it stays as large. Needs a quiet
# machine with as many cores as ranks.
# usage: experts.sh BIN_FOLDER [STEPS]
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../../tests/script.sh"
set -e
end_at_first_failure
export TRAINYARD_DEVICE=cpu OMP_WAIT_POLICY=passive
steps=${2:-16}
for ((i = 0; i < 6000; ++i)); do echo "line $i of a text that is written for this test, $((i * i % 977)) words long"; done >text.txt
shard-data --input text.txt --split lines --output data --validation 0 >/dev/null 2>&1
# model OUT EXPERTS
model() { printf 'layers = 4\nhidden = 256\nheads = 8\nffn = 1024\ncontext = 256\n[experts]\ncount = %s\nevery = 2\ntop-k = 1\ncapacity-factor = 1.25\n' "$2" >"$1"; }
printf '%-42s %6s %9s %10s %12s %10s %12s\n' ranks cores "step s" "tokens/s" "efficiency" "talking s" "of it hidden"
for cut in "1" "2" "4" "4 --expert-overlap-chunks 2" "4 --expert-overlap-chunks 4"; do
  ranks=${cut%% *} flags=
  [ "$cut" = "$ranks" ] || flags=${cut#* }
  model "model-$ranks.toml" $((4 * ranks))
  name=run-$(echo "$cut" | tr -dc 'a-z0-9')
  [ "$ranks" = 1 ] || flags="--expert-parallel $ranks $flags"
  mpirun --oversubscribe -n "$ranks" train --model "model-$ranks.toml" --data data --output "$name" --global-batch $((4 * ranks)) --micro-batch 2 --threads 1 $flags --steps "$steps" --progress never \
    >/dev/null 2>log || { cat log; exit 1; }
  jq -rs --argjson tokens $((4 * 256 * ranks)) '(map(.step_seconds)[3:] | sort | .[length / 2 | floor]) as $s | (map(.communication_seconds)[3:] | sort | .[length / 2 | floor]) as $c |
    (map(.hidden_communication_seconds)[3:] | sort | .[length / 2 | floor]) as $h | [$s, ($tokens / $s), $c, $h] | @tsv' "$name/metrics.jsonl" |
    while IFS=$'\t' read -r s t c h; do
      [ -e one ] || echo "$t" >one
      base=$(cat one)
      cores=$(nproc); [ "$cores" -gt "$ranks" ] && cores=$ranks
      printf '%-42s %6s %9.4f %10.0f %12s %10.4f %12.4f\n' "$ranks $flags" "$cores" "$s" "$t" "$(awk -v t="$t" -v b="$base" -v c="$cores" 'BEGIN {printf "%.2f", t / (b * c)}')" "$c" "$h"
    done
done
passed "what the ratios ought to be is not judged here"
