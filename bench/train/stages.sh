#!/bin/bash
# Pipeline stages compared with replicas: the same model, batch and cores, 2 ranks in turn under each schedule, so that
# other load on the machine affects all alike. Prints the share of a step in which ranks do not compute, as traced and
# as simulated from the same traces. Needs a quiet machine with as many cores as ranks.
# usage: stages.sh BIN_FOLDER [STEPS]
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../../tests/script.sh"
set -e
end_at_first_failure
export TRAINYARD_DEVICE=cpu OMP_WAIT_POLICY=passive
steps=${2:-12}
for ((i = 0; i < 6000; ++i)); do echo "line $i of a text that is written for this test, $((i * i % 977)) words long"; done >text.txt
shard-data --input text.txt --split lines --output data --validation 0 >/dev/null 2>&1
printf 'layers = 8\nhidden = 256\nheads = 8\nkv-heads = 8\nffn = 1024\ncontext = 256\n' >model.toml
printf '%-44s %10s %10s %10s %12s %12s\n' "2 ranks" "step s" "tokens/s" "waiting s" "idle traced" "idle ideal"
for cut in "" "--pipeline-parallel 2" "--pipeline-parallel 2 --pipeline-schedule zero-bubble" "--pipeline-parallel 2 --pipeline-schedule gpipe" "--pipeline-parallel 2 --pipeline-schedule naive" "--pipeline-parallel 2 --pipeline-schedule interleaved --virtual-stages 2"; do
  name=run$(echo "$cut" | tr -dc 'a-z0-9')
  mpirun --oversubscribe -n 2 train --model model.toml --global-batch 8 --micro-batch 1 --threads 1 $cut --data data --output "$name" --steps "$steps" --progress never --trace "$name-trace.json" \
    >/dev/null 2>log || { cat log; exit 1; }
  idle=$(inspect "$name-trace.json" --timeline --json | jq -r '.. | objects | select(has("idle_fraction")) | .idle_fraction' | paste -sd' ')
  jq -rs --argjson tokens $((8 * 256)) '(map(.step_seconds)[3:] | sort | .[length / 2 | floor]) as $s | (map(.step_seconds - .compute_seconds)[3:] | sort | .[length / 2 | floor]) as $c | [$s, ($tokens / $s), $c] | @tsv' "$name/metrics.jsonl" |
    while IFS=$'\t' read -r s t c; do printf '%-44s %10.4f %10.0f %10.4f %12.3f %12.3f\n' "${cut:-2 replicas}" "$s" "$t" "$c" ${idle:-0 0}; done
done
passed "what the ratios ought to be is not judged here"
