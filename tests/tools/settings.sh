#!/bin/bash
# Settings in every form. A setting that is given is used. A likely mistake is refused with the name of what was
# probably meant. Printed output arrives, or the exit code is 4.
# usage: settings.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu

small_text 300 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
base=(train --model gpt2-nano --data data --output run --global-batch 4 --micro-batch 2 --steps 3 --threads 1)
plan=(partition-model --model gpt2-nano --vocabulary 257 --global-batch 8 --micro-batch 2 --sequence 32)

# A plan is used wherever it is named. Environment and flags take precedence over it. --print-config prints what is
# used.
expect 0 "${plan[@]}" --output plan.json
for how in "--plan plan.json" "--config c.toml" ""; do
  [ -n "$how" ] || export TRAINYARD_PLAN=plan.json
  printf 'plan = "plan.json"\n' >c.toml
  # shellcheck disable=SC2086
  expect 0 train $how --data data --output run --print-config
  said '^global-batch = 8 .*# plan'; said '^sequence = 32 .*# plan'; said '^device = "cpu" .*# environment'
  # shellcheck disable=SC2086
  expect 0 train $how --data data --output run --global-batch 4 --print-config
  said '^global-batch = 4 .*# flag'; said '^micro-batch = 2 .*# plan'
done
expect 0 env TRAINYARD_FOLD=4 train --print-config
said '^local-accumulation = 4 .*# environment'
expect 0 train --data data --output run --dry-run
said 'micro-batches of 2 x 32 tokens'
unset TRAINYARD_PLAN
"${base[@]}" --print-config >printed.toml && expect 0 train --config printed.toml --dry-run

# The memory that a plan states for a rank is a limit, which a flag overrides. The message names the limit and its file.
expect 0 "${plan[@]}" --device-memory 1GB --output limited.json
expect 0 train --plan limited.json --data data --output run --print-config
said '^memory-limit = "1000000000" .*# plan'
sed 's/"device_memory": .*/"device_memory": 50000000,/' limited.json >low.json
refused 3 'a rank needs .* but --memory-limit is 50.0 MB: .* too much' train --plan low.json --data data --output run --dry-run
said 'try: a higher --memory-limit.*: the reserve outside the arenas alone is .*, whatever the model'
said 'low.json sets --memory-limit, and flags override it'
printf 'memory-limit = "2GB"\n' >more.toml
expect 0 train --plan low.json --config more.toml --data data --output run --print-config
said '^memory-limit = "2GB" .*# more.toml'
expect 0 train --plan low.json --memory-limit 1GB --data data --output run --dry-run
sed 's/"device_memory": .*/"device_memory": 80,/' limited.json >unit.json
refused 3 'unit.json: device_memory 80 is less than 1000000 bytes' train --plan unit.json --data data --output run --dry-run
refused 3 'a rank needs .* but --device-memory is 50.0 MB' "${plan[@]}" --device-memory 50MB; said 'try: a higher --device-memory'
refused 2 '.*offload auto takes the least that fits, and nothing says what a rank has' "${plan[@]}" --offload auto; said 'try: --device-memory'
expect 0 partition-model --model gpt2 --ranks 1 --zero 1 --offload auto --device-memory 3GB --output chosen.json
said 'offload auto: optimizer=disk:0[.]85 on 1 rank: 2.98 GB a rank of the 3.00 GB that it may use (none would need 4.73 GB)'
jq -e '[.. | .offload? | strings] == ["optimizer=disk:0.85"] and ([.. | .total? | numbers] | all(. <= 3e9))' chosen.json >/dev/null || fail "chosen.json: $(grep -e offload -e total chosen.json)"
refused 2 'document-mask is not known' "${plan[@]}" --document-mask on; said 'plans do not depend on it'
refused 2 'memory-limit is not known' "${plan[@]}" --memory-limit 80GB; said 'here it is --device-memory'

