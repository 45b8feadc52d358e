#!/bin/bash
# shard-data with a SentencePiece model made here: equal bytes for any number of threads, and the tokens of spm_encode.
# usage: sentencepiece.sh BIN_FOLDER [SANITIZERS]
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -e
for tool in spm_train spm_encode h5dump; do command -v $tool >/dev/null || skipped "$tool is not installed (Debian packages sentencepiece, hdf5-tools)"; done
ulimit -f 100000
words=(the cat dog house runs sleeps under over green tree river stone walks and sings with a little old friend)
for ((i = 0; i < 4000; ++i)); do echo "${words[i * 7 % 20]} ${words[i * i % 19]} ${words[i * 3 % 17]} ${words[i % 13]} number $((i % 97))"; done >text.txt

tokens() { h5dump -y -w 1 -d /tokens "$1" | sed -n '/DATA {/,/}/p' | tr -dc '0-9\n' | sed '/^$/d'; }

for eos in 2 -1; do
  spm_train --input=text.txt --model_prefix=model --vocab_size=50 --eos_id=$eos --num_threads=1 >/dev/null 2>log || { cat log; exit 1; }
  end=$eos
  [ "$eos" != -1 ] || end=$(wc -l <model.vocab)   # an id of its own behind the pieces
  for threads in 1 2 4; do timeout 60 shard-data --input text.txt --split lines --tokenizer model.model --output set-$threads --threads $threads --validation 0 --force 2>log >/dev/null || { cat log; exit 1; }; done
  diff -r set-1 set-2
  diff -r set-1 set-4
  timeout 60 spm_encode --model=model.model --output_format=id <text.txt | sed "s/\$/ $end/" | tr -s ' ' '\n' | sed '/^$/d' >expected
  tokens set-1/train/shard-00000.h5 >found
  [ "$(wc -l <expected)" -gt 20000 ]
  cmp expected found
  jq -e --argjson id "$end" '.end_of_document == $id and .tokenizer.name == "model.model" and .tokenizer.source == "tokenizer.model"' set-1/index.json >/dev/null
  cmp model.model set-1/tokenizer.model   # the set keeps its model
done
# Unknown tokens are counted, reported with a warning unless there are hardly any, and recorded in the set. Tasks count the same.
jq -e '.unknown_tokens == 0' set-1/index.json >/dev/null
! grep -q warning log
{ head -50 text.txt; for ((i = 0; i < 50; ++i)); do echo "the ξένος walks $i"; done; } >foreign.txt
unknown=$(timeout 60 spm_encode --model=model.model --output_format=id <foreign.txt | tr ' ' '\n' | grep -cx 0)
[ "$unknown" -ge 50 ]
timeout 60 shard-data --input foreign.txt --split lines --tokenizer model.model --output foreign --json >out 2>err
jq -e --argjson n "$unknown" '.unknown_tokens == $n' out >/dev/null
jq -e --argjson n "$unknown" '.unknown_tokens == $n' foreign/index.json >/dev/null
grep -q "warning: $unknown of .* stand for text that the tokenizer has no token for" err
timeout 60 inspect foreign | grep -q "^  unknown     $unknown tokens"
for task in 0 1; do timeout 60 shard-data --input foreign.txt --split lines --tokenizer model.model --output foreign-tasks --task $task/2 2>/dev/null >&2; done
cmp foreign/index.json foreign-tasks/index.json
{ cat text.txt; echo "the ξ walks"; } >nearly.txt   # hardly any: counted and said, and no warning
timeout 60 shard-data --input nearly.txt --split lines --tokenizer model.model --output nearly --validation 0 2>err >/dev/null
jq -e '.unknown_tokens == 1' nearly/index.json >/dev/null
grep -q '^shard-data: 1 of [0-9,]* tokens stand for text that the tokenizer has no token for$' err
! grep -q warning err
timeout 60 shard-data --input foreign.txt --split lines --output of-bytes --json 2>/dev/null | jq -e '.unknown_tokens == 0' >/dev/null
jq -e 'has("unknown_tokens") | not' of-bytes/index.json >/dev/null

# One document of 40 MB in 300 MiB of address space: its tokens are the tokens of its lines, whatever the parts it is encoded in.
for ((i = 0; i < 150; ++i)); do cat text.txt; done >large.txt
( [ -n "${2:-}" ] || ulimit -v 307200   # sanitizers reserve more address space
  timeout 120 shard-data --input large.txt --split whole --max-document 64MiB --tokenizer model.model --output large --threads 1 --validation 0 2>log >/dev/null ) || { cat log; exit 1; }
