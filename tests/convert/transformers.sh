#!/bin/bash
# What convert-checkpoint exports loads in transformers, strictly, and gives the logits and continuations of the
# imported model; in bf16 it has the weights that torch rounds. Nightly; needs torch and transformers.
# usage: transformers.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
source=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
time_limit=300
python=${TRAINYARD_PYTHON:-python3}
"$python" -c 'import torch, transformers' 2>/dev/null || skipped "$python has no torch and transformers (TRAINYARD_PYTHON says which python has)"
export HF_HUB_OFFLINE=1

for golden in "$source"/tests/golden/hugging_face/*/; do
  model=$(basename "$golden")
  expect 0 convert-checkpoint "$golden" in-$model --from safetensors
  expect 0 convert-checkpoint in-$model f32-$model --to safetensors --dtype f32
  expect 0 convert-checkpoint in-$model bf16-$model --to safetensors --dtype bf16 --max-shard 5kB
  expect 0 "$python" "$source/tests/golden/hugging_face_golden.py" --check f32-$model "$golden/expected.json" 1e-5
  expect 0 "$python" "$source/tests/golden/hugging_face_golden.py" --check-rounded bf16-$model "$golden"
done
passed