# A word of any length is refused with a short message.
long=$(head -c 100000 /dev/zero | tr '\0' x)
for flags in "--recompute $long" "--model $long" "--$long" "$long" "--sequence $long" "--plan $long"; do
  # shellcheck disable=SC2086
  kept train --data data --output run $flags
  [ "$code" = 2 ] || [ "$code" = 3 ] || fail "exit code $code for a word of 100 kB"
  [ "$(wc -c <err)" -lt 4000 ] || fail "a message of $(wc -c <err) bytes"
done

# --plan auto decides what no setting gives, keeps what a setting gives, and refuses what fits nowhere.
auto=("${base[@]}" --plan auto --dry-run)
expect 0 "${auto[@]}"
said '^--plan auto: ZeRO 0 on 1 rank: .* a rank of the .* that it may use$'
said 'ZeRO 0, 1 thread a rank'
expect 0 mpirun --bind-to none -n 2 "${auto[@]}"
said '^--plan auto: ZeRO 0 on 2 ranks: '
expect 0 "${auto[@]}" --zero 2
said '^--plan auto: ZeRO 2 on 1 rank: '
expect 0 env TRAINYARD_ZERO=3 "${auto[@]}" --recompute full
said '^--plan auto: ZeRO 3, layers recomputed on 1 rank: '
expect 0 "${auto[@]}" --zero 2 --recompute selective
said '^--plan auto: ZeRO 2, norms and activations recomputed on 1 rank: '
said 'ZeRO 2, norms and activations recomputed, 1 thread a rank'
for program in train partition-model; do refused 2 '--recompute selectiv is not known' $program --recompute selectiv; said "did you mean 'selective'"; done
expect 0 env TRAINYARD_PLAN=auto "${base[@]}" --dry-run
said '^--plan auto: '
refused 3 'a rank needs' "${auto[@]}" --memory-limit 5MB
TRAINYARD_HOPPER=maybe refused 2 'TRAINYARD_HOPPER=maybe is neither on nor off' "${auto[@]}"
refused 2 'memory-limit 80 must lie between 1000000' "${auto[@]}" --memory-limit 80; said '80GB'
refused 2 'device-memory 80 must lie between 1000000' "${plan[@]}" --device-memory 80; said '80GB'
refused 2 'lr is not known' "${plan[@]}" --lr 1e-3; said 'plans do not depend on it'
expect 4 env SLURM_MEM_PER_NODE=3 "${auto[@]}"
said 'plan auto: .* needs the least memory, .* a rank, but a rank of this job may use only'
expect 0 env SLURM_MEM_PER_NODE=0 "${auto[@]}"
expect 2 "${auto[@]}" --global-batch 5
said 'not a multiple of --micro-batch'
expect 2 mpirun --bind-to none -n 3 "${auto[@]}"
said '3 .*ranks'
expect 3 "${auto[@]}" --plan ./auto
refused 2 'plan auto is for training' train --evaluate run --plan auto
expect 2 mpirun --bind-to none -n 1 "${base[@]}" --plan auto --dry-run : -n 1 "${base[@]}" --dry-run
said '--plan is'

