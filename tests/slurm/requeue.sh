#!/bin/bash
# slurm/train.sbatch, stopped by its time limit: it queues again, goes on with other nodes, and ends with the bits of an
# uninterrupted run. After scancel, or after a final stop with a checkpoint, it does not come back.
# usage: requeue.sh BIN_FOLDER SCRIPTS_FOLDER
bin=$(realpath "$1") script=$(realpath "$2")/train.sbatch
export TRAINYARD_GPU_MODULE=none
. "$(dirname "$0")/cluster.sh"

small_text 600 >text.txt
tiny_model 16 >tiny.toml
"$bin/shard-data" --input text.txt --split paragraphs --output data --validation 0 2>/dev/null
export BIN=$bin MODEL=tiny.toml LAYOUT="--global-batch 12 --micro-batch 2"
settings="--steps 150 --save-every 50 --threads 1 --progress always"
fact() { scontrol --oneliner show job "$1" | grep -o "\b$2=[^ ]*" | head -1 | cut -d= -f2; }
ended() { for _ in $(seq 1 1200); do case $(fact "$1" JobState) in PENDING | RUNNING | COMPLETING | CONFIGURING | REQUEUED) sleep 0.2 ;; *) return 0 ;; esac; done; fail "job $1 does not end"; }
begun() { for _ in $(seq 1 300); do [ "$(wc -l 2>/dev/null <"$1/metrics.jsonl" || echo 0)" -gt 3 ] && return 0; sleep 0.1; done; fail "$1 does not begin"; }
# shellcheck disable=SC2034   # of script.sh
shown='*.log'

# Slow enough for the time limit: the delay changes no bits.
RUN=run TRAIN="$settings --collective-delay 0.02" sbatch --parsable --nodes=1-2 --time=1 --signal=USR1@40 "$script" >id
job=$(cat id)
begun run
scontrol update nodename=n2 state=drain reason=test   # the next start finds one node
ended "$job"
[ "$(fact "$job" JobState)" = COMPLETED ] || fail "state $(fact "$job" JobState)"
[ "$(fact "$job" Restarts)" -ge 1 ] || fail "it was never stopped"
log=train-$job.log
grep -q 'DUE TO JOB REQUEUE' "$log" || fail "no requeue"
grep -q -- '--plan auto: ZeRO 0 on 4 ranks' "$log" && grep -q -- '--plan auto: ZeRO 0 on 2 ranks' "$log" && grep -q 'resuming with ranks 2 (the checkpoint was written with 4)' "$log" || fail "not on two nodes, then on one"
scontrol update nodename=n2 state=resume
# shellcheck disable=SC2086
"$bin/train" --model tiny.toml --data data --output whole $LAYOUT ${settings/always/never} >/dev/null 2>&1
[ "$(jq -c '[.step, .loss, .gradient_norm]' run/metrics.jsonl)" = "$(jq -c '[.step, .loss, .gradient_norm]' whole/metrics.jsonl)" ] || fail "other losses"
"$bin/reshard-checkpoint" --diff run whole >diff.out || fail "other weights: $(tail -3 diff.out)"

# scancel saves and ends; the job does not come back.
RUN=ended TRAIN="--steps 1000000 --threads 1" sbatch --parsable "$script" >id
job=$(cat id)
begun ended
scancel "$job"
ended "$job"
[ "$(fact "$job" JobState)" = CANCELLED ] || fail "state $(fact "$job" JobState) after scancel"
ls ended/checkpoints/step-* >/dev/null || fail "no checkpoint after scancel"
# Requeue is turned off, then the job is asked to stop: it ends as soon as it has saved.
RUN=stopped TRAIN="--steps 1000000 --threads 1" sbatch --parsable "$script" >id2
second=$(cat id2)
begun stopped
scontrol update jobid="$second" requeue=0
scancel --signal=USR1 "$second"
ended "$second"
[ "$(fact "$second" ExitCode)" = 75:0 ] || fail "exit $(fact "$second" ExitCode) after USR1"
ls stopped/checkpoints/step-* >/dev/null || fail "no checkpoint after USR1"
sleep 20   # longer than a requeued job waits here
[ "$(fact "$job" JobState),$(fact "$job" Restarts),$(fact "$second" JobState)" = CANCELLED,0,FAILED ] || fail "came back"
# The job queues again at most as often as it may.
RUN=often TRAIN="--steps 1000000 --threads 1" MAX_RESTARTS=0 sbatch --parsable "$script" >id
job=$(cat id)
begun often
scancel --signal=USR1 "$job"
ended "$job"
[ "$(fact "$job" JobState),$(fact "$job" Restarts)" = FAILED,0 ] || fail "queued again"
passed
