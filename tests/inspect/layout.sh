#!/bin/bash
# Attention layouts from files. Plans, runs and checkpoints contain such a layout and need the file no more. A damaged
# or unsuitable file is refused before a run. inspect --layout shows every layout.
# usage: layout.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
golden=$(realpath "$2")/tests/golden/layouts
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu LC_ALL=C COLUMNS=80

small_text 400 >text
expect 0 shard-data --input text --split paragraphs --output data
cp "$golden"/*.h5 .
model() { printf 'layers = 2\nhidden = 16\nheads = 4\nkv-heads = 4\nffn = 16\ncontext = %d\n[attention]\nlayout = "%s"\nfile = "%s"\n' "$@"; }
model 128 'sliding, file' heads.h5 >m.toml

# A file by itself, a model that names the file, and what inspect reports.
expect 0 inspect heads.h5
once '^attention of heads.h5, 128 tokens: 8 x 8 blocks of 16$'; once '^  56 blocks in 4 heads, 21.9 % of the square; rows of 1 to 3$'; once '^  not causal: 2 of them lie above the diagonal, which a causal model leaves out$'
once '^  0 ##............##$'; once '^  7 ............####$'
expect 0 inspect plain.h5 --layout; once '^  1 ####..$'; once '^  causal, block by block:'; unsaid 'key by key'
expect 0 inspect m.toml --layout --layer 1 --head 2
once '^2 of the 56 blocks of heads.h5 lie above the diagonal'; once '^  54 blocks in 4 heads, 37.5 % of the diagonal'; once '^  causal, key by key'; once '^  3 ##....##........$'
expect 0 inspect m.toml
once '^attention over 128 tokens: sliding in 1 layer: 21 of 36 blocks of 16 (58.3 %); file in 1 layer: 54 of 144 blocks of 16 in 4 heads (37.5 %); --layout draws it$'
once '^attention-file  *heads.h5'; once '^attention-block  *16'
expect 0 inspect m.toml --layout --json
jq -e '.kind == "layout" and .causal and (.layouts | map([.layout, .layers, .blocks, (.rows | length)]) == [["sliding", [0], 21, 1], ["file", [1], 54, 4]])' out >/dev/null || fail "JSON: $(head -c 300 out)"
expect 0 inspect m.toml --layout --svg squares.svg
[ "$(grep -c 'class="title"' squares.svg)" = 5 ] || fail "not a square for each layout and head that differs"
refused 2 'layout does not go with --csv' inspect m.toml --layout --csv
refused 2 'neither layers nor another sequence' inspect heads.h5 --layout --layer 0
refused 2 'head 4: there are 4 heads' inspect heads.h5 --layout --head 4
refused 2 'nothing about gpt.toml is drawn' bash -c 'echo "layers = 1" >gpt.toml; exec inspect gpt.toml --layout --svg none.svg'
absent none.svg

# Planned: the plan contains the layout.
expect 0 partition-model --model m.toml --vocabulary 257 --ranks 2 --output plan.json
once '^partition-model: warning: 2 of the 56 blocks of heads.h5 lie above the diagonal, and the model is causal: they are left out$'
once '^attention  *sliding in 1 layer: 21 of 36 blocks of 16 (58.3 %); file in 1 layer: 54 of 144 blocks of 16 in 4 heads (37.5 %)$'; once '^  *lists of [0-9.]* [kK]i\?B a rank$'
expect 0 inspect plan.json --verify
expect 0 inspect plan.json --layout --layer 1 --json
jq -e '.layouts[0].blocks == 54' out >/dev/null || fail "the plan has other blocks"
refused 2 'the layout of heads.h5 has 8 blocks of 16 a side, --sequence 64 has 4' partition-model --model m.toml --vocabulary 257 --sequence 64

# Trained, on one rank and on two, and from the plan without the file.
base=(train --data data --global-batch 4 --micro-batch 1 --threads 1 --progress never --steps 4)
expect 0 "${base[@]}" --model m.toml --output none --dry-run
once '^attention: sliding in 1 layer: 21 of 36 blocks of 16 (58.3 %); file in 1 layer: .* a rank$'; once 'warning: 2 of the 56 blocks'
expect 75 "${base[@]}" --model m.toml --output run --stop-after 2; once 'warning: 2 of the 56 blocks'
expect 75 mpirun -q --bind-to none -n 2 "${base[@]}" --model m.toml --output two --stop-after 2; once 'warning: 2 of the 56 blocks'
mkdir elsewhere && mv heads.h5 elsewhere
expect 75 mpirun -q --bind-to none -n 2 "${base[@]}" --plan plan.json --output planned --stop-after 2
for run in two planned; do [ "$(jq -c '[.step, .loss, .gradient_norm]' run/metrics.jsonl)" = "$(jq -c '[.step, .loss, .gradient_norm]' $run/metrics.jsonl)" ] || fail "$run has other losses"; done
expect 0 inspect run --layout --layer 1; once '^  54 blocks in 4 heads'
expect 0 train --evaluate run --evaluate-split train --evaluate-sequences 2
refused 3 'heads.h5' "${base[@]}" --model m.toml --output lost
absent lost

# The layout belongs to the run's identity, the name of its file does not.
model 128 'sliding, file' elsewhere/heads.h5 >m.toml
expect 75 "${base[@]}" --model m.toml --output run --stop-after 3
printf 'layers = 2\nhidden = 16\nheads = 4\nkv-heads = 4\nffn = 16\ncontext = 128\n[attention]\nlayout = "sliding, file"\nblock = 16\nfile-blocks = "0;0 1;0 2;0 3;0 4;0 5;0 6;0 7"\n' >other.toml
refused 3 'was trained with other settings' "${base[@]}" --model other.toml --output run
said 'model.attention_file_blocks: the checkpoint has "0 7;0:2;'; said 'say --change model to'
expect 0 "${base[@]}" --model other.toml --output run --change model; unsaid 'above the diagonal'

# Wrong files and models: exit 3 before anything is written.
printf 'no HDF5' >text.h5
head -c 1000 plain.h5 >short.h5
cp data/train/*.h5 shard.h5
for file in text.h5 short.h5 shard.h5 nowhere.h5 .; do
  model 192 file "$file" >wrong.toml
  refused 3 "$file" "${base[@]}" --model wrong.toml --output wrong
  refused 3 "$file" partition-model --model wrong.toml
  refused 3 "$file" inspect wrong.toml
done
refused 3 "there is no 'layout' in it" inspect shard.h5 --layout
model 128 file plain.h5 >wrong.toml
refused 3 'has 3 blocks of 64 a side, a context of 128 tokens only 2' "${base[@]}" --model wrong.toml --output wrong
model 128 file elsewhere/heads.h5 | sed 's/heads = 4/heads = 2/' >wrong.toml
refused 3 'is for 4 heads, the model has 2' "${base[@]}" --model wrong.toml --output wrong
{ model 192 file plain.h5; echo 'block = 32'; } >wrong.toml
refused 3 'attention-block is 32, the blocks of plain.h5 are of 64' "${base[@]}" --model wrong.toml --output wrong
model 512 file plain.h5 >wrong.toml
refused 2 'has 3 blocks of 64 a side, --sequence 512 has 8' "${base[@]}" --model wrong.toml --output wrong
said '  try: --sequence 192'
absent wrong
expect 75 "${base[@]}" --model wrong.toml --output right --sequence 192 --stop-after 1
passed