# Tensor parallelism: a toggle may stand alone, also in the environment. A degree that is not possible is refused with
# one that is.
shared=(mpirun --bind-to none -n 2 "${base[@]}" --dry-run)
expect 0 "${shared[@]}" --tensor-parallel 2
said '^2 ranks in 1 replica of 2 tensor-parallel ranks (4 lanes), ZeRO 0'
expect 0 "${shared[@]}" --tensor-parallel 2 --sequence-parallel --lanes 2
said 'tensor-parallel ranks (2 lanes, sequence parallelism), ZeRO 0'
expect 0 "${shared[@]}" --sequence-parallel off --tensor-parallel 2
expect 0 env TRAINYARD_SEQUENCE_PARALLEL=on TRAINYARD_TENSOR=2 "${shared[@]}"
said ', sequence parallelism)'
expect 2 "${shared[@]}" --tensor-parallel 2 --sequence-parallel maybe
said '--sequence-parallel maybe is not known; use off, on'
expect 2 "${shared[@]}" --tensor-parallel 2 --sequence-parallel ""
said '--sequence-parallel is empty'
expect 2 "${shared[@]}" --tensor-parallel 2 --sequence-parallel --sequence 32
said 'whole blocks of 64 tokens: .*--micro-batch 2 of --sequence 32'; said 'try: --micro-batch 4'
expect 2 "${shared[@]}" --sequence-parallel
said 'and --tensor-parallel is 1'
expect 2 "${base[@]}" --dry-run --tensor-parallel 2
said '--tensor-parallel 2 does not divide 1 rank$'
expect 2 mpirun --bind-to none -n 8 "${base[@]}" --dry-run --tensor-parallel 8
said 'more than the model.s 4 key-value heads'; said 'try: --tensor-parallel 4'
expect 2 mpirun --bind-to none -n 1 "${base[@]}" --dry-run --tensor-parallel 2 : -n 1 "${base[@]}" --dry-run
said '--tensor-parallel is 1, on rank 0 2'
expect 0 "${plan[@]}" --ranks 4 --tensor-parallel 2 --sequence-parallel --micro-batch 4 --threads 1 --output shared.json
said '4 ranks in 2 replicas of 2 tensor-parallel ranks'
[ "$(jq -c '[.topology[].size, .tensor, .sequence_parallel, .model.lanes]' shared.json)" = '[2,2,2,true,4]' ] || fail "shared.json: $(cat shared.json)"
expect 0 inspect --verify shared.json; said 'in 2 replicas of 2'
expect 0 mpirun --bind-to none -n 4 train --plan shared.json --data data --output run --dry-run
said '^4 ranks in 2 replicas of 2 tensor-parallel ranks (4 lanes, sequence parallelism)'
expect 2 mpirun --bind-to none -n 2 train --plan shared.json --data data --output run --dry-run
said 'shared.json is for 4 ranks, this job has 2'
refused 2 '--tensor-parallel 3 does not divide 8 ranks' partition-model --model gpt2 --ranks 8 --tensor-parallel 3
said 'try: --tensor-parallel 2 or --tensor-parallel 4'
expect 2 train --tensor-model-parallel-size 2
said 'here it is --tensor-parallel'

# A degree from any source is refused if the ranks do not allow it. A flag or another plan corrects a plan's setting;
# only another plan corrects an error in the plan's file.
printf 'tensor = 3\n' >three.toml
expect 2 "${shared[@]}" --config three.toml; said '--tensor-parallel 3 does not divide 2 ranks; --tensor-parallel 3 does not divide kv-heads 4$'
expect 2 env TRAINYARD_TENSOR=2 "${base[@]}" --dry-run; said '--tensor-parallel 2 does not divide 1 rank$'
expect 2 "${plan[@]}" --ranks 4 --tensor-parallel 3 --reduction fast --local-accumulation 3; said '^partition-model: 3 things are wrong'
ways='shared.json sets --tensor-parallel, and flags override it; or make another plan with partition-model'
expect 2 mpirun --bind-to none -n 4 train --plan shared.json --data data --output run --lanes 1 --dry-run; said '--tensor-parallel 2 does not divide lanes 1$'
said "try: --tensor-parallel 1; --lanes 2 allows it, in another run; $ways"
expect 2 mpirun --bind-to none -n 4 train --plan shared.json --data data --output run --tensor-parallel 1 --global-batch 16 --dry-run; said 'splits tokens over tensor-parallel ranks, and --tensor-parallel is 1$'
said 'try: --sequence-parallel off, or --tensor-parallel 2 too; shared.json sets --sequence-parallel, and flags override it'
for program in train partition-model; do refused 2 '--tensor-parallel auto: it is not chosen automatically$' $program --tensor-parallel auto; said 'try: partition-model says'; done
printf 'layers = 1\nsequence_parallel = true\n' >trained.toml
refused 3 "unknown key 'sequence_parallel'" partition-model --model trained.toml; said 'try: how a model is trained is no part of it: --sequence-parallel is a setting of train and partition-model'
jq '.model.lanes = 1' shared.json >few.json
refused 3 'few.json: --tensor-parallel 2 does not divide lanes 1' train --plan few.json --data data --output run
said 'try: make another plan with partition-model: --tensor-parallel 1; --lanes 2'

