#!/bin/bash
# convert-checkpoint from the command line: an export imported again is the same model, also in several files; refusals;
# a fine-tune of an imported model.
# usage: command_line.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
golden=$(realpath "$2/tests/golden/hugging_face")
. "$(dirname "$0")/../script.sh"
export OMP_NUM_THREADS=1

small_text 200 >text
shard-data --input text --split paragraphs --output data --validation 0.2 >/dev/null 2>&1 || fail "no shards"
train=(train --data data --global-batch 4 --sequence 16 --threads 1 --progress never)
tiny_model 16 >tiny.toml
printf 'layers = 2\nhidden = 16\nheads = 4\nkv-heads = 2\nffn = 24\ncontext = 16\nnorm = "rms"\npositions = "rotary"\nactivation = "swiglu"\nbiases = "off"\ntied = "off"\nrotary-base = 500000\n' >llama.toml
"${train[@]}" --model tiny.toml --output gpt --steps 3 >/dev/null 2>&1 || fail "no run"
"${train[@]}" --model llama.toml --output llama --steps 2 --dtype bf16 >/dev/null 2>&1 || fail "no run"

# Export: the program prints the path of what it made.
expect 0 convert-checkpoint gpt gpt-out --to safetensors
[ "$(cat out)" = gpt-out ] || fail "stdout: $(cat out)"
said 'step 3 as gpt2 in f32, 16 tensors in 1 file'
[ "$(ls gpt-out | xargs)" = "config.json model.safetensors" ] || fail "files: $(ls gpt-out)"
[ "$(jq -r '.model_type, .n_embd, .tie_word_embeddings, .torch_dtype' gpt-out/config.json | xargs)" = "gpt2 16 true float32" ] || fail "config: $(cat gpt-out/config.json)"
expect 0 convert-checkpoint llama llama-out --to safetensors --max-shard 10kB --threads 2 --json
jq -e '.output == "llama-out" and .model_type == "llama" and .dtype == "bf16" and (.files | length) > 1 and .bytes_written > 0 and .notes == []' out >/dev/null || fail "JSON: $(cat out)"
[ "$(jq -r '.weight_map | map(.) | unique | length' llama-out/model.safetensors.index.json)" = "$(ls llama-out | grep -c '^model-.*safetensors$')" ] || fail "index: $(ls llama-out)"

