#!/bin/bash
# Rounded sizes in every program's tables, and exact bytes with --bytes. Also a line of progress that fits 80 columns of
# a terminal.
# usage: byte_sizes.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
sizes='^ *in arenas +[0-9]+(\.[0-9]+)? [kMG]B$' bytes='^ *in arenas +[0-9]{6,}$'

partition-model --model gpt2-nano --sequence 16 --ranks 2 --zero 3 --output plan.json --force >/dev/null || fail "partition-model: exit code $?"
for command in "partition-model --model gpt2-nano --sequence 16 --ranks 2 --zero 3" "inspect plan.json"; do
  $command | grep -Eq "$sizes" || fail "$command: no sizes for people: $($command | grep arenas)"
  $command --bytes | grep -Eq "$bytes" || fail "$command --bytes: $($command --bytes | grep arenas)"
done
partition-model --model gpt2-nano --sequence 16 --ranks 2 --zero 3 --json | jq -e '[.. | numbers | select(. > 1000000)] | length > 5' >/dev/null || fail "--json has no bytes"

# Hours are counts, in groups of three digits.
long=$(partition-model --model llama-8b --machine dgx-a100-80 --zero 3 --recompute full --global-batch 8 --until tokens=1e13 2>/dev/null) || fail "--until: exit code $?"
grep -Eq ': [0-9]{1,3}(,[0-9]{3})+ h, [0-9]{1,3}(,[0-9]{3})+ node-hours' <<<"$long" || fail "--until: $(grep node-hours <<<"$long")"

small_text 300 >text
shard-data --input text --split paragraphs --output data --validation 0.2 2>/dev/null >/dev/null
base=(train --model gpt2-nano --data data --sequence 32 --global-batch 8 --micro-batch 2 --steps 40 --validate-every 20 --validation-sequences 8)
"${base[@]}" --output run --dry-run | grep -Eq "$sizes" || fail "--dry-run: $("${base[@]}" --output run --dry-run | grep arenas)"
"${base[@]}" --output run --dry-run --bytes | grep -Eq "$bytes" || fail "--dry-run --bytes"
"${base[@]}" --output run --memory-report --progress always >out 2>err || fail "train: exit code $?: $(tail -3 err)"
grep -Eq '^total in arenas +[0-9.]+ [kM]B +[0-9.]+ [kM]B +0$' out || fail "--memory-report: $(grep arenas out)"
"${base[@]}" --output profiled --steps 3 --validate-every 0 --memory-report --profile-step --progress never >profile 2>profile.err || fail "--profile-step: exit code $?: $(tail -3 profile.err)"
grep -q '^where steps 2 to 3 went: ' profile && grep -Eq '^step +[0-9.]+ +100\.0 %' profile || fail "--profile-step: $(cat profile)"
[ -z "$(grep -B1 '^where steps' profile | head -1)" ] || fail "--profile-step: no empty line before its tables"
"${base[@]}" --output run2 --memory-report --bytes --progress never 2>/dev/null | grep -Eq '^total in arenas +[0-9]{6,} +[0-9]{6,} +0$' || fail "--memory-report --bytes"
grep -Eq '^total in arenas +[0-9]{6,} +[0-9]{6,} +0$' run/report.txt || fail "report.txt: $(grep arenas run/report.txt)"
grep -Eq '^train: step 40/40  loss [0-9.]+  val [0-9.]+  [0-9.,]+ tokens/s  0 s left$' err || fail "progress: $(tail -1 err)"
awk '/^train: step/ && length($0) > 79 { print "a long line of progress: " $0; bad = 1 } END { exit bad }' err || fail "progress: a line is too long"
inspect run | grep -Eq '^  peak_bytes +[0-9.]+ [kM]B$' || fail "inspect run: $(inspect run | grep peak)"
inspect run --bytes | grep -Eq '^  peak_bytes +[0-9]{6,}$' || fail "inspect run --bytes: $(inspect run --bytes | grep peak)"
checkpoint=$(ls -d run/checkpoints/step-*)
inspect "$checkpoint" | grep -Eq '^  size +[0-9.]+ [kM]B in' || fail "inspect CHECKPOINT: $(inspect "$checkpoint" | grep size)"
inspect "$checkpoint" --bytes | grep -Eq '^  size +[0-9]{6,} bytes in' || fail "inspect CHECKPOINT --bytes: $(inspect "$checkpoint" --bytes | grep size)"
inspect data --bytes | grep -Eq '^train.*[0-9]{4,}$' || fail "inspect SHARDS --bytes: $(inspect data --bytes)"

# For pipeline stages: the memory that each needs, and which stage the other numbers are about.
mpirun -q --bind-to none -n 2 "${base[@]}" --output run3 --steps 2 --pipeline-parallel 2 --memory-report --bytes --progress never >out 2>err || fail "train --pipeline-parallel 2: exit code $?: $(tail -3 err)"
for file in out run3/report.txt; do
  for stage in 0 1; do grep -Eq "^arenas of stage $stage +[0-9]{6,} +[0-9]{6,} +0$" "$file" || fail "$file: no arenas of stage $stage: $(grep arenas "$file")"; done
  for of in memory 'traffic sent'; do grep -Eq "^$of of rank 0, stage 0 \(bytes\) +" "$file" || fail "$file does not say of whom '$of' is: $(grep "^$of" "$file")"; done
done
unsaid 'arenas of stage 2'
passed