# A start prints its parallel layout once, like a dry run. It also reports if it keeps lanes that differ from the
# plan's.
cut='2 ranks in 1 replica of 2 tensor-parallel ranks (4 lanes), ZeRO 1, layers recomputed, 1 thread a rank, f32: 2 micro-batches of 2 x 64 tokens a step, 2 accumulation steps$'
twice=(mpirun --bind-to none -n 2 "${base[@]}" --output told --tensor-parallel 2 --zero 1 --recompute full --progress never)
expect 0 "${twice[@]}" --dry-run; once "^$cut"
expect 75 "${twice[@]}" --stop-after 1; once "^train: $cut"
expect 0 "${plan[@]}" --global-batch 4 --sequence 64 --lanes 2 --threads 1 --output two.json
expect 0 "${base[@]}" --plan two.json --output told --dry-run
once "^train: resuming with the run's 4 lanes; two.json says 2 (to use its value: --lanes 2 --change model)$"
expect 0 train --plan two.json --data data --output told --steps 3 --dry-run; once "resuming with the run's 4 lanes; two.json says 2"
expect 0 "${base[@]}" --plan two.json --output told --lanes 4 --dry-run; unsaid 'resuming with the run'

# A run keeps its lanes. A refusal for other ranks says where the lanes come from, and how to change them.
expect 75 "${base[@]}" --output narrow --lanes 1 --stop-after 1 --progress never
expect 2 "${shared[@]}" --output narrow --tensor-parallel 2; said '--tensor-parallel 2 does not divide lanes 1, the lanes of narrow/checkpoints/step-00000001$'
said 'try: --tensor-parallel 1; --lanes 2 --change model goes on'
expect 2 "${base[@]}" --output narrow --change lanes --dry-run; said "try: 'lanes' belongs to the model: --change model"
expect 2 mpirun --bind-to none -n 2 train --evaluate narrow --tensor-parallel 2; said 'lanes 1, the lanes of narrow/'; unsaid 'change model'
expect 0 "${shared[@]}" --output narrow --tensor-parallel 2 --lanes 2 --change model; said 'would go on after step 1'

# A run means its newest whole checkpoint, for new weights and for a resume. For a folder without one, the message says
# what the folder is.
expect 0 "${base[@]}" --output tuned --init-from narrow --dry-run; said 'with the weights of narrow/checkpoints/step-00000001'
expect 0 train --data data --output tuned --init-from narrow --print-config; said '^init-from = "narrow"'
expect 0 "${base[@]}" --output onward --resume narrow --dry-run; said 'would go on after step 1 of 3, from narrow/checkpoints/step-00000001'
mkdir -p fresh/checkpoints
refused 3 '--resume fresh: that is the folder of a run which has no checkpoint' "${base[@]}" --output onward --resume fresh
refused 3 '--init-from data: that is neither a checkpoint nor a run, but a shard set' train --data data --output onward --init-from data

# An empty flag is refused, also with `=`. A flag with one value may be given once, except settings, which a script may
# append.
for program in shard-data train partition-model inspect generate profile-comm; do
  refused 2 '--json is empty' $program --json=
done
for flag in --sequence-parallel --steps --model --config; do refused 2 "$flag is empty" "${base[@]}" $flag=; done
refused 2 '--sequence-parallel is empty' "${base[@]}" --sequence-parallel= off
refused 2 '--tokens is given 2 times: 3, 4' generate --checkpoint run --tokens 3 --tokens 4; said 'try: leave all but one out'
refused 2 '--lanes is given 2 times' partition-model --lanes 1 --lanes 2
refused 2 '--config is given 2 times' train --config a --config b
expect 0 "${base[@]}" --local-accumulation 1 --local-accumulation 2 --print-config; said '^local-accumulation = 2 '; said '^train: --local-accumulation is given 2 times, and the last counts: 1, 2$'
expect 0 "${base[@]}" --local-accumulation 2 --local-accumulation 2 --print-config; unsaid given

