#!/bin/bash
# Commands, files and folders of other trainers, and of hurried users: each mistake gets a hint that works here.
# usage: other_trainers.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu

small_text 300 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
run=(train --model gpt2-nano --data data --threads 1 --progress never)
expect 0 "${run[@]}" --output run --steps 2

# Underscores are hyphens in the names of flags, also in former names, and not in values.
expect 0 train --learning_rate 0.5 --global_batch=4 --sequence_parallel --layer_slots 3 --print-config
said '^learning-rate = 0.5 .*# flag'; said '^global-batch = 4 '; said '^sequence-parallel = "on"'; said '^gathered-layers = 3 '
said '^train: --layer-slots is --gathered-layers now'
refused 2 '--steps is empty' train --steps= --print_config
refused 2 '--global-batch x is not a\|--global-batch .x. is not a' train --global_batch x --print-config
expect 0 partition-model --model gpt2-nano --micro_batch 2 --json
jq -e '.micro_batch == 2' out >/dev/null || fail "--micro_batch of partition-model: $(cat out)"
expect 0 shard-data --input text --split paragraphs --output other_set --shard_tokens 100000
[ -d other_set ] || fail "the underscore of a value was changed"
generate --checkpoint run --prompt --no_bos --tokens 1 --top_k 1 >out 2>err
grep -q '^--no_bos' out || fail "a value that looks like a flag was changed: $(cat out err)"
expect 75 "${run[@]}" --output stopped --steps 4 --stop_after 1
said 'to go on: .*train '; unsaid 'stop.after'

# All flags of a command that are not known are named at once.
refused 2 '4 flags are not known: --output_dir, --do_train, --bf16, --xyz' train --output_dir o --do_train --bf16 True --xyz -3 --learning_rate 3e-5
said 'try: --output_dir: here it is --output$'; said '^  *--do_train: train always trains'; said '^  *--bf16: here it is --dtype'
refused 2 '--lora_rank is not known' train --lora_rank 8; said '--adapter lora:16'
refused 2 '--deepspeed_config is not known' train --deepspeed_config ds.json; said 'train --config FILE'
refused 2 '--tokenizer is not known' train --tokenizer t; said 'shard-data --tokenizer'
refused 2 '--optimizer.lr is not known' train --optimizer.lr 1; said 'here it is --learning-rate'

# DeepSpeed's file: its flags work.
printf '{"zero_optimization": {"stage": 2}, "train_batch_size": 32, "bf16": {"enabled": true}}\n' >ds.json
refused 3 "ds.json looks like DeepSpeed's JSON, and TOML is read" train --config ds.json
for program in "train --data data --output run" partition-model; do
  # shellcheck disable=SC2086
  refused 3 "ds.json looks like DeepSpeed's JSON, and TOML is read" $program --model ds.json
  unsaid '--config reads'
done
flags=$(sed -n 's/^  try: the same with flags: train \([^;]*\).*/\1/p' err)
[ "$flags" = '--global-batch 32 --zero 2 --dtype bf16' ] || fail "flags for ds.json: $flags"
# shellcheck disable=SC2086
expect 0 train $flags --print-config
said '^zero = 2 '; said '^global-batch = 32 '; said '^dtype = "bf16"'
echo '{"a": 1}' >x.json
refused 3 "x.json begins with '{' like JSON, and TOML is read" train --config x.json
expect 0 partition-model --model gpt2-nano --output plan.json
refused 3 'plan.json is a plan' train --config plan.json; said 'try: train --plan plan.json'

# Folders of Hugging Face, and of ours, where something else is wanted.
mkdir hf pickled
echo '{"model_type": "gpt2"}' | tee hf/config.json >pickled/config.json
: >hf/model.safetensors
: >pickled/pytorch_model.bin
for words in '--model hf' '--init-from hf' '--resume hf' '--model hf/config.json'; do
  # shellcheck disable=SC2086
  refused 3 'hf' train --data data --output new $words; said 'try: .*convert-checkpoint hf NEW --from safetensors .* train --init-from NEW'
done
for command in 'train --data data --output new --model' 'train --data data --output new --init-from' 'generate --checkpoint' 'convert-checkpoint --from safetensors new'; do
  [ "${command##* }" != new ] || command='convert-checkpoint --from safetensors'
  # shellcheck disable=SC2086
  refused 3 'pickled' $command pickled $([ "${command%% *}" != convert-checkpoint ] || echo new)
  said "try: .*convert-checkpoint reads safetensors.*M.from_pretrained('pickled'"
done
refused 3 'pytorch_model.bin' convert-checkpoint pickled/pytorch_model.bin new --from safetensors; said "M.from_pretrained('pickled'"
refused 3 'run is a folder, and a model is a preset or a TOML file' "${run[@]}" --model run --output new; said 'try: train --init-from run '
refused 3 'hf/config.json describes a model of Hugging Face' inspect hf/config.json; said 'convert-checkpoint hf NEW'
absent new