# The tokens that end and begin documents are exported and imported: the ids that the data had.
[ "$(jq -c '[.eos_token_id, .bos_token_id]' gpt-out/config.json)" = '[256,null]' ] || fail "ids: $(cat gpt-out/config.json)"
cp -r llama-out told
jq '.eos_token_id = [7, 9] | .bos_token_id = 5 | .pad_token_id = 3' llama-out/config.json >told/config.json
expect 0 convert-checkpoint told told-in --from safetensors
jq -e '.provenance.document_tokens == {end: 7}' told-in/manifest.json >/dev/null || fail "nothing says that texts begin with a token: $(jq -c .provenance told-in/manifest.json)"
expect 0 convert-checkpoint told-in told-out --to safetensors
[ "$(jq -c '[.eos_token_id, .bos_token_id, .pad_token_id]' told-out/config.json)" = '[[7,9],5,3]' ] || fail "ids of a model that was not fed its beginning: $(cat told-out/config.json)"
rm -r told-out
jq -n '{add_bos_token: true}' >told/tokenizer_config.json
jq -n '{model: {type: "WordPiece"}, post_processor: {type: "Sequence", processors: [{type: "ByteLevel"}, {type: "TemplateProcessing", single: [{Sequence: {id: "A"}}]}]}}' >told/tokenizer.json
expect 0 convert-checkpoint told told-in --from safetensors --force
said 'the checkpoint does not name its tokenizer: .*model: key .vocab. is missing'
jq -e '.provenance.document_tokens == {end: 7, begin: 5} and (.provenance | has("tokenizer") | not)' told-in/manifest.json >/dev/null || fail "provenance: $(jq -c .provenance told-in/manifest.json)"
rm told/tokenizer_config.json
jq '.post_processor.processors[1].single |= [{SpecialToken: {id: "<s>"}}] + .' told/tokenizer.json >t && mv t told/tokenizer.json
expect 0 convert-checkpoint told told-in --from safetensors --force
jq -e '.provenance.document_tokens == {end: 7, begin: 5}' told-in/manifest.json >/dev/null || fail "provenance: $(jq -c .provenance told-in/manifest.json)"
expect 0 convert-checkpoint told-in told-out --to safetensors
[ "$(jq -c '[.eos_token_id, .bos_token_id, .pad_token_id]' told-out/config.json)" = '[[7,9],5,3]' ] || fail "ids: $(cat told-out/config.json)"
jq -n '{add_bos_token: false}' >told/tokenizer_config.json
expect 0 convert-checkpoint told told-in --from safetensors --force
jq -e '.provenance.document_tokens == {end: 7, begin: 5}' told-in/manifest.json >/dev/null || fail "the template counts first: $(jq -c .provenance told-in/manifest.json)"
expect 0 generate --checkpoint told-in --tokenizer bytes --prompt a --tokens 1 --threads 1
expect 0 "${train[@]}" --init-from told-in --output told-run --steps 1
said 'warning: data ends documents with token 256; the weights of told-in know 7 as their end .*; data begins documents with no token; the weights of told-in know token 5 as the beginning of every text'
rm -r told-run

# An imported model has the lanes of a new run.
tiny_model 16 | sed 's/^\(kv-\)\?heads = .*/\1heads = 4/; s/^ffn = .*/ffn = 64/' >wide.toml
"${train[@]}" --model wide.toml --output wide --steps 1 >/dev/null 2>&1 || fail "no run"
expect 0 convert-checkpoint wide wide-out --to safetensors
expect 0 convert-checkpoint wide-out wide-in --from safetensors
for one in wide/checkpoints/step-* wide-in; do [ "$(jq .model.lanes $one/manifest.json)" = 4 ] || fail "lanes of $one: $(jq -c .model $one/manifest.json)"; done

# Imported again: the same weights to the bit, the same model, the same text and loss.
for model in gpt llama; do
  expect 0 convert-checkpoint $model-out $model-in --from safetensors
  [ "$(cat out)" = $model-in ] || fail "stdout: $(cat out)"
  expect 0 inspect --verify $model-in
  expect 0 reshard-checkpoint $model/checkpoints/step-* $model-weights --only model
  expect 0 reshard-checkpoint --diff $model-weights $model-in
  for one in $model $model-in; do
    expect 0 generate --checkpoint $one --tokenizer bytes --prompt 'line 1' --tokens 8 --temperature 0 --threads 1
    mv out $one.text
    expect 0 train --evaluate $one --data data --sequence 16 --dtype f32 --micro-batch 1 --threads 1 --json
    jq .loss out >$one.loss
  done
  [ "$model" = llama ] || same $model.loss $model-in.loss "the loss of $model"   # a bf16 run computes with its master weights
  same $model.text $model-in.text "the text of $model"
done
# A BERT is trained, exported and imported, and has the same loss. A model that is no BERT is refused.
"${train[@]}" --model bert-nano --output bert --steps 2 >/dev/null 2>&1 || fail "no run"
expect 0 convert-checkpoint bert bert-out --to safetensors --json
jq -e '.model_type == "bert" and .tensors == 42 and .notes == []' out >/dev/null || fail "JSON: $(cat out)"
expect 0 convert-checkpoint bert-out bert-in --from safetensors
for one in bert bert-in; do
  expect 0 train --evaluate $one --data data --sequence 16 --micro-batch 1 --threads 1 --json
  jq .loss out >$one.loss