# A number out of its range is refused with the range and what the number is.
expect 2 train --tensor-parallel 0; said 'try: from 1 to 4096: tensor-parallel ranks'
expect 2 train --tensor-parallel 99999999 --lanes -1; said '--tensor-parallel 99999999 must lie between 1 and 4096 (from 1'; said '--lanes -1 .*0: the model'
refused 2 '--lanes: -1 must lie between 0 and 4096' partition-model --lanes -1; said "try: --lanes: reduction lanes: .*0: the model's"

# A wrong content of a file is exit 3, whatever is wrong; the same on the command line is exit 2.
printf 'hidden = 30\nheads = 4\n' >odd.toml
printf 'layers = 0\n' >none.toml
printf 'zero = 7\nsteps = 0\n' >far.toml
refused 3 'odd.toml: hidden 30 is not a multiple of heads 4' "${base[@]}" --model odd.toml
refused 3 'odd.toml: hidden 30' partition-model --model odd.toml
refused 3 'none.toml: layers 0 must lie' partition-model --model none.toml
expect 3 "${base[@]}" --config far.toml; said 'far.toml: zero 7'; said 'far.toml: steps 0'
expect 2 "${base[@]}" --zero 7; expect 2 env TRAINYARD_ZERO=7 "${base[@]}"
rm -r none.toml narrow fresh

# Refusals of settings that cannot be used.
mkdir c
expect 3 "${base[@]}" --config c
expect 3 "${base[@]}" --config none.toml
expect 0 env TRAINYARD_ROOT=/apps/trainyard TRAINYARD_VERSION=0.1 "${base[@]}" --dry-run   # as module files set them
expect 2 env TRAINYARD_STEP=5 "${base[@]}" --dry-run
said 'TRAINYARD_STEP is set'; said 'did you mean TRAINYARD_STEPS'
expect 2 env TRAINYARD_CLIP=nan "${base[@]}" --dry-run
said 'TRAINYARD_CLIP nan'
expect 0 env TRAINYARD_ISA=baseline "${base[@]}" --dry-run
expect 2 "${base[@]}" --change nonsense --dry-run
said '--change nonsense'; said 'learning-rate'; said 'warmup-steps'
expect 2 "${base[@]}" --change learning-rat --dry-run
said "did you mean 'learning-rate'"
expect 0 "${base[@]}" --change learning-rate,model --dry-run
for flag in --steps --model --plan --memory-limit --output --resume; do
  expect 2 "${base[@]}" "$flag" "" --dry-run
  said "$flag is empty"
done
expect 2 shard-data --input text --output ""; said '--output is empty'
expect 2 partition-model --device-memory ""; said '--device-memory is empty'
expect 2 generate --checkpoint ""; said '--checkpoint is empty'
expect 2 inspect ""; said 'PATH is empty'
for bad in inf nan -1 1e30 4gigs 0; do expect 2 "${base[@]}" --memory-limit $bad --dry-run; said '--memory-limit'; done
expect 2 "${base[@]}" --final-learning-rate nan; said '--final-learning-rate nan'
expect 2 "${base[@]}" --lr-schedule wsd; said 'try: --decay-steps 1'
expect 2 "${base[@]}" --global-batch 4294967296; said 'micro-batches of a step'
expect 2 "${base[@]}" --micro-batch 16777216 --global-batch 16777216 --sequence 16777216; said '--sequence 16777216'
expect 2 partition-model --model gpt2 --sequence 1024 --micro-batch 16777216 --global-batch 4294967296 --device-memory 80GB --local-accumulation 256
[ ! -e run ] || fail "a refusal left a run folder"

