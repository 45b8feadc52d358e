#!/bin/bash
# slurm/pipeline.sh on a cluster of two nodes: from text to a resharded, validated checkpoint; its job ids as JSON. A
# failing stage stops the stages that depend on it. Nothing is submitted that Slurm would not take. Another test covers
# the profile of the links, which takes long.
# usage: chain.sh BIN_FOLDER SCRIPTS_FOLDER
bin=$(realpath "$1") scripts=$(realpath "$2")
command -v slurmctld >/dev/null || PATH=$PATH:/usr/sbin:/sbin
command -v slurmctld >/dev/null || { echo "skipped: slurmctld is not installed (package slurm-wlm)"; exit 77; }
export TRAINYARD_GPU_MODULE=none
. "$(dirname "$0")/cluster.sh"

small_text 600 >text.txt
tiny_model 16 | sed 's/^ffn = 16$/ffn = 32/' >tiny.toml   # has two lanes
export BIN=$bin MODEL=tiny.toml LAYOUT="--global-batch 8 --micro-batch 2" OPTIONS="--time=5" TRAIN="--steps 12 --save-every 6 --validate-every 6 --validation-sequences 4 --threads 1"
export STAGES="shard plan train reshard validate" SHARD="--validation 0.1" SHARD_OPTIONS="--array=0-2 --cpus-per-task=1" TRAIN_OPTIONS="--nodes=2 --signal=USR1@5" RESHARD_OPTIONS="--cpus-per-task=1"

state() { scontrol --oneliner show job "$1" | sed 's/.*JobState=\([A-Z_]*\).*/\1/' | sort -u | paste -sd, ; }
# submitted: runs the pipeline, writes its ids to ids.json, and waits until all jobs have ended.
submitted() {
  expect 0 bash "$scripts/pipeline.sh"
  cp out ids.json
  jq -e --argjson stages "$(wc -w <<<"$STAGES")" 'length == $stages and all(.[]; type == "number")' ids.json >/dev/null || fail "no job ids: $(cat ids.json)"
  [ "$(jq -r 'keys_unsorted | join(" ")' ids.json)" = "$STAGES" ] || fail "other stages: $(cat ids.json)"
  for _ in $(seq 1 600); do squeue -h | grep -q . || return 0; sleep 0.2; done
  squeue
  fail "the jobs do not end"
}
job() { jq ".$1" ids.json; }
# shellcheck disable=SC2034   # of script.sh
shown='*.log ids.json'

expect 0 bash "$scripts/pipeline.sh" --help
said 'STAGES'; said 'SHARD_OPTIONS'
expect 0 env STAGES="shard plan profile train reshard validate" bash "$scripts/pipeline.sh" --test-only
[ "$(grep -c 'to start at' err)" = 6 ] || fail "not all six would be taken: $(cat err)"
expect 2 bash "$scripts/pipeline.sh" --nonsense
expect 2 env STAGES="train nonsense" bash "$scripts/pipeline.sh"
said "no stage 'nonsense'"
expect 4 env RESHARD_OPTIONS=--partition=nowhere bash "$scripts/pipeline.sh"
said 'reshard was not submitted, and [0-9 ]* cancelled'
for _ in $(seq 1 100); do squeue -h | grep -q . || break; sleep 0.1; done
rm -rf ./*.log data data.parts run

submitted
for stage in $STAGES; do [ "$(state "$(job "$stage")")" = COMPLETED ] || fail "$stage: $(state "$(job "$stage")")"; done
[ "$(find . -name "shard-$(job shard)-?.log" | wc -l)" = 3 ] || fail "not three tasks of shard: $(ls)"
"$bin/shard-data" --input text.txt --split paragraphs --validation 0.1 --output alone >/dev/null 2>&1
same alone data "the set of three tasks"
absent data.parts
grep -q -- '--plan auto: ZeRO 0 on 4 ranks' train-"$(job train)".log || fail "no plan for four ranks"
[ "$(wc -l <run/metrics.jsonl)" = 12 ] || fail "not twelve steps"
[ "$("$bin/inspect" --json run-resharded | jq .ranks)" = 1 ] || fail "not one rank: $("$bin/inspect" --json run-resharded | head -c 300)"
grep '^{' validate-"$(job validate)".log | jq -e '.step == 12 and .loss < 10 and .split == "validation" and .bits_per_byte > 0' >/dev/null || fail "nothing validated"

# The same command again goes on: it shards nothing, trains further steps, and replaces the existing checkpoint. Now on
# one node with tensor-parallel ranks, with the same bits as on both nodes.
first=$(md5sum <data/index.json)
export TRAIN="${TRAIN/steps 12/steps 18} --change steps" TRAIN_OPTIONS="--nodes=1" LAYOUT="$LAYOUT --tensor-parallel 2"
submitted
[ "$(state "$(job validate)")" = COMPLETED ] || fail "the second time: $(state "$(job validate)")"
[ "$(md5sum <data/index.json)" = "$first" ] || fail "the shards were made again"
grep -q 'nothing to do' shard-"$(job shard)"-0.log || fail "shard does not say that there is nothing to do"
grep -q 'resuming with ranks 2 (the checkpoint was written with 4)' train-"$(job train)".log || fail "no resume on two ranks"
[ "$("$bin/inspect" --json "$(ls -d run/checkpoints/step-*18)" | jq .plan.tensor)" = 2 ] || fail "they do not share layers"
grep '^{' validate-"$(job validate)".log | jq -e '.step == 18' >/dev/null || fail "another step was validated"

# A stage that fails.
export TRAIN="--steps 18 --learning-rate 7" RESHARD_OPTIONS=""
submitted
[ "$(state "$(job plan)"),$(state "$(job train)"),$(state "$(job reshard)"),$(state "$(job validate)")" = COMPLETED,FAILED,CANCELLED,CANCELLED ] ||
  fail "plan, train, reshard, validate: $(state "$(job plan)"),$(state "$(job train)"),$(state "$(job reshard)"),$(state "$(job validate)")"
grep -q 'was trained with other settings' train-"$(job train)".log || fail "train does not say why"
scontrol show job "$(job train)" | grep -q 'Restarts=0.*' || fail "queued again"
scontrol show job "$(job train)" | grep -q 'ExitCode=3:0' || fail "another code than 3"

# A missing task of the array is run again alone.
"$bin/shard-data" --input text.txt --split paragraphs --validation 0.1 --output alone2 --task 1/3 >/dev/null 2>&1
DATA=alone2 TASKS=3 sbatch --wait --array=0,2 --cpus-per-task=1 --output=again-%a.log "$scripts/shard.sbatch" >/dev/null || fail "array=0,2: $(cat again-*.log)"
same alone alone2 "tasks that were run again"
passed