done
same bert.loss bert-in.loss "the loss of a BERT"
expect 0 "${train[@]}" --init-from bert-in --output bert-on --steps 2
expect 0 "${train[@]}" --init-from bert/checkpoints/step-00000002 --model bert-nano --output bert-straight --steps 2
expect 0 reshard-checkpoint --diff bert-on bert-straight
printf 'layers = 1\nhidden = 16\nheads = 4\ncontext = 64\n[attention]\nlayout = "sliding"\nblock = 16\n' >window.toml
"${train[@]}" --model window.toml --output window --steps 1 >/dev/null 2>&1 || fail "no run"
# A T5: what begins its decoder's inputs in a run is the end of a document, and that goes out.
expect 0 train --model t5-nano --data data --output t5 --steps 3 --global-batch 4 --sequence 16 --source-sequence 32 --threads 1 --progress never
expect 0 convert-checkpoint t5 t5-out --to safetensors --json
[ "$(jq -r '[.model_type, .decoder_start_token_id, .feed_forward_proj] | join(" ")' t5-out/config.json)" = "t5 256 relu" ] || fail "config.json: $(cat t5-out/config.json)"
expect 0 convert-checkpoint t5-out t5-in --from safetensors
for one in t5 t5-in; do
  expect 0 train --evaluate $one --data data --sequence 16 --source-sequence 32 --micro-batch 1 --threads 1 --json
  jq .loss out >>t5-losses
done
[ "$(sort -u t5-losses | wc -l)" = 1 ] || fail "the T5 has other losses: $(tr '\n' ' ' <t5-losses)"
refused 3 'no gpt2 (attention-layout is "sliding", not "dense"' convert-checkpoint window nope --to safetensors

# A failed write ends the program with an error, and not with a crash at exit.
for blocks in 8 30; do
  expect 4 bash -c "ulimit -f $blocks && exec convert-checkpoint bert-out torn --from safetensors"
  said 'File too large'
done
absent torn
rm -rf torn.partial

# More threads and files than may be open.
expect 0 bash -c 'ulimit -n 40 && exec convert-checkpoint llama llama-many --to safetensors --max-shard 1 --threads 64'
expect 0 reshard-checkpoint gpt gpt-20 --data-parallel 20
expect 0 bash -c 'ulimit -n 60 && exec reshard-checkpoint gpt-20 gpt-40 --data-parallel 40 --threads 64'
expect 0 convert-checkpoint gpt-out gpt-narrow --from safetensors --dtype bfloat16 --json
jq -e '.dtype == "bf16" and .model.hidden == 16 and .model_type == "gpt2" and .tensors == 20' out >/dev/null || fail "JSON: $(cat out)"
expect 0 convert-checkpoint llama llama-wide --to safetensors --dtype f32   # the master weights, exactly
expect 0 convert-checkpoint llama-wide llama-wide-in --from safetensors
expect 0 reshard-checkpoint llama/checkpoints/step-* llama-weights-f32 --only model --dtype f32
expect 0 reshard-checkpoint --diff llama-weights-f32 llama-wide-in

expect 0 convert-checkpoint gpt-out planned --from safetensors --model-file planned.toml
grep -q '^hidden = 16 *# imported$' planned.toml && grep -q '^norm = "layer" *# default$' planned.toml || fail "the model's file: $(cat planned.toml)"
expect 0 partition-model --model planned.toml --ranks 2 --json
jq -e '.model.hidden == 16 and .model.vocabulary == 257' out >/dev/null || fail "another model: $(cat planned.toml)"