# A plan for other tokens would train another model. A plan with problems that train would refuse is not made at all.
expect 0 partition-model --model gpt2-nano --sequence 32 --output large.json
expect 3 train --plan large.json --data data --output run
said '50257'; said '257'; said 'partition-model --vocabulary 257'
expect 0 partition-model --model gpt2-nano --vocabulary 384 --sequence 32 --threads 1 --output padded.json
expect 0 train --plan padded.json --data data --output run --dry-run
for flag in "--local-accumulation 3" "--gathered-layers 65" "--threads 5000"; do
  # shellcheck disable=SC2086
  expect 2 "${plan[@]}" $flag
  # shellcheck disable=SC2086
  expect 2 "${base[@]}" --global-batch 8 $flag --dry-run
done
# So an assumed vocabulary is reported, and a shard set gives its own.
expect 0 partition-model --model bert-nano --sequence 32; said 'a vocabulary of 30,522 is assumed, as in BERT'
expect 0 partition-model --model bert-nano --sequence 32 --vocabulary 257; said 'needs a mask token'
expect 0 partition-model --model gpt2-nano --sequence 32; said 'a vocabulary of 50,257 is assumed, as in GPT-2.*--data SET'
expect 0 partition-model --model llama-nano --sequence 32 --json; said 'a vocabulary of 128,256 is assumed'
expect 0 partition-model --model gpt2-nano --data data --sequence 32 --threads 1 --output fitting.json; said 'vocabulary 257$'
unsaid assumed
expect 0 train --plan fitting.json --data data --output run --dry-run
expect 2 partition-model --data data --vocabulary 257; said 'both given'
printf 'vocabulary = 100\n' >small.toml
expect 3 partition-model --data data --model small.toml; said 'has a vocabulary of 100, the shards in data have 257'
expect 3 partition-model --data c; said 'c/index.json'
printf '{"format": "trainyard.plan/1", "vocabulary": 5}' >c/index.json
expect 3 partition-model --data c; said 'expected that of a shard set'
rm c/index.json

# --verify verifies, or reports that it cannot: a plan is computed again.
expect 0 inspect --verify fitting.json; said 'verified: parameters, memory, traffic and FLOPs'
for change in '.predicted.parameters += 1' '.predicted.rank_bytes.optimizer -= 64' '.predicted.rank_bytes.reserve += 1' '.predicted.step_flops *= 2' '.predicted.step_traffic[0].operations[0].calls += 1'; do
  jq "$change" fitting.json >false.json
  expect 0 inspect false.json
  expect 5 inspect --verify false.json; said 'does not match its own settings'
done
printf '{"step": 1, "loss": 2.5}\n' >m.jsonl
mkdir -p bare && cp m.jsonl bare/metrics.jsonl
for what in "m.jsonl a metrics file" "small.toml the description of a model" "bare a run without checkpoints" "bare/metrics.jsonl a metrics file"; do
  expect 2 inspect --verify "${what%% *}"; said "is ${what#* }, which has no checksums"
done

# Names in files are shown and not obeyed, and stay on their line.
printf 'name = "a\\nb\\u001b[31mc"\n' >hostile.toml
for show in "partition-model --model" "train --data data --output run --sequence 32 --dry-run --model" "inspect"; do
  # shellcheck disable=SC2086
  expect 0 $show hostile.toml
  said 'a\\nb\\x1b\[31mc'
  unsaid $'\x1b'
done

# More threads than cores are allowed, with a warning.
expect 0 "${base[@]}" --dry-run --threads 500
said 'warning: --threads 500 is more than the [0-9]* cores\? that a rank may use here'
expect 0 taskset -c "$(taskset -pc $$ | sed 's/.*[ ,-]//')" "${base[@]}" --dry-run --threads 2; said 'more than the 1 core '
expect 0 "${base[@]}" --dry-run
unsaid warning
jq -e '.model | .kv_heads == 4 and .biases == true and .norm_epsilon == 1e-5' plan.json >/dev/null || fail "the model of a plan is not of numbers: $(jq -c .model plan.json)"
jq '.model |= with_entries(.key |= gsub("_"; "-") | .value |= (if . == true then "on" elif . == false then "off" else tostring | gsub("_"; "-") end))' plan.json >old.json
expect 0 train --plan old.json --data data --output run --dry-run
jq '.fold = 3' plan.json >damaged.json
expect 3 train --plan damaged.json --data data --output run
said 'damaged.json'; said '--local-accumulation 3'

