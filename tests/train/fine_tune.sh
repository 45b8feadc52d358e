#!/bin/bash
# Runs that begin with other weights: they go back and go on without naming their model again, and what would train
# something else than was meant is refused or said.
# usage: fine_tune.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export OMP_NUM_THREADS=1

small_text 200 >text
shard-data --input text --split paragraphs --output data --validation 0.2 >/dev/null 2>&1 || fail "no shards"
printf 'layers = 2\nhidden = 16\nheads = 4\nkv-heads = 2\nffn = 24\ncontext = 16\nnorm = "rms"\npositions = "rotary"\nactivation = "swiglu"\nbiases = "off"\ntied = "off"\n' >llama.toml
train=(train --data data --global-batch 4 --sequence 16 --threads 1 --progress never)
expect 0 "${train[@]}" --model llama.toml --output base --steps 2
adapters=(--adapter lora:8 --adapter-on q,up --adapter-alpha 16)

# A run goes back to a checkpoint of its own: its model is in there.
for kind in all adapted; do
  settings=(); [ $kind = all ] || settings=("${adapters[@]}")
  expect 0 "${train[@]}" --init-from base --output $kind "${settings[@]}" --steps 4 --save-every 2
  cp -r $kind again-$kind
  expect 0 "${train[@]}" --output again-$kind "${settings[@]}" --steps 4 --save-every 2 --resume again-$kind/checkpoints/step-00000002
  said "resuming from again-$kind/checkpoints/step-00000002"
  expect 0 reshard-checkpoint --diff $kind again-$kind
  refused 2 'init-from starts a new run, and --resume PATH continues one' "${train[@]}" --init-from base --output new --steps 4 --resume $kind
done
# Without either of them train would take its usual model.
refused 3 'holds a model of another shape' "${train[@]}" --output all --steps 4
said 'give what the run began with, --model or --init-from'
refused 3 'holds a model of another shape' "${train[@]}" --init-from base --output adapted --adapter lora:16 --adapter-on q,up --adapter-alpha 16 --steps 6
said 'model.adapter_rank: the checkpoint has 8, this run 16'; said 'give --adapter and --adapter-on as the run began'

# Weights with and without adapters have no mean, and an adapter that is not finite is not imported.
refused 3 'has adapters and base/.* has none: they cannot be averaged' reshard-checkpoint --average base adapted mean
said 'reshard-checkpoint --merge'
expect 0 convert-checkpoint adapted adapter --to peft
expect 0 convert-checkpoint adapter joined --from peft --base base
truncate -s -4 adapter/adapter_model.safetensors && printf '\0\0\300\177' >>adapter/adapter_model.safetensors   # NaN
refused 3 'has numbers that are not finite' convert-checkpoint adapter broken --from peft --base base
absent mean broken

# Other adapters than those of the weights.
refused 2 'has adapters of rank 8 on q, up, and --adapter and --adapter-on say rank 16 on q, up' "${train[@]}" --init-from adapted --output new --adapter lora:16 --steps 1
said 'reshard-checkpoint --merge'
refused 2 'say rank 8 on q' "${train[@]}" --init-from adapted --output new --adapter-on q --steps 1
expect 0 "${train[@]}" --init-from adapted --output further --steps 1
unsaid 'random weights'
expect 0 "${train[@]}" --model llama.toml --output from-nothing "${adapters[@]}" --steps 1
said 'warning: adapters stand beside random weights, because no --init-from names others'

# A model that lacks some of the weights.
sed 's/layers = 2/layers = 1/' llama.toml >short.toml
refused 3 "has layers.01.*, and this run's model has no such tensor: 9 of its weights would be left out" "${train[@]}" --init-from base --model short.toml --output new --steps 1

# A folder that is a checkpoint is no folder of a run, because programs would take the checkpoint.
expect 0 reshard-checkpoint base whole --consolidate
for more in '' --dry-run; do
  # shellcheck disable=SC2086
  refused 2 'output whole is a checkpoint, and a run needs a folder of its own' "${train[@]}" --init-from whole --output whole --steps 1 $more
done
absent new whole/checkpoints whole/metrics.jsonl

# Groups: a later one trains again what an earlier one freezes.
expect 0 "${train[@]}" --init-from base --output head --steps 2 --group '*:frozen' --group 'head.*:trained'
printf '[[group]]\nmatch = "*"\nfrozen = true\n[[group]]\nmatch = "head.*"\nfrozen = false\n' >groups.toml
expect 0 "${train[@]}" --init-from base --output head-file --steps 2 --config groups.toml
expect 0 reshard-checkpoint --diff head head-file
code=0; reshard-checkpoint --diff base head >out 2>err || code=$?
[ $code = 5 ] && [ "$(grep -o '^/model/[a-z]*' out | sort -u)" = /model/head ] || fail "what a later group trains: exit code $code, $(cat out err)"
passed
