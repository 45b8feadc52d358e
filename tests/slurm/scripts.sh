#!/bin/bash
# What train.sbatch, shard.sbatch, reshard.sbatch and profile.sbatch ask of srun, without a cluster. Tensor-parallel ranks are
# neighbours, and each node has a multiple of --tensor-parallel. The total is a multiple of --tensor-parallel times
# --pipeline-parallel, wherever these are set. A budget that is too short is raised, if nobody set it and the job has
# the time.
# usage: scripts.sh BIN_FOLDER SCRIPTS_FOLDER
bin=$(realpath "$1") scripts=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
mkdir fake
cat >fake/srun <<'end'
#!/bin/bash
echo "$*" >>asked
[ -z "${MAKE_SET:-}" ] || { mkdir -p "$MAKE_SET" && echo '{}' >"$MAKE_SET/index.json"; }
[[ $* == *profile-comm* ]] || exit "${FAKE_CODE:-0}"
echo 'a table'
[[ " $* " != *" --budget $(cat enough) "* ]] || exit 0
cat refusal >&2
exit 2
end
printf '#!/bin/bash\ncat ends\n' >fake/squeue
chmod +x fake/*
export PATH=$folder/fake:$bin:$PATH SLURM_JOB_ID=1 SLURM_CPUS_ON_NODE=8

# asked WORDS...: the one call of srun contains each of the words.
asked() {
  [ "$(wc -l <asked)" = 1 ] || fail "srun was asked $(wc -l <asked) times"
  local word
  for word; do [[ " $(cat asked) " == *" $word "* ]] || fail "srun was not asked for $word: $(cat asked)"; done
}
trains() { rm -f asked; expect 0 env "$@" bash "$scripts/train.sbatch"; }

trains SLURM_JOB_NUM_NODES=3
asked --nodes=3 --ntasks-per-node=2 --cpus-per-task=4 --distribution=block
trains SLURM_JOB_NUM_NODES=2 TRAIN="--tensor-parallel 4"
asked --nodes=2 --ntasks-per-node=4 --cpus-per-task=2 '--tensor-parallel 4'
unsaid multiple
trains SLURM_JOB_NUM_NODES=2 CUT="--tensor-parallel 2"
asked --nodes=2 --ntasks-per-node=2
echo 'tensor = 4' >run.toml
trains CONFIG=run.toml
asked --nodes=1 --ntasks-per-node=4
trains TRAINYARD_TENSOR=4
asked --ntasks-per-node=4
trains SLURM_JOB_NUM_NODES=3 RANKS_PER_NODE=8 TRAIN="--tensor-parallel 4"
asked --nodes=3 --ntasks-per-node=8
unsaid multiple
trains SLURM_JOB_NUM_NODES=3 RANKS_PER_NODE=6 TRAIN="--tensor-parallel 4"
asked --nodes=2 --ntasks-per-node=6
said 'RANKS_PER_NODE 6 is no multiple of --tensor-parallel 4: .* 2 of 3 nodes'
unsaid 'not known'
# What train refuses is not started. A program that cannot say its settings here may still run there.
rm -f asked
expect 2 env TRAIN="--tensor-parallel many" bash "$scripts/train.sbatch"; said "'many'"
expect 3 env RANKS_PER_NODE=4 CONFIG=none.toml bash "$scripts/train.sbatch"; said 'none.toml'
mkdir programs
printf '#!/bin/bash\nexit "${FAKE_TRAIN:-0}"\n' >programs/train && chmod +x programs/train
expect 2 env BIN=programs FAKE_TRAIN=127 bash "$scripts/train.sbatch"; said 'there is no program train'
[ ! -e asked ] || fail "srun was asked: $(cat asked)"
trains RANKS_PER_NODE=4 BIN=programs FAKE_TRAIN=1
asked --ntasks-per-node=4
said 'not known here, because .* ended with 1: using 4 ranks a node'
# Pipeline stages are blocks of nodes.
trains SLURM_JOB_NUM_NODES=4 TRAIN="--pipeline-parallel 4"
asked --nodes=4 --ntasks-per-node=2 '--pipeline-parallel 4' --distribution=block
unsaid multiple
trains SLURM_JOB_NUM_NODES=3 TRAIN="--pipeline-parallel 4"
asked --nodes=2 --ntasks-per-node=2
said '3 nodes of 2 ranks are no multiple of --pipeline-parallel 4: 2 of 3 nodes'
trains SLURM_JOB_NUM_NODES=2 LAYOUT="--tensor-parallel 4 --pipeline-parallel 2"
asked --nodes=2 --ntasks-per-node=4
unsaid multiple
trains SLURM_JOB_NUM_NODES=3 RANKS_PER_NODE=6 TRAIN="--tensor-parallel 4 --pipeline-parallel 3"
asked --nodes=2 --ntasks-per-node=6
said 'shared between nodes, .* 2 of 3 nodes'
rm asked
expect 2 env SLURM_JOB_NUM_NODES=1 TRAIN="--pipeline-parallel 3" bash "$scripts/train.sbatch"
said 'no number of ranks on 1 node is a multiple of --pipeline-parallel 3: use RANKS_PER_NODE=3$'
absent asked
# Some of the nodes are enough if their ranks fit.
expect 2 env SLURM_JOB_NUM_NODES=3 RANKS_PER_NODE=2 TRAIN="--pipeline-parallel 4 --tensor-parallel 4" bash "$scripts/train.sbatch"
said 'no number of ranks on 3 nodes is a multiple of --tensor-parallel 4 times --pipeline-parallel 4: use RANKS_PER_NODE=8 on 2 of them'
absent asked
expect 2 env SLURM_JOB_NUM_NODES=3 RANKS_PER_NODE=1 TRAIN="--pipeline-parallel 4 --tensor-parallel 2" bash "$scripts/train.sbatch"
said 'RANKS_PER_NODE=4 on 2 of them'
absent asked
expect 2 env SLURM_JOB_NUM_NODES=1 RANKS_PER_NODE=6 TRAIN="--tensor-parallel 4" bash "$scripts/train.sbatch"
said 'RANKS_PER_NODE=8'
absent asked

# The result lies beside the run, whichever of its checkpoints is given.
reshards() { rm -f asked; expect 0 env "$@" bash "$scripts/reshard.sbatch"; }
reshards
asked 'reshard-checkpoint run run-resharded --consolidate --threads'
reshards RUN=run/
asked 'reshard-checkpoint run/ run-resharded'
mkdir -p run/checkpoints/step-00000005
for path in run/checkpoints/step-00000005 run/checkpoints/step-00000005/ "$PWD/run/checkpoints/step-00000005"; do
  reshards RUN="$path"
  asked "reshard-checkpoint $path $(realpath -s .)/run-resharded"
done
in_run=$(realpath -s .)/run-resharded
(cd run && BIN='' RUN=checkpoints/step-00000005 bash "$scripts/reshard.sbatch") || fail "it fails in the run's folder"
grep -q -- "reshard-checkpoint checkpoints/step-00000005 $in_run " run/asked || fail "not beside the run: $(cat run/asked)"
reshards RUN=run/checkpoints/step-00000005 DST=there TO="--tensor-parallel 2"
asked 'reshard-checkpoint run/checkpoints/step-00000005 there --tensor-parallel 2'
mkdir there
reshards RUN=kept/step-00000005 DST=there
asked 'reshard-checkpoint kept/step-00000005 there --consolidate --force'
reshards RUN=kept/step-00000005
asked 'reshard-checkpoint kept/step-00000005 kept/step-00000005-resharded'

# The message is profile-comm's own.
profile-comm --backend threads --ranks 2 --max-bytes 8 --budget 0.0001s >/dev/null 2>refusal && fail "a tenth of a millisecond is enough for profile-comm"
grep -q 'is too short' refusal || fail "another refusal: $(cat refusal)"
sed -n 's/.*--budget \([0-9]*s\),.*/\1/p' refusal >enough
[ -s enough ] || fail "the refusal names no budget: $(cat refusal)"
echo N/A >ends
rm -f asked
expect 0 bash "$scripts/profile.sbatch"
[ "$(grep -o -- '--budget [^ ]*' asked)" = "--budget 120s"$'\n'"--budget $(cat enough)" ] || fail "other budgets: $(cat asked)"
said 'once more'; said 'is too short'; said 'a table'
date -d '+1 day' +%FT%T >ends
rm asked
expect 0 bash "$scripts/profile.sbatch"
[ "$(wc -l <asked)" = 2 ] || fail "a day is not enough"
date -d '-1 minute' +%FT%T >ends
rm asked
expect 2 bash "$scripts/profile.sbatch"
asked '--budget 120s'
said 'PROFILE_OPTIONS=--time='
echo N/A >ends
rm asked
expect 2 env BUDGET=60s bash "$scripts/profile.sbatch"
asked '--budget 60s'
echo never >enough   # the script does not try for ever
rm asked
expect 2 bash "$scripts/profile.sbatch"
[ "$(wc -l <asked)" = 3 ] || fail "srun was asked $(wc -l <asked) times"
echo 'profile-comm: plan.json cannot be read' >refusal
rm asked
expect 2 bash "$scripts/profile.sbatch"
asked '--budget 120s'