# A word without its flag.
refused 2 '--checkpoint is required' generate run; said 'try: generate --checkpoint run (generate --help)$'
refused 2 '--checkpoint is required' generate --tokens 3 'my run'; said "try: generate --checkpoint 'my run' \.\.\. "
refused 2 '--checkpoint is required' generate; said 'try: generate --checkpoint DIR '
refused 2 '--input is required' shard-data text; said 'try: shard-data --input text (shard-data --help)$'
refused 2 '--input is required' shard-data text more --output set; said 'try: shard-data --input text more \.\.\. '
refused 2 'DST is required' convert-checkpoint hf; said 'try: convert-checkpoint hf DST '
refused 2 "'run' was not expected" train run; said 'each value stands behind its flag'
refused 2 "'run.toml' was not expected" train run.toml; said 'try: settings of a file: --config run.toml '
refused 2 "'true' was not expected" train --dry-run true; said 'try: --dry-run takes no value '

# Files of a shard set where the set is wanted.
cp data/train/shard-00000.h5 data/train/shard-00001.h5
refused 2 "'data/train/shard-00001.h5' was not expected" "${run[@]}" --output new --data data/train/shard-*.h5
said 'try: --data takes one value, and 2 follow it: has the shell replaced a pattern by names? --data: folder of shard-data'
rm data/train/shard-00001.h5
refused 3 'shard-00000.h5 is a file, not the folder of a shard set' "${run[@]}" --output new --data data/train/shard-00000.h5
said 'try: give the folder of the set, not its files: data$'
refused 3 '. holds no token shards' "${run[@]}" --output new --data .; said 'is a shard set; or make one'
for part in data/train data/train/; do
  expect 0 "${run[@]/#data/$part}" --output new --dry-run
  once "warning: $part is a part of the shard set data: .*; --data data has all"
done
expect 0 "${run[@]}" --output new --dry-run; unsaid 'is a part of'

# A plan of the model of a checkpoint, or of a run, is what training from it follows.
expect 0 partition-model --model run --sequence 64 --global-batch 8 --output of-run.json
expect 0 train --plan of-run.json --init-from run --data data --output from-plan --steps 1 --progress never --threads 1
expect 0 partition-model --model "$(ls -d run/checkpoints/step-*)" --json; jq -e '.model.hidden == 32 and .model.vocabulary == 257' out >/dev/null || fail "the model of a checkpoint: $(cat out)"
mkdir -p none/checkpoints damaged foreign
refused 3 'none holds no checkpoint' partition-model --model none
head -c 300 run/checkpoints/step-*/manifest.json >damaged/manifest.json
refused 3 'damaged/manifest.json' partition-model --model damaged
jq '.format = "else/1"' run/checkpoints/step-*/manifest.json >foreign/manifest.json
refused 3 'format is "else/1", expected that of a checkpoint' partition-model --model foreign
jq '.model.hidden = "many"' run/checkpoints/step-*/manifest.json >foreign/manifest.json
refused 3 "foreign/manifest.json: model: hidden 'many' is not a whole number" partition-model --model foreign
jq 'del(.model.hidden)' run/checkpoints/step-*/manifest.json >foreign/manifest.json
refused 3 'foreign/manifest.json: model' partition-model --model foreign; said 'inspect --verify foreign'
jq '.model.later_key = 1' run/checkpoints/step-*/manifest.json >foreign/manifest.json
expect 0 partition-model --model foreign --json   # a key that a later program may have added

# What inspect reads.
refused 3 'run/report.txt is a report for readers' inspect run/report.txt; said 'try: cat run/report.txt; inspect run '
refused 3 'llama-nano does not exist' inspect llama-nano; said 'try: it is the name of a preset: partition-model --model llama-nano '

# Keys of a model's file.
model() { printf '%b' "$1" >m.toml; refused 3 "m.toml: $2" partition-model --model m.toml; said "try: $3"; }
model 'num_experts = 8\n' "unknown key 'num_experts'" 'here it is experts-count: that is count in the table \[experts\]$'
model 'experts = 8\n' "unknown key 'experts'" 'here it is experts-count'
model '[experts]\nnum = 8\n' "unknown key 'experts-num'" 'here it is experts-count'
model 'learning-rate = 0.1\n' "unknown key 'learning-rate'" 'how a model is trained is no part of it: --learning-rate is a setting of train; '
model 'batch_size = 4\n' "unknown key 'batch_size'" 'how a model is trained is no part of it: --micro-batch is a setting of train and partition-model; '
model '[model]\nlayers = 1\n' 'there is no table \[model\]' 'its keys need none: leave the line \[model\] out$'
printf '[train]\nsteps = 1\n' >run.toml
refused 3 'run.toml: there is no table \[train\]' train --config run.toml
passed
