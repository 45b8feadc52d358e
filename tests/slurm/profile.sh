#!/bin/bash
# slurm/profile.sbatch on a cluster of two nodes: the profile of a plan, a comparison that passes and one that fails,
# and a job that depends on it.
bin=$(realpath "$1") script=$(realpath "$2")
export PATH=$bin:$PATH TRAINYARD_GPU_MODULE=none
. "$(dirname "$0")/cluster.sh"

partition-model --model gpt2-nano --sequence 16 --ranks 4 --zero 3 --output plan.json >/dev/null
# A busy machine needs a larger budget, and profile-comm reports that before it measures.
for BUDGET in 45s 120s 400s; do
  export BUDGET
  code=0
  sbatch --wait --output one.log --export=ALL,PROFILE=one.json "$script" >/dev/null || code=$?
  [ $code != 0 ] && grep -q 'is too short' one.log || break
done
[ $code = 0 ] || { cat one.log; fail "exit code $code"; }
jq -e '.ranks == 4 and (.nodes | length) == 2 and .backend == "mpi" and ([.communication[] | .group] | unique) == ["data"] and ([.communication[].sizes[].wrong] | add) == 0 and (.local | length) > 15' one.json >/dev/null ||
  fail "one.json: $(head -c 1000 one.json)"
[ -s one.svg ] || fail "no drawing"
grep -q 'all_gather f32 on data: 1 group of 4 ranks' one.log || { cat one.log; fail "no table in the log"; }

# A baseline that this cluster cannot reach: exit 5, and the dependent job never starts.
jq '(.communication[].sizes[] | .time_us, .repeats_us[]) /= 20' one.json >better.json
for BUDGET in "$BUDGET" 120s 400s; do
  first=$(sbatch --parsable --output two.log --export=ALL,PROFILE=two.json,BASELINE=better.json "$script")
  second=$(sbatch --parsable --dependency=afterok:"$first" --kill-on-invalid-dep=yes --output never.log --wrap 'echo started')
  for _ in $(seq 1 500); do squeue -h -j "$first,$second" 2>/dev/null | grep -q . || break; sleep 1; done
  grep -q 'is too short' two.log || break
done
grep -q '^slower   data' two.log || { cat two.log; fail "nothing is slower than twenty times as fast"; }
[ ! -e never.log ] || fail "the job that depends on it was started"
passed
