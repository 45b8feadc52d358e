#!/bin/bash
# From text to a validated checkpoint: submits the job scripts beside this one and prints their job ids as JSON. Each
# job starts when the one before has succeeded.
#
#   bash pipeline.sh [--test-only]
#
#   --test-only   asks Slurm whether it would take the jobs, and submits none
#   --help        this text
#
# Variables set what the stages do, the same as in their scripts: INPUT, DATA, MODEL, LAYOUT, CONFIG, TRAIN, RUN, TO,
# DST ...
#   STAGES         which of them [shard plan profile train reshard validate]
#   SHARD_OPTIONS  options of sbatch for a stage, which go before what its script says: SHARD_OPTIONS="--array=0-15 --partition=cpu"; PLAN_OPTIONS and so on; OPTIONS is for all
# If a stage fails, all later stages are cancelled. The same command again goes on: existing shards stay, and training
# resumes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
known='shard plan profile train reshard validate'
refuse() { printf 'pipeline: %s\n  try: %s\n' "$2" "$3" >&2; exit "$1"; }

test_only=''
for word; do
  case $word in
    --help | -h) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --test-only) test_only=yes ;;
    *) refuse 2 "$word is not known" "bash pipeline.sh --help" ;;
  esac
done
command -v sbatch >/dev/null || refuse 4 "there is no sbatch here" "run it where jobs are submitted; without Slurm, see README.md beside this script"
read -rd '' -a stages <<<"${STAGES-$known}" || true
[ ${#stages[@]} -gt 0 ] || refuse 2 "STAGES names no stage" "STAGES='train reshard validate'"
for stage in "${stages[@]}"; do [[ " $known " == *" $stage "* ]] || refuse 2 "there is no stage '$stage'" "STAGES='$known', or some of them"; done
left=" $known "
for stage in "${stages[@]}"; do
  [[ $left == *" $stage "* ]] || refuse 2 "STAGES has '$stage' twice, or behind a stage that comes after it" "STAGES='$known', or some of them in that order"
  left=" ${left#*" $stage "}"
done

# A wrong flag of train would show only after the jobs before it.
if [[ " ${stages[*]} " == *" train "* ]] && command -v "${BIN:+$BIN/}train" >/dev/null; then
  CHECK_ONLY=yes SLURM_JOB_NUM_NODES=1 bash "$here/train.sbatch" || refuse $? "train.sbatch would end with this" "read what it says above; nothing was submitted"
fi

ids=() json=''
give_up() {
  [ ${#ids[@]} = 0 ] || scancel "${ids[@]}" || true
  refuse 4 "$1 was not submitted${ids[*]:+, and ${ids[*]} cancelled}" "read what sbatch says above; OPTIONS and ${1^^}_OPTIONS go to sbatch"
}
for stage in "${stages[@]}"; do
  name=${stage^^}_OPTIONS
  read -rd '' -a options <<<"${OPTIONS:-} ${!name:-}" || true
  if [ -n "$test_only" ]; then
    sbatch --test-only "${options[@]}" "$here/$stage.sbatch" || give_up "$stage"
    continue
  fi
  [ ${#ids[@]} = 0 ] || options+=(--dependency="afterok:${ids[-1]}" --kill-on-invalid-dep=yes)
  id=$(sbatch --parsable "${options[@]}" "$here/$stage.sbatch") || give_up "$stage"
  ids+=("${id%%;*}")   # ID;CLUSTER where there are several clusters
  json+="${json:+, }\"$stage\": ${ids[-1]}"
done
[ -z "$test_only" ] || exit 0
printf '{%s}\n' "$json"
printf 'pipeline: submitted. To watch: squeue --jobs=%s; to end it: scancel %s\n' "$(IFS=,; echo "${ids[*]}")" "${ids[*]}" >&2