# A fine-tune begins with the imported weights and takes their model. It equals a fine-tune from the run itself.
expect 0 "${train[@]}" --init-from gpt-in --output tuned --steps 2
expect 0 "${train[@]}" --init-from gpt/checkpoints/step-00000003 --model tiny.toml --output tuned-straight --steps 2
expect 0 reshard-checkpoint --diff tuned tuned-straight
expect 0 "${train[@]}" --init-from gpt-in --output tuned --steps 2   # no step is left to do
# The run goes on without the imported model, and its printed settings give the same run. An evaluation refuses
# --init-from.
refused 2 'init-from is for training' train --evaluate tuned --init-from nowhere
"${train[@]}" --init-from gpt-in --output tuned --steps 2 --print-config >printed.toml || fail "not printed"
mv gpt-in gone
expect 0 "${train[@]}" --init-from gpt-in --output tuned --steps 3 --change steps
expect 3 "${train[@]}" --init-from gpt-in --output other --steps 2
mv gone gpt-in
sed -i 's/^output = "tuned" /output = "tuned-printed" /' printed.toml
expect 0 train --config printed.toml
expect 0 reshard-checkpoint --diff tuned-printed tuned-straight
refused 3 'holds the weights alone' "${train[@]}" --model tiny.toml --output resumed --resume gpt-in --steps 4
expect 3 "${train[@]}" --model llama.toml --init-from gpt-in --output other --steps 2
said "gpt-in has embedding.positions.weight, and this run.s model has no such tensor: 10 of its weights would be left out"
expect 0 "${train[@]}" --init-from llama-in --output tuned-llama --steps 1 --dtype bf16

# Models of transformers: their buffers, their files.
for model in gpt2 llama-2 llama-3 llama-3-tied bert; do
  expect 0 convert-checkpoint "$golden/$model" in-$model --from safetensors
  [ "$(inspect in-$model --json | jq -r '.model.name, .contents, .step' | xargs)" = "$model model 0" ] || fail "$model: $(inspect in-$model | head -5)"
done
expect 0 convert-checkpoint "$golden/gpt2/model.safetensors" by-file --from safetensors
expect 0 reshard-checkpoint --diff by-file in-gpt2

# What stands beside the weights goes in and out, also through a fine-tune; what has changed or is gone does not.
cp -r gpt-out whole
expect 0 shard-data --input text --split paragraphs --train-tokenizer bpe:257 --output pairs
cp pairs/tokenizer.json whole
echo '{"eos_token_id": [3, 4]}' >whole/generation_config.json
echo '{"add_bos_token": false}' >whole/tokenizer_config.json
echo 'a b' >whole/merges.txt
expect 0 convert-checkpoint whole in-whole --from safetensors
expect 0 convert-checkpoint in-whole out-whole --to safetensors --json
jq -e '.companions == ["generation_config.json", "tokenizer.json", "tokenizer_config.json", "merges.txt"] and .notes == []' out >/dev/null || fail "JSON: $(cat out)"
for file in config.json generation_config.json tokenizer.json tokenizer_config.json merges.txt; do
  cmp whole/$file out-whole/$file || fail "another $file"
