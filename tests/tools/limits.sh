#!/bin/bash
# What a start reports of data and settings before it trains, and how it handles limits of the system: threads, open
# files, sizes of files.
# usage: limits.sh BIN_FOLDER [SANITIZERS]
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
unset OMP_NUM_THREADS
mkdir bin
PATH=$PWD/bin:$PATH
cat >bin/limited <<'END'
#!/bin/bash
# limited FLAGS COMMAND...: the command below limits of the shell
ulimit $1 || exit 99
exec "${@:2}"
END
chmod +x bin/limited
small_text 300 >text
tiny_model 16 >model.toml
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
run=(train --model model.toml --data data --global-batch 2 --micro-batch 1 --steps 4 --progress never)

# How much of the set is read is reported at the start, in a dry run, in a plan and in the report. Small shards leave a
# part unread, which causes a warning.
expect 0 "${run[@]}" --output run --threads 1
said '^train: data: [0-9,]* windows of 17 tokens, with [0-9.]* % of the training tokens; 4 steps read [0-9.]* % of them$'
unsaid 'lie in no window'
grep -q '^data: [0-9,]* windows of 17 tokens, .*; 4 steps read' run/report.txt || fail "the report: $(cat run/report.txt)"
expect 75 "${run[@]}" --output stopped --threads 1 --stop-after 2
grep -q '^data: .*; 2 steps read' stopped/report.txt || fail "the report of a run that stopped: $(cat stopped/report.txt)"
expect 0 "${run[@]}" --output none --dry-run --threads 1 --steps 1000
said '^data: [0-9,]* windows of 17 tokens, .*; in 1,000 steps each is read [0-9.]* times (epochs)$'
expect 0 partition-model --model model.toml --data data --sequence 16
said '^data: [0-9,]* windows of 17 tokens, with [0-9.]* % of the training tokens$'
expect 0 partition-model --model model.toml --data data --sequence 16 --json
jq -e .predicted out >/dev/null || fail "no JSON: $(cat out)"
expect 0 shard-data --input text --split paragraphs --output small --shard-tokens 30
small=("${run[@]/#data/small}")
for command in "${small[*]} --output small-run --threads 1" "${small[*]} --output none --dry-run --threads 1" "partition-model --model model.toml --data small --sequence 16"; do
  # shellcheck disable=SC2086
  expect 0 $command
  said 'warning: [0-9.]* % of the training tokens lie in no window of 17 tokens'
done

# An edited plan does not match its settings. What train cannot do is reported when it is planned.
expect 0 partition-model --model model.toml --data data --sequence 16 --global-batch 2 --micro-batch 1 --output plan.json
expect 0 train --plan plan.json --data data --output none --dry-run
unsaid 'was edited'
jq '.predicted.parameters = 1' plan.json >edited.json
expect 0 mpirun --bind-to none -n 1 train --plan edited.json --data data --output none --dry-run
said 'warning: edited.json was edited, or made by another version: parameters is 1, this build computes'
expect 5 inspect --verify edited.json
expect 0 train --evaluate run --plan plan.json --data data
unsaid 'was edited'
expect 0 train --evaluate run --plan edited.json --data data
said 'warning: edited.json was edited, or made by another version: parameters is 1, this build computes'
time_limit=200   # on a machine with other work
expect 0 profile-comm --plan edited.json --local --disk-bytes 0 --budget 2min --spread 0 --confidence 90% --output profile.json --progress never
once 'warning: edited.json was edited, or made by another version'
expect 0 partition-model --model gpt2-nano --vocabulary 257 --ranks 4 --pipeline-parallel 2 --output stages.json
expect 0 partition-model --model gpt2-nano --vocabulary 257 --ranks 4 --pipeline-parallel 2 --json
cp out told.json
jq -e '(.stages | length == 2) and .stages[0].parameters > 0 and .idle.fraction > 0' told.json >/dev/null || fail "stages of a plan: $(jq -c '.stages, .idle' told.json)"
[ "$(jq -c 'del(.stages, .idle, .rank_total_bytes, .rank_host_bytes)' told.json)" = "$(jq -c . stages.json)" ] || fail "it says other things than the plan's file"
expect 0 inspect --verify told.json
jq '.stages[1].parameters = 1' told.json >other.json
expect 5 inspect --verify other.json
said "'stages' differs"
expect 0 inspect stages.json --json
jq -e --slurpfile told told.json '.stages == $told[0].stages and .idle == $told[0].idle' out >/dev/null || fail "inspect says other stages"
jq -e '(.stages | length == 2) and .stages[0].parameters > 0 and .stages[1].rank_bytes.total > 0 and (.stages[0].items | contains("embedding")) and .idle.fraction > 0 and .idle.fraction < 1' out >/dev/null || fail "stages: $(jq -c '.stages, .idle' out)"
expect 0 inspect plan.json --json
jq -e 'has("stages") | not' out >/dev/null || fail "one stage is no table"
expect 0 partition-model --model model.toml --data data --gradient-dtype bf16
said 'warning: --gradient-dtype bf16 is only for comparison'
refused 3 'plans bf16 gradients' train --plan <(partition-model --model model.toml --data data --gradient-dtype bf16 --json 2>/dev/null) --data data --output none

