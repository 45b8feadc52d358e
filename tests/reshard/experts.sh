#!/bin/bash
# Mixtures joined and experts kept, from the command line: a decoder and an encoder-decoder model, the way back into
# training, layouts, exit codes.
# usage: experts.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export OMP_NUM_THREADS=1

small_text 200 >text
{ tiny_model 16; printf 'experts-count = 4\n'; } | sed 's/layers = 1/layers = 2/' >moe.toml
shard-data --input text --split paragraphs --validation 0.2 --output data >/dev/null 2>&1 || fail "no shards"
trains() { expect 0 train --data data --global-batch 4 --sequence 16 --threads 1 --progress never "$@"; }
trains --model moe.toml --output one --steps 4
trains --model moe.toml --output two --steps 3 --seed 2
expect 0 reshard-checkpoint two dealt --data-parallel 2 --expert-parallel 2

# Joined: the layout of the last source, weights alone, and a run that begins with them.
expect 0 reshard-checkpoint --join-experts one dealt joined --json
jq -e '.output == "joined" and (.sources | length) == 2 and .ranks == 2 and .expert_parallel == 2 and .contents == "model" and .step == 3' out >/dev/null || fail "JSON: $(cat out)"
[ "$(inspect joined --json | jq -c .model.experts_count)" = "[8]" ] || fail "not 8 experts"
expect 0 inspect --verify joined
expect 0 reshard-checkpoint --join-experts one two whole --consolidate
expect 0 reshard-checkpoint --diff joined whole
expect 0 reshard-checkpoint --join-experts one two staged --pipeline-parallel 2 --dtype bf16
expect 0 reshard-checkpoint --join-experts one two one twenty --data-parallel 4 --expert-parallel 4
[ "$(inspect twenty --json | jq -c '.model.experts_count, .plan.expert_parallel' | xargs)" = "[12] 4" ] || fail "not three mixtures"
expect 0 generate --checkpoint joined --tokens 3 --threads 1
trains --init-from joined --output larger --steps 2
expect 0 reshard-checkpoint --average larger larger mean

# Kept: the file of an evaluation, by two ranks as by one, of one set or several, or a pipe.
expect 0 train --evaluate joined --data data --threads 1 --json --progress never
cp out use.json
[ "$(jq '.experts | length' use.json)" -ge 1 ] && [ "$(jq -c '.experts[0].choices | length' use.json)" = 8 ] || fail "no use: $(cat use.json)"
expect 0 mpirun -n 2 train --evaluate joined --data data --threads 1 --json --progress never
[ "$(jq -c .experts out)" = "$(jq -c .experts use.json)" ] || fail "two ranks count otherwise: $(cat out)"
expect 0 train --evaluate joined --data data --threads 1 --progress never
said '^experts  *loads from .* of an even share; .* % of the choices dropped'
expect 0 reshard-checkpoint --keep-experts 3 --expert-use use.json joined kept --consolidate
said 'the weights alone of step 3'
[ "$(inspect kept --json | jq -c .model.experts_count)" = "[3]" ] || fail "not 3 experts"
jq -c '.experts[] | [.choices | to_entries | sort_by(-.value, .key) | .[:3] | .[].key] | sort' use.json >wanted
jq -c '.provenance.experts_taken[] | map(.[1])' kept/manifest.json >taken
same taken wanted "the experts that were used most"
expect 0 reshard-checkpoint --keep-experts 3 --expert-use <(cat use.json use.json) joined again
expect 0 reshard-checkpoint --diff kept again
expect 0 train --evaluate kept --data data --threads 1 --progress never
trains --init-from kept --output smaller --steps 2

# Both towers of an encoder-decoder model.
for i in $(seq 60); do echo "the $i birds sing"; done >corpus.en
for i in $(seq 60); do echo "es singen $i Vögel"; done >corpus.de
shard-data --pairs corpus.en:corpus.de --validation 0.2 --output pairs >/dev/null 2>&1 || fail "no pairs"
printf 'hidden = 16\nheads = 2\ncontext = 48\n[encoder]\nlayers = 2\n[decoder]\nlayers = 2\n[experts]\ncount = 4\nevery = 2\n' >pair.toml
for seed in 1 2; do
  expect 0 train --model pair.toml --data pairs --output pair$seed --steps 2 --global-batch 4 --sequence 48 --source-sequence 48 --threads 1 --progress never --seed $seed
done
expect 0 reshard-checkpoint --join-experts pair1 pair2 pair-joined --data-parallel 2 --expert-parallel 2
expect 0 train --evaluate pair-joined --data pairs --threads 1 --json --progress never
cp out pair-use.json
[ "$(jq -c '[.experts[] | [.layer, (.choices | length)]]' pair-use.json)" = "[[1,8],[3,8]]" ] || fail "not both towers: $(cat pair-use.json)"
expect 0 reshard-checkpoint --keep-experts 2 --expert-use pair-use.json pair-joined pair-kept
jq -r '.parameters[].name' pair-kept/manifest.json >names
[ "$(grep -c 'coder.layers.01.experts.0[01].up.weight' names)" = 4 ] && ! grep -q 'experts.02' names || fail "names: $(cat names)"
expect 0 train --init-from pair-kept --data pairs --output pair-more --steps 1 --global-batch 4 --sequence 48 --source-sequence 48 --threads 1 --progress never

# Wrong usage, and other models.
refused 2 'keep-experts and --expert-use need each other' reshard-checkpoint --keep-experts 3 joined nope
refused 2 'keep-experts and --expert-use need each other' reshard-checkpoint --expert-use use.json joined nope
refused 2 'join-experts and --keep-experts do not go together' reshard-checkpoint --join-experts --keep-experts 3 --expert-use use.json one two nope
refused 2 'join-experts and --only do not' reshard-checkpoint --join-experts one two nope --only model
refused 2 '2 paths given' reshard-checkpoint --join-experts one nope
refused 2 '3 paths given' reshard-checkpoint --keep-experts 3 --expert-use use.json one two nope
refused 2 'keep-experts 9: a layer of joined has 8 experts' reshard-checkpoint --keep-experts 9 --expert-use use.json joined nope
refused 2 'expert-parallel 3 does not divide' reshard-checkpoint --join-experts one two nope --data-parallel 3 --expert-parallel 3
jq -c '.step = 9' use.json >later.json
refused 3 'use of experts at step 9, and joined is of step 3' reshard-checkpoint --keep-experts 3 --expert-use later.json joined nope
refused 3 'has choices of 8 experts of layer 0, which has 4' reshard-checkpoint --keep-experts 3 --expert-use use.json one nope
refused 3 'has choices of 8 experts of layer 0, which has 3' reshard-checkpoint --keep-experts 2 --expert-use use.json kept nope
refused 3 'absent.json' reshard-checkpoint --keep-experts 3 --expert-use absent.json joined nope
head -c 100 use.json >cut.json
refused 3 'cut.json: line 1' reshard-checkpoint --keep-experts 3 --expert-use cut.json joined nope
tiny_model 16 >tiny.toml
trains --model tiny.toml --output dense --steps 1
refused 2 'has no experts: its layers are dense' reshard-checkpoint --join-experts one dense nope
refused 3 'has layers "4" where .* has "2": experts of different models cannot be joined' reshard-checkpoint --join-experts one pair1 nope
printf x | dd of=dealt/rank-00001.h5 bs=1 seek=9000 conv=notrunc status=none
refused 3 'rank-00001.h5 is damaged' reshard-checkpoint --join-experts one dealt nope --consolidate
absent nope nope.partial
passed
