#!/bin/bash
# A tokenizer.json of each kind through the programs: shard-data, inspect, train with whole words masked, --evaluate, generate and the copies that sets and runs keep.
# usage: tokenizer_kinds.sh BIN_FOLDER FOLDER_OF_GOLDEN_TOKENIZERS
PATH=$(realpath "$1"):$PATH
golden=$(realpath "$2")/kinds
. "$(dirname "$0")/../script.sh"
tokens() { h5dump -y -w 1 -d /tokens "$1" | sed -n '/DATA {/,/}/p' | tr -dc '0-9\n' | sed '/^$/d'; }

# The ids equal the reference's, document by document, with the end of document after each.
jq -c '.[] | select(.text | test("[^ \t\r\n]")) | {text}' "$golden/ids.json" >texts.jsonl
for kind in llama2:BPE gemma:BPE bert_uncased:WordPiece xlmr:Unigram unigram_bytes:Unigram roberta:byte-level; do
  name=${kind%:*}
  for threads in 1 2; do
    expect 0 shard-data --input texts.jsonl --tokenizer "$golden/$name.json" --output $name-$threads --threads $threads --validation 0
  done
  same $name-1 $name-2 "$name, 2 threads"
  same "$golden/$name.json" $name-1/tokenizer.json "the set's copy"
  expect 0 inspect --verify $name-1
  said "tokenizer   $name.json (${kind#*:}.*, tokenizer.json, crc32c"
  expect 0 inspect --json $name-1
  jq -e --arg k "${kind#*:}" '.tokenizer_kind | startswith($k)' out >/dev/null || fail "the kind: $(cat out)"
  if command -v h5dump >/dev/null; then
    jq --argjson e "$(jq .end_of_document $name-1/index.json)" ".[] | select(.text | test(\"[^ \\t\\r\\n]\")) | .ids.$name[], \$e" "$golden/ids.json" >expected
    tokens $name-1/train/shard-00000.h5 >found
    same expected found "$name: tokens"
  fi
done

# Runs keep the tokenizer, and text goes through generate and back. A character of several byte tokens is whole.
jq -c 'select(.text | test("<unk>") | not)' texts.jsonl >known.jsonl
run_on() { expect 0 train --model gpt2-nano --data $1-1 --output $1-run --steps 3 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never; }
for name in llama2 gemma unigram_bytes; do
  run_on $name
  same "$golden/$name.json" "$(echo $name-run/tokenizer-*.json)" "the run's copy"
  prompt=$'the train \xf0\x9f\x9a\x82 \xe9\xbe\x98'
  expect 0 generate --checkpoint $name-run --threads 1 --prompt "$prompt" --tokens 30 --stop-at length --temperature 20
  iconv -f UTF-8 -t UTF-8 <out >/dev/null || fail "$name: generated text is no UTF-8"
  grep -qF "$prompt" out || fail "$name: the prompt does not come out as it went in: $(cat out)"
  expect 0 shard-data --input known.jsonl --tokenizer "$golden/$name.json" --output $name-known --validation 0
  expect 0 train --evaluate $name-run --evaluate-split train --data $name-known --threads 1 --progress never --json
  jq -e '.bits_per_byte > 0 and .bits_per_byte < 40' out >/dev/null || fail "$name: bits per byte: $(cat out)"
done
run_on bert_uncased
expect 0 generate --checkpoint bert_uncased-run --threads 1 --prompt 'The Train leaves' --tokens 3 --stop-at length
grep -q '^the train leaves' out || fail "WordPiece: $(cat out)"

# A conversation begins as the prompt of generate does, and its answer goes on behind it without a space of its own.
echo '{"prompt": "the train", "response": "leaves"}' >chat.jsonl
for name in llama2 mistral no_bytes xlmr roberta; do
  expect 0 shard-data --input chat.jsonl --chat-template plain --tokenizer "$golden/$name.json" --output $name-chat --validation 0
  prompt=$'User: the train\nAssistant: '
  expect 0 train --model gpt2-nano --data $name-chat --output $name-chats --steps 1 --global-batch 1 --micro-batch 1 --sequence 4 --threads 1 --progress never
  expect 0 generate --checkpoint $name-chats --threads 1 --prompt "$prompt" --no-bos --tokens 1 --stop-at length --json
  jq -c '.prompt_tokens[]' out >prompt-ids
  h5dump -y -w 1 -d /tokens $name-chat/train/shard-00000.h5 | sed -n '/DATA {/,/}/p' | tr -dc '0-9\n' | sed '/^$/d' >chat-ids
  cmp -n "$(stat -c %s prompt-ids)" prompt-ids chat-ids || fail "$name: the prompt has $(tr '\n' ' ' <prompt-ids), the conversation $(tr '\n' ' ' <chat-ids)"
  [ "$(wc -l <prompt-ids)" = "$(h5dump -y -d /answers $name-chat/train/shard-00000.h5 | sed -n '/DATA {/,/}/p' | grep -o '[0-9]\+' | head -1)" ] || fail "$name: the answer begins elsewhere"
done

# Masked models know the words and the mask of each kind.
for name in bert_uncased roberta; do
  expect 0 train --model bert-nano --data $name-1 --output $name-masked --steps 2 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never --mask-words on
done

# Files that are none, or need what is not supported.
refused 3 'a model of type "WordLevel"' shard-data --input texts.jsonl --output none --tokenizer <(jq '.model.type = "WordLevel"' "$golden/bert_uncased.json")
refused 3 'the normalizer "Nothing" is not supported' shard-data --input texts.jsonl --output none --tokenizer <(jq '.normalizer.type = "Nothing"' "$golden/llama2.json")
refused 3 'neither an unk_token nor byte_fallback' shard-data --input texts.jsonl --output none --tokenizer <(jq '.model.unk_token = null | .model.byte_fallback = false' "$golden/llama2.json")
refused 3 'the scores of the vocabulary\|entry 7 of the vocabulary' shard-data --input texts.jsonl --output none --tokenizer <(jq '.model.vocab[7][1] = null' "$golden/xlmr.json")
absent none none.partial
passed