jq -e '.train[0].documents == 1' large/index.json >/dev/null
once=$(($(wc -l <expected) - $(wc -l <text.txt)))
[ "$(jq '.train[0].tokens' large/index.json)" = $((150 * once + 1)) ] || { echo "150 times $once tokens became $(jq '.train[0].tokens' large/index.json)"; exit 1; }

# A model that keeps white space and puts a space before each text, as Llama 2 does, or behind it: a document of more than 1 MiB has the tokens of spm_encode.
for ((i = 0; i < 14; ++i)); do tr '\n' ' ' <text.txt | sed 's/old/old  /g'; done >kept.txt
[ "$(wc -c <kept.txt)" -gt 1500000 ]
keeps='--vocab_size=340 --model_type=bpe --byte_fallback=true --normalization_rule_name=identity --remove_extra_whitespaces=false'
for options in "$keeps" "$keeps --add_dummy_prefix=false" "$keeps --treat_whitespace_as_suffix=true" '--vocab_size=60 --treat_whitespace_as_suffix=true'; do
  spm_train --input=text.txt --model_prefix=kept --hard_vocab_limit=false $options --num_threads=1 >/dev/null 2>log || { cat log; exit 1; }
  timeout 60 shard-data --input kept.txt --split whole --tokenizer kept.model --output kept --threads 1 --validation 0 --force 2>log >/dev/null || { cat log; exit 1; }
  timeout 60 spm_encode --model=kept.model --output_format=id <kept.txt | tr ' ' '\n' >expected
  tokens kept/train/shard-00000.h5 | head -n -1 >found
  cmp expected found
done
# A conversation goes on behind each part, where such a model would put a space.
echo '{"prompt": "the cat", "response": "walks"}' >chat.jsonl
refused 3 'kept.model puts a space behind each text (treat_whitespace_as_suffix)' shard-data --input chat.jsonl --chat-template plain --tokenizer kept.model --output chats

# A foreign model beside an unreadable tokenizer.json and a readable tokenizer.model: the latter is recorded, and generate and an evaluation use it.
printf 'layers = 1\nhidden = 16\nheads = 4\nkv-heads = 2\nffn = 24\ncontext = 16\nnorm = "rms"\npositions = "rotary"\nactivation = "swiglu"\nbiases = "off"\ntied = "off"\n' >llama.toml
train=(timeout 60 train --model llama.toml --data set-1 --global-batch 2 --sequence 16 --threads 1 --progress never)
"${train[@]}" --output run --steps 1 >log 2>&1 || { cat log; exit 1; }
timeout 60 convert-checkpoint run llama --to safetensors >log 2>&1 || { cat log; exit 1; }
cp model.model llama/tokenizer.model
echo '{"model": {"type": "BPE", "byte_fallback": true, "vocab": {}, "merges": []}}' >llama/tokenizer.json
timeout 60 convert-checkpoint llama imported --from safetensors >log 2>&1 || { cat log; exit 1; }
jq -e '.provenance.tokenizer.name == "tokenizer.model" and (.provenance.document_tokens | has("begin") | not)' imported/manifest.json >/dev/null
timeout 60 generate --checkpoint imported --prompt 'the cat' --tokens 2 --threads 1 >log 2>&1 || { cat log; exit 1; }
timeout 60 train --evaluate imported --data set-1 --evaluate-split train --evaluate-sequences 2 --threads 1 --progress never >log 2>&1 || { cat log; exit 1; }
# Without tokenizer.json, a Llama model gets a begin token before each text, unless its settings say otherwise.
rm llama/tokenizer.json
jq '.bos_token_id = 1' llama/config.json >config.json && mv config.json llama/config.json
timeout 60 convert-checkpoint llama imported --from safetensors --force >log 2>&1 || { cat log; exit 1; }
jq -e '.provenance.document_tokens.begin == 1' imported/manifest.json >/dev/null
timeout 60 generate --checkpoint imported --prompt 'the cat' --tokens 2 --threads 1 --json | jq -e '.prompt_tokens[0] == 1' >/dev/null
echo '{"add_bos_token": false}' >llama/tokenizer_config.json
timeout 60 convert-checkpoint llama imported --from safetensors --force >log 2>&1 || { cat log; exit 1; }
jq -e '.provenance.document_tokens | has("begin") | not' imported/manifest.json >/dev/null
passed