# A set that is there is not taken for one from other inputs.
mkdir -p set && echo '{}' >set/index.json && rm -f asked
shard_task=(bash "$scripts/shard.sbatch")
shards=(env SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_COUNT=2 DATA=set)
echo text >a.txt && echo text >b.txt && echo a.txt >list
expect 0 "${shards[@]}" INPUT=a.txt "${shard_task[@]}"; said 'nothing says what it was made from'
rm -r set
expect 5 "${shards[@]}" INPUT=b.txt FAKE_CODE=5 "${shard_task[@]}"   # a refused task leaves no record
absent set.made-from
rm -f asked
expect 0 "${shards[@]}" INPUT=a.txt MAKE_SET=set "${shard_task[@]}"; asked 'shard-data --input a.txt --split paragraphs --output set --task 0/2'
rm -f asked
expect 0 "${shards[@]}" INPUT=a.txt "${shard_task[@]}"; said 'nothing to do'
expect 2 "${shards[@]}" INPUT=b.txt "${shard_task[@]}"; said 'made from something else'; said 'there: INPUT=a.txt'; said 'here:  INPUT=b.txt'
expect 2 "${shards[@]}" INPUT=a.txt SHARD='--tokenizer t.model' "${shard_task[@]}"; said 'made from something else'
expect 2 "${shards[@]}" INPUT=a.txt SPLIT=lines "${shard_task[@]}"; said 'made from something else'
expect 2 "${shards[@]}" INPUT=a.txt SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=1 "${shard_task[@]}"; said 'say how many there were: TASKS='
[ ! -e asked ] || fail "srun was asked: $(cat asked)"
rm -r set
expect 0 "${shards[@]}" INPUT=@list MAKE_SET=set "${shard_task[@]}"
rm -f asked
expect 0 "${shards[@]}" INPUT=@list "${shard_task[@]}"; said 'nothing to do'
echo b.txt >>list   # a list with another file, and a file with other content
expect 2 "${shards[@]}" INPUT=@list "${shard_task[@]}"; said 'here:  FILES='
[ ! -e asked ] || fail "srun was asked: $(cat asked)"
rm -r set set.made-from
# More ranks than micro-batches: some nodes are enough.
trains SLURM_JOB_NUM_NODES=4 RANKS_PER_NODE=2 LAYOUT="--global-batch 16 --micro-batch 4"
asked --nodes=2 --ntasks-per-node=2
said 'a step has 4 groups of micro-batches, for as many replicas: 2 of 4 nodes are used'
said 'train.sbatch: .* job 1, start 1, 2 x 2 ranks on this machine'
rm -f asked
expect 75 env FAKE_CODE=75 MAX_RESTARTS=2 SLURM_RESTART_COUNT=2 bash "$scripts/train.sbatch"; said 'MAX_RESTARTS (2) is reached'