done
# With another tokenizer the run's own ids and files take their place.
expect 0 "${train[@]}" --init-from in-whole --output tuned-other --steps 1 --change tokenizer
expect 0 convert-checkpoint tuned-other other-out --to safetensors
said 'the run has another tokenizer than the imported model: its files about tokens in .*/whole are left out'
[ "$(ls other-out | xargs)" = "config.json model.safetensors" ] || fail "files: $(ls other-out)"
[ "$(jq -c '[.eos_token_id, .bos_token_id]' other-out/config.json)" = '[256,null]' ] || fail "ids of another tokenizer: $(cat other-out/config.json)"
# With the same one, the token that ends the run's documents is an end of generation, too.
expect 0 "${train[@]/#data/pairs}" --init-from in-whole --output tuned-whole --steps 1
echo 'c d' >whole/merges.txt
rm whole/tokenizer_config.json
expect 0 convert-checkpoint tuned-whole tuned-out --to safetensors
said 'whole/merges.txt has changed since the import'
said 'tokenizer_config.json of the imported model is not copied'
[ "$(jq -c .eos_token_id tuned-out/config.json tuned-out/generation_config.json | xargs)" = '[256,0] [3,4,0]' ] || fail "ids: $(cat tuned-out/*config.json)"
cmp whole/tokenizer.json tuned-out/tokenizer.json || fail "another tokenizer"
cmp <(jq -S 'del(.eos_token_id)' whole/config.json) <(jq -S 'del(.eos_token_id)' tuned-out/config.json) || fail "another config.json"
absent tuned-out/merges.txt
jq '.rotary_sector = 1' whole/config.json >sector.json && cp sector.json whole/config.json
refused 3 '1 key is not known here: rotary_sector' convert-checkpoint whole nope --from safetensors
said 'give --ignore-keys rotary_sector'
expect 0 convert-checkpoint whole in-ignored --from safetensors --ignore-keys rotary_sector
refused 2 'ignore-keys .rotary_sektor. has no effect' convert-checkpoint whole nope --from safetensors --ignore-keys rotary_sector,rotary_sektor
refused 2 'ignore-keys is only for --from' convert-checkpoint gpt nope --to safetensors --ignore-keys a

# A model may have rows for more tokens than its tokenizer, and nothing records which one it has.
printf 'vocabulary = 320\n' | cat - llama.toml >padded.toml
expect 0 "${train[@]}" --model padded.toml --output padded --steps 1
expect 0 convert-checkpoint padded padded-out --to safetensors
expect 0 convert-checkpoint padded-out padded-in --from safetensors
expect 0 train --evaluate padded-in --data data --sequence 16
said 'warning: padded-in does not record its tokenizer, and has 320 tokens where data has 257'
expect 0 train --evaluate llama-in --data data --sequence 16
unsaid 'does not record its tokenizer'

# A tokenizer goes along with what is made of a run: with a checkpoint, and with a model for transformers, which learns
# the end of documents.
small_text 400 >own.txt
expect 0 shard-data --input own.txt --split paragraphs --train-tokenizer bpe:270 --output own-data
expect 0 train --data own-data --global-batch 4 --sequence 16 --threads 1 --model llama.toml --output own --steps 1
expect 0 reshard-checkpoint own own-whole --consolidate
mv own-data own-away && mkdir else && mv own-whole else
for way in 'else/own-whole' "$PWD/else/own-whole"; do
  expect 0 generate --checkpoint "$way" --prompt a --tokens 2 --json
done
expect 0 inspect --verify else/own-whole
expect 0 reshard-checkpoint own else/own-whole --consolidate --force
expect 0 convert-checkpoint else/own-whole own-out --to safetensors
cmp own/tokenizer-*.json own-out/tokenizer.json || fail "another tokenizer: $(ls own-out)"
end=$(jq .eos_token_id own-out/config.json)
[ "$(jq -r .eos_token own-out/tokenizer_config.json)" = "$(jq -r --argjson id "$end" '.added_tokens[] | select(.id == $id).content' own-out/tokenizer.json)" ] || fail "end: $(cat own-out/tokenizer_config.json)"
expect 0 convert-checkpoint own-out own-in --from safetensors
ls own-in/tokenizer-*.json >/dev/null || fail "an import keeps no tokenizer"
mv own-out own-gone
expect 0 generate --checkpoint own-in --prompt a --tokens 2