# OMP_NUM_THREADS decides if --threads does not, and the program says so if a rank would have taken another number.
expect 0 env OMP_NUM_THREADS=1 "${run[@]}" --output none --dry-run
said ', 1 thread a rank'
[ "$(nproc)" = 1 ] || said '^train: 1 thread a rank, as OMP_NUM_THREADS says; its share of the cores would be [0-9]* (--threads overrides it)$'
expect 0 env OMP_NUM_THREADS=1 "${run[@]}" --output none --dry-run --threads 2
said ', 2 threads a rank'
unsaid OMP_NUM_THREADS
expect 0 env OMP_NUM_THREADS=999 "${run[@]}" --output none --dry-run
said 'warning: OMP_NUM_THREADS 999 is more than the [0-9]* cores\? that a rank may use here'
expect 0 env OMP_NUM_THREADS=no "${run[@]}" --output none --dry-run
unsaid 'as OMP_NUM_THREADS says'
expect 0 env OMP_NUM_THREADS=1 generate --checkpoint run --prompt line --tokens 2

# A soft limit of open files is raised as far as allowed. Below what a program needs, and with too small a limit of file
# sizes, it ends with 4. Nothing is left behind or lost.
expect 0 limited -Sn6 "${run[@]}" --output soft --threads 1
expect 0 inspect --verify soft
if [ -z "${2:-}" ]; then   # the sanitizer of undefined behaviour needs descriptors of its own
  expect 4 limited -n6 "${run[@]}" --output hard --threads 1
  refusals=0
  for n in 4 5 6 7 8 9; do
    for command in "${run[*]} --output open-$n --threads 1" "inspect --verify run" "shard-data --input text --output open-set-$n" "reshard-checkpoint run/checkpoints/step-00000004 open-cut-$n"; do
      # shellcheck disable=SC2086
      kept limited -n$n $command
      [ "$code" = 0 ] && continue
      [ "$code" = 127 ] && grep -q 'shared object' err && continue   # the program could not even be loaded
      refusals=$((refusals + 1))
      [ "$code" = 4 ] || fail "exit code $code with $n open files: $command"
      grep -q 'Too many open files' err || fail "does not say so with $n open files: $command"
      case $command in
        shard-data*) absent "open-set-$n" ;;
        reshard*) absent "open-cut-$n" ;;
      esac
    done
  done
  [ $refusals -ge 4 ] || fail "only $refusals refusals"
fi
expect 4 limited -f2 shard-data --input text --split paragraphs --output full
absent full full.partial
expect 4 limited -f8 "${run[@]}" --output full-run --threads 1
[ ! -e full-run/checkpoints/step-00000004 ] || fail "a checkpoint where none fits"
expect 0 inspect --verify run
passed
