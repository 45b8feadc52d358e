#!/bin/bash
# Renamed settings: the old spelling works on the command line, in files and in the environment, and is mentioned once.
# Files keep the first names.
# usage: old_spellings.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu

old=(--tensor 1 --pipeline 1 --expert-node 1 --expert-chunks 1 --expert-buffer 0 --fold 2 --layer-slots 3 --schedule constant --recompute layers)
new=(tensor-parallel pipeline-parallel expert-ranks-per-node expert-overlap-chunks expert-capacity-buffer local-accumulation gathered-layers lr-schedule)
expect 0 train "${old[@]}" --print-config
cp out printed
for name in "${new[@]}"; do said "^$name = .*# flag"; done
said '^local-accumulation = 2 '; said '^gathered-layers = 3 '; said '^lr-schedule = "constant" '; said '^recompute = "full" '
once '^train: --fold is --local-accumulation now; the old spelling works, too$'
once '^train: --schedule is --lr-schedule now; the old spelling works, too$'
[ "$(grep -c 'the old spelling works' err)" = 8 ] || fail "$(grep -c 'the old spelling works' err) old spellings are said"
expect 0 train --tp 1 --pp 1 --ep 1 --lr 0.5 --print-config
said '^tensor-parallel = 1 .*# flag'; said '^learning-rate = 0.5 '; unsaid 'old spelling'
for program in train partition-model reshard-checkpoint; do
  expect 0 $program --help
  said '  --tensor-parallel, --tp N'; unsaid '  --tensor N'; unsaid '--layer-slots'
done
refused 2 '--fold 2 and --local-accumulation 4 are one setting' train --fold 2 --local-accumulation 4 --data data --output run
expect 0 train --fold 2 --local-accumulation 2 --print-config

# Files and variables.
sed 's/^tensor-parallel/tensor/; s/^local-accumulation/fold/; s/^lr-schedule/schedule/; s/"full"/"layers"/' printed >old.toml
expect 0 train --config old.toml --print-config
said '^local-accumulation = 2 .*# old.toml'; said '^lr-schedule = "constant" .*# old.toml'; said '^recompute = "full" .*# old.toml'
printf '[layer]\nslots = 3\n' >table.toml
expect 0 train --config table.toml --print-config
said '^gathered-layers = 3 .*# table.toml'
expect 0 train --fold 2 --fold 4 --print-config
said '^train: --fold is given 2 times, and the last counts: 2, 4$'
expect 2 train --tensr 2
unsaid 'did you mean --tensor?'
printf 'fold = 2\nlocal-accumulation = 2\n' >both.toml
refused 3 "'fold' and 'local-accumulation' are one key, given twice" train --config both.toml --print-config
expect 0 env TRAINYARD_FOLD=4 train --print-config
said '^local-accumulation = 4 .*# environment'
expect 0 env TRAINYARD_LOCAL_ACCUMULATION=4 train --print-config
said '^local-accumulation = 4 .*# environment'
refused 2 'TRAINYARD_LOCAL_ACCUMULATION and TRAINYARD_FOLD are one setting, given twice' env TRAINYARD_FOLD=4 TRAINYARD_LOCAL_ACCUMULATION=4 train --print-config

# Plans keep their old keys.
expect 0 partition-model --model gpt2-nano --vocabulary 257 --ranks 2 --tensor-parallel 2 --local-accumulation 2 --recompute full --json
jq -e '.tensor == 2 and .fold == 2 and .recompute == "layers" and .layer_slots == 2 and has("tensor_parallel") == false' out >/dev/null || fail "the plan has other keys"
mv out plan.json
expect 0 partition-model --model gpt2-nano --vocabulary 257 --ranks 2 --tensor 2 --fold 2 --recompute layers --json
same out plan.json "plans by old and new spellings"

# Checkpoints keep theirs, too. --change accepts both names.
small_text 200 >text
expect 0 shard-data --input text --split paragraphs --output data
tiny_model 16 >tiny.toml
printf 'tensor = 2\n' >model.toml
expect 3 train --model model.toml --data data --output run
said 'how a model is trained is no part of it'
train=(train --model tiny.toml --data data --output run --global-batch 4 --threads 1 --progress never)
expect 0 "${train[@]}" --steps 2 --local-accumulation 2
jq -e '.identity.fold == 2 and .identity.schedule == "cosine"' run/checkpoints/step-*/manifest.json >/dev/null || fail "the identity has other keys"
expect 3 "${train[@]}" --steps 2 --local-accumulation 4
said '--local-accumulation: the checkpoint has 2, this run 4'
expect 0 "${train[@]}" --steps 4 --local-accumulation 4 --change local-accumulation,steps
expect 0 "${train[@]}" --steps 6 --fold 4 --lr-schedule linear --lr 2e-3 --change lr-schedule,lr,steps
expect 0 reshard-checkpoint run other --data-parallel 1 --tensor 1 --pipeline 1
expect 0 reshard-checkpoint --diff run other
passed