# Refusals, which make nothing.
refused 2 'neither --to nor --from' convert-checkpoint gpt nope
refused 2 'to and --from do not go together' convert-checkpoint gpt nope --to safetensors --from safetensors
refused 2 'to: gguf is not known' convert-checkpoint gpt nope --to gguf
refused 2 'f16 is only for --to' convert-checkpoint gpt-out nope --from safetensors --dtype float16
refused 2 'fp8 is not known; use f32, bf16, f16' convert-checkpoint gpt-out nope --from safetensors --dtype fp8
refused 2 'model-file is only for --from' convert-checkpoint gpt nope --to safetensors --model-file other.toml
refused 2 'planned.toml exists already' convert-checkpoint gpt-out nope --from safetensors --model-file planned.toml
ln -s nowhere dangling
refused 2 'dangling exists already' convert-checkpoint gpt-out nope --from safetensors --model-file dangling
refused 4 'nodir/x.toml cannot be written: nodir/.: No such file' convert-checkpoint gpt-out nope --from safetensors --model-file nodir/x.toml
refused 4 'planned.toml/x cannot be written' convert-checkpoint gpt-out nope --from safetensors --model-file planned.toml/x
for place in nope ./nope/model.toml nope.partial nope/../nope; do
  refused 2 'is or lies in nope' convert-checkpoint gpt-out nope --from safetensors --model-file $place
done
refused 2 'nope/in lies in nope, which is the' convert-checkpoint gpt-out nope/in --from safetensors --model-file nope
refused 2 'nope.partial is a name that these programs give to unfinished' convert-checkpoint gpt nope.partial/ --to safetensors
refused 2 'max-shard is only for --to' convert-checkpoint gpt-out nope --from safetensors --max-shard 1GB
refused 2 'max-shard' convert-checkpoint gpt nope --to safetensors --max-shard 0
refused 2 'gpt-out exists already' convert-checkpoint gpt gpt-out --to safetensors
refused 2 'gpt-in exists already' convert-checkpoint gpt-out gpt-in --from safetensors
refused 2 'is or lies in' convert-checkpoint gpt-out gpt-out/inside --from safetensors
refused 3 'no such folder or file' convert-checkpoint nothing nope --from safetensors
refused 3 'holds neither' convert-checkpoint gpt nope --from safetensors
refused 3 'no such checkpoint or run' convert-checkpoint nothing nope --to safetensors
sed 's/norm = "rms"/norm = "layer"/' llama.toml >odd.toml
"${train[@]}" --model odd.toml --output odd --steps 1 >/dev/null 2>&1 || fail "no run"
refused 3 'no llama (norm is "layer", not "rms")' convert-checkpoint odd nope --to safetensors
"${train[@]}" --model moe-nano --output experts --steps 1 >/dev/null 2>&1 || fail "no run"
refused 3 'no gpt2 (experts-count is ' convert-checkpoint experts nope --to safetensors
cp -r gpt-out broken
truncate -s -4 broken/model.safetensors
refused 3 'broken/model.safetensors: .*ends at byte' convert-checkpoint broken nope --from safetensors
jq '.rope_scaling = {"rope_type": "longrope", "factor": 8}' llama-out/config.json >scaled.json
cp -r llama-out scaled && cp scaled.json scaled/config.json
refused 3 "is of type \"longrope\"" convert-checkpoint scaled nope --from safetensors
rm scaled/model-00002-of-*.safetensors
refused 3 'model-00002-of-.* is missing' convert-checkpoint scaled nope --from safetensors
cp -r gpt-out bare && rm bare/config.json
refused 3 'bare/config.json' convert-checkpoint bare nope --from safetensors
mkdir thesis && echo "years of work" >thesis/thesis.tex
refused 2 'thesis is not replaced' convert-checkpoint gpt thesis --to safetensors --force
refused 2 'thesis is not replaced' convert-checkpoint gpt-out thesis --from safetensors --force
cp -r "$golden/gpt2" theirs && rm theirs/expected.json
refused 2 'theirs is not replaced' convert-checkpoint gpt theirs --to safetensors --force
absent nope nope.partial
expect 0 convert-checkpoint gpt gpt-out --to safetensors --force --dtype fp16
[ "$(jq -r .torch_dtype gpt-out/config.json)" = float16 ] || fail "not replaced: $(cat gpt-out/config.json)"
expect 0 convert-checkpoint gpt-out gpt-in --from safetensors --force
passed