# A run that stopped early queues again, but for one that has come to --stop-after: it would stop at once for ever.
printf '#!/bin/bash\necho "$*" >>asked; exit 1\n' >fake/scontrol
chmod +x fake/scontrol
requeued() { grep -q '^requeue 1$' asked || fail "not queued again: $(cat asked)"; }
mkdir -p run
for step in 4 5 6; do
  echo "{\"step\":$step,\"loss\":1.0}" >run/metrics.jsonl
  rm -f asked
  expect 75 env FAKE_CODE=75 TRAIN="--stop-after 5" bash "$scripts/train.sbatch"
  case $step in
    4) requeued; unsaid 'is reached' ;;
    *) said '^train.sbatch: --stop-after 5 is reached: the job is not queued again$'
       if grep -q requeue asked; then fail "queued again at step $step"; fi ;;
  esac
done
rm -f asked
expect 75 env FAKE_CODE=75 bash "$scripts/train.sbatch"
requeued

# What train would refuse in the fourth job is refused before the first is submitted.
printf '#!/bin/bash\necho "$*" >>submitted; echo 7\n' >fake/sbatch
chmod +x fake/sbatch
expect 2 env TRAIN='--warmup-step 3' bash "$scripts/pipeline.sh"; said 'train.sbatch would end with this'
expect 2 env TRAIN='--steps 10k' bash "$scripts/pipeline.sh" --test-only
absent submitted
expect 0 env TRAIN='--steps 10' bash "$scripts/pipeline.sh"
[ "$(wc -l <submitted)" = 6 ] || fail "not six jobs: $(cat submitted)"
passed
