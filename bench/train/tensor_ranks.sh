#!/bin/bash
# Tensor parallelism compared with data parallelism: the same model, batch and cores, 1, 2 and 4 ranks in turn, so that
# other load on the machine affects all alike. Prints the measured communication beside the time that links would take
# by a profile of the same ranks. Needs a quiet machine with as many cores as ranks.
# usage: tensor_ranks.sh BIN_FOLDER [STEPS]
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../../tests/script.sh"
set -e
end_at_first_failure
export TRAINYARD_DEVICE=cpu OMP_WAIT_POLICY=passive
steps=${2:-12}
for ((i = 0; i < 6000; ++i)); do echo "line $i of a text that is written for this test, $((i * i % 977)) words long"; done >text.txt
shard-data --input text.txt --split lines --output data --validation 0 >/dev/null 2>&1
printf 'layers = 4\nhidden = 256\nheads = 8\nkv-heads = 8\nffn = 1024\ncontext = 256\n' >model.toml
printf '%-28s %12s %12s %14s %14s %14s\n' ranks "step s" "tokens/s" "sent a step" "talking s" "predicted s"
for ranks in 1 2 4; do
  for cut in "" "--tensor-parallel $ranks" "--tensor-parallel $ranks --sequence-parallel"; do
    [ "$ranks" = 1 ] && [ -n "$cut" ] && continue
    name=run-$ranks-$(echo "$cut" | tr -dc 'a-z0-9')
    common="--model model.toml --global-batch 8 --micro-batch 2 --threads 1 $cut"
    launch="mpirun --oversubscribe -n $ranks"
    partition-model $common --ranks "$ranks" --data data --output "$name.json" >/dev/null 2>&1
    $launch train $common --data data --output "$name" --steps "$steps" --progress never >/dev/null 2>log || { cat log; exit 1; }
    predicted=-
    if [ "$ranks" -gt 1 ]; then
      $launch profile-comm --plan "$name.json" --budget 30 --output "$name-profile.json" >/dev/null 2>log || { cat log; exit 1; }
      predicted=$(partition-model $common --ranks "$ranks" --data data --profile "$name-profile.json" 2>/dev/null | awk '$1 == "all" && NF == 3 {print $2 $3}')
    fi
    jq -rs --arg name "$name" --arg predicted "$predicted" --argjson tokens $((8 * 256)) \
      '(map(.step_seconds)[3:] | sort | .[length / 2 | floor]) as $s | (map(.communication_seconds)[3:] | sort | .[length / 2 | floor]) as $c | [$name, $s, ($tokens / $s), $c, $predicted] | @tsv' "$name/metrics.jsonl" |
      while IFS=$'\t' read -r n s t c f; do
        sent=$(awk '/traffic/ {on = 1; next} on {sum += $(NF - 1)} END {print sum / '"$steps"'}' "$name/report.txt")
        printf '%-28s %12.4f %12.0f %14s %14.4f %14s\n' "$n" "$s" "$t" "$sent" "$c" "$f"
      done
  done
done
passed "what the ratios ought to be is not judged here"