# Words of other trainers get a hint.
hint() { local words=$1 code=2; shift; [ "$1" != 3 ] || { code=3; shift; }; expect $code "$@"; said "$words"; }
hint 'here it is --learning-rate' train --max-lr 0.1
hint 'here it is --learning-rate' train --max-lr=0.1
hint 'here it is --micro-batch' train --batch-size 4
hint 'here it is --micro-batch' train --per_device_train_batch_size 4
hint 'accumulates' train --gradient-accumulation-steps 4
hint 'here it is --steps' train --epochs 3
hint 'here it is --zero' train --zero-stage 2
hint 'mpirun -n' train --nproc-per-node 4
hint 'here it is --dtype' train --bf16
hint 'did you mean --global-batch' train --global_batc 8
hint 'did you mean --model' train --modle gpt2
hint 'did you mean --zero' partition-model --zreo 1
hint "did you mean 'bf16'" train --dtype bfloat --data data --output run
hint "did you mean 'ordered'" partition-model --reduction ordred
hint "did you mean 'gpt2-nano'" train --model gpt2-nanno --data data --output run
hint 'here it is --tokens' generate --max-new-tokens 5
hint '--file is not known: here it is --input' shard-data --file text
hint 'did you mean --verify' inspect --verfy run
hint 'did you mean --backend' profile-comm --bakend mpi

printf 'max_lr = 0.1\nbatch_size = 4\n' >theirs.toml
hint "'max_lr' (here it is learning-rate)" 3 train --config theirs.toml
said "'batch_size' (here it is micro-batch"
printf 'n_layer = 3\n' >theirs.toml
hint 'here it is layers' 3 train --model theirs.toml --data data --output run
hint 'here it is --vocabulary' partition-model --vocab-size 5

# --help lists the presets and the keys of a model file, and its example works.
train --help | grep -q 'Presets for --model: gpt2 llama' || fail "train --help names no presets"
train --help-model | tr '\n' ' ' | grep -q 'gpt2-nano.*llama-8b.*qwen3-0.6b' || fail "train --help-model does not list the presets"
train --help-model >help || fail "train --help-model: exit code $?"
sed -n '/^hidden = /,$p' help >example.toml
[ "$(wc -l <example.toml)" -ge 5 ] || fail "no example in --help-model"
expect 0 train --model example.toml --data data --output run --sequence 32 --dry-run
expect 0 partition-model --model example.toml --vocabulary 257

# A full disk behind stdout is exit 4, whatever is printed.
"${base[@]}" --progress never >/dev/null 2>err || fail "exit $? of a small run: $(cat err)"
"${plan[@]}" --output plan2.json
full() { local code=0; timeout 60 "$@" >/dev/full 2>err </dev/null || code=$?; [ $code = 4 ] || fail "exit $code, expected 4, with a full stdout: $* ($(cat err))"; }
for program in shard-data partition-model train inspect generate score profile-comm reshard-checkpoint convert-checkpoint; do full "$program" --help; full "$program" --version; done
full train --help-model
full "${base[@]}" --print-config
full "${base[@]}" --dry-run
full "${base[@]}" --output run2 --progress never
full shard-data --input text --output data2
full shard-data --input text --output data3 --json
full "${plan[@]}"
full "${plan[@]}" --json
full inspect run
full generate --checkpoint run --tokens 3
full profile-comm --dry-run
expect 0 "${base[@]}" --output run2 --progress never   # the run whose path could not be printed did its work
said 'all 3 steps are done already'

passed
