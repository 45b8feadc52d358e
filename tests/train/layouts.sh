#!/bin/bash
# A covering array of layouts, started as users start them, with every pair of choices. One run goes through all
# layouts, one step in each, and has the bits of one rank.
# A dry run and a start must agree: what one plans, the other does. Ranks are real, and so are the launcher's variables,
# files, the watch list and queues.
# usage: layouts.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
export TRAINYARD_DEVICE=cpu
most_ranks=12
small_text 300 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
printf 'layers = 4\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 32\ncontext = 32\n[experts]\ncount = 8\ntop-k = 2\n' >model.toml

# Lines of "RANKS FLAGS". Greedy: of all layouts with at most that many ranks, each time the one with the most pairs
# that no earlier layout has.
awk -v most=$most_ranks 'BEGIN {
  split("1|2|3|2", ranks_of_stages, "|"); split("1|2|2", ranks_of_tensor, "|"); split("1|2|4", ranks_of_experts, "|")
  split("|--pipeline-parallel 2|--pipeline-parallel 3 --pipeline-schedule interleaved --virtual-stages 2|--pipeline-parallel 2 --pipeline-schedule zero-bubble", stages, "|")
  split("|--tensor-parallel 2|--tensor-parallel 2 --sequence-parallel", tensor, "|"); split("|--expert-parallel 2|--expert-parallel 4 --expert-ranks-per-node 2", experts, "|")
  for (s = 1; s <= 4; s++) for (t = 1; t <= 3; t++) for (e = 1; e <= 3; e++) for (d = 1; d <= 2; d++) for (z = 0; z <= 3; z++) {
    ranks = ranks_of_stages[s] * ranks_of_tensor[t] * ranks_of_experts[e] * d
    if (ranks > most) continue
    line[++n] = ranks " " stages[s] " " tensor[t] " " experts[e] " --zero " z
    split("s" s " t" t " e" e " d" d " z" z, choice, " ")
    for (i = 1; i <= 5; i++) for (j = i + 1; j <= 5; j++) { pairs[n, ++count[n]] = choice[i] choice[j]; open[choice[i] choice[j]] = 1 }
  }
  while (1) {
    best = 0; gain = 0
    for (k = 1; k <= n; k++) {
      g = 0
      for (i = 1; i <= count[k]; i++) g += (pairs[k, i] in open)
      if (g > gain) { gain = g; best = k }
    }
    if (!best) break
    for (i = 1; i <= count[best]; i++) delete open[pairs[best, i]]
    print line[best]
  }
}' >layouts
all=$(wc -l <layouts)
[ "$all" -ge 12 ] || fail "$all layouts"

run=(train --model model.toml --data data --sequence 32 --micro-batch 4 --global-batch 40 --threads 1 --progress never --steps "$all" --recompute none --hang-timeout 60)
time_limit=300
expect 0 "${run[@]}" --output one
bits() { jq -c '[.step, .loss, .gradient_norm]' "$1/metrics.jsonl"; }
step=0
while read -r -u 3 ranks flags; do
  step=$((step + 1))
  want=75
  [ $step -lt "$all" ] || want=0
  # shellcheck disable=SC2086
  expect 0 mpirun -q --bind-to none -n "$ranks" "${run[@]}" --output cut $flags --dry-run
  # shellcheck disable=SC2086
  expect $want mpirun -q --bind-to none -n "$ranks" "${run[@]}" --output cut $flags --stop-after $step --memory-report
  [ $want = 75 ] || said "step-0*$step$"
  # Measured memory equals announced memory.
  grep -q '^total in arenas .* 0$' out || fail "memory is not what was announced, $ranks ranks: $flags"
done 3<layouts
[ "$(bits one)" = "$(bits cut)" ] || fail "other bits: $(diff <(bits one) <(bits cut) | head -4)"
newest=$(printf 'checkpoints/step-%08d' "$all")
expect 0 inspect --verify "cut/$newest"
inspect --json "one/$newest" >one.json
inspect --json "cut/$newest" >cut.json
fingerprints='[.. | objects | select(has("fingerprint")) | .fingerprint]'
[ "$(jq -c "$fingerprints | length > 10" one.json)" = true ] || fail "nothing to compare"
[ "$(jq -c "$fingerprints" one.json)" = "$(jq -c "$fingerprints" cut.json)" ] || fail "other weights"
passed "$all layouts"
