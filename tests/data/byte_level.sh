#!/bin/bash
# A tokenizer.json through all programs: shard-data with any number of threads, train, --evaluate, generate, and the copies that data and runs keep when they are moved.
# usage: byte_level.sh BIN_FOLDER FOLDER_OF_GOLDEN_TOKENIZERS
PATH=$(realpath "$1"):$PATH
golden=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
ulimit -f 400000
tokens() { h5dump -y -w 1 -d /tokens "$1" | sed -n '/DATA {/,/}/p' | tr -dc '0-9\n' | sed '/^$/d'; }

# The ids equal the reference's, document by document, with the end of document after each. Pure white space is no document.
jq -c '.[] | select(.text | test("[^ \t\r\n]")) | {text}' "$golden/ids.json" >texts.jsonl
for kind in gpt2 llama3; do
  for threads in 1 2 4; do
    for ((i = 0; i < 20; ++i)); do cat texts.jsonl; done | expect 0 shard-data --input - --tokenizer "$golden/$kind.json" --output "$kind-$threads" --threads $threads --validation 0
  done
  same $kind-1 $kind-2 "$kind, 2 threads"
  same $kind-1 $kind-4 "$kind, 4 threads"
  same "$golden/$kind.json" $kind-1/tokenizer.json "the set's copy"
  expect 0 inspect --verify $kind-1
  end=$(jq .end_of_document $kind-1/index.json)
  jq -e '.tokenizer.source == "tokenizer.json" and .tokenizer.name == "'$kind'.json"' $kind-1/index.json >/dev/null || fail "index: $(cat $kind-1/index.json)"
  if command -v h5dump >/dev/null; then
    jq ".[] | select(.text | test(\"[^ \\t\\r\\n]\")) | .$kind[], $end" "$golden/ids.json" >once
    for ((i = 0; i < 20; ++i)); do cat once; done >expected
    tokens $kind-1/train/shard-00000.h5 >found
    same expected found "$kind: tokens"
  fi
done
expect 0 shard-data --input texts.jsonl --tokenizer "$golden/llama3.json" --output gpt2-2 --validation 0 --force   # a set of ours, whatever its tokenizer
absent gpt2-2/tokenizer.model gpt2-2.partial
same "$golden/llama3.json" gpt2-2/tokenizer.json "the new set's copy"

# Documents that are not UTF-8 are refused, as with any tokenizer.
printf 'good\n\nbad \377\n\ngood again\n' >broken.txt
expect 0 shard-data --input broken.txt --split paragraphs --tokenizer "$golden/gpt2.json" --output broken --max-rejects 0.5 --validation 0
said 'invalid UTF-8'
refused 3 'model of type "WordLevel"' shard-data --input broken.txt --output none --tokenizer <(jq '.model.type = "WordLevel"' "$golden/gpt2.json")
refused 3 'is no JSON' shard-data --input broken.txt --output none --tokenizer <(head -c 5000 "$golden/gpt2.json")
refused 3 'has no model' shard-data --input broken.txt --output none --tokenizer gpt2-1/index.json
absent none none.partial

# A run keeps the tokenizer. Data and run can be moved separately.
train_on() { expect 0 train --model gpt2-nano --data "$1" --output "$2" --steps 3 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never; }
train_on llama3-1 run
same "$golden/llama3.json" "$(echo run/tokenizer-*.json)" "the run's copy"
expect 0 train --evaluate run --evaluate-split train --data llama3-1 --threads 1 --progress never --json
jq -e '.bytes > 1000 and .bits_per_byte > 0 and .bits_per_byte < 20' out >/dev/null || fail "bits per byte: $(cat out)"
# Weights start or continue a run on tokens of another tokenizer only if --change allows it.
other=(--steps 5 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never)
refused 3 'its tokens mean something else to these weights' train --init-from "$(echo run/checkpoints/step-*3)" --data gpt2-1 --output other "${other[@]}"
expect 0 train --init-from "$(echo run/checkpoints/step-*3)" --data gpt2-1 --output other "${other[@]}" --change tokenizer
said 'its tokens mean something else to these weights'
refused 3 'was made with tokenizer gpt2.json' train --evaluate run --evaluate-split train --data gpt2-1 --threads 1 --progress never
# The same text and vocabulary, but merges in another order: a resume that may change the data still names the difference.
jq -c '.model.merges |= (.[1:2] + .[0:1] + .[2:])' "$golden/llama3.json" >swapped.json
for ((i = 0; i < 20; ++i)); do cat texts.jsonl; done >many.jsonl
expect 0 shard-data --input many.jsonl --tokenizer swapped.json --output swapped --validation 0
resumed=(train --model gpt2-nano --data swapped --output run "${other[@]}")
refused 3 'was trained with other settings' "${resumed[@]}" --change steps
refused 3 'its tokens mean something else to these weights' "${resumed[@]}" --change steps,data
cp -r run learns-anew
expect 0 "${resumed[@]}" --change steps,data,tokenizer --output learns-anew
said 'its tokens mean something else to these weights'
# Tokens around documents, from flags or from a tokenizer_config.json. The set and the run record them, and generated text begins with one.
begin=$(jq '.added_tokens[0].id' "$golden/llama3.json")
expect 0 shard-data --input many.jsonl --tokenizer "$golden/llama3.json" --output around --validation 0 --begin-of-document "$begin" --end-of-document '<|a|>'
jq -e --argjson b "$begin" '.begin_of_document == $b' around/index.json >/dev/null || fail "index: $(cat around/index.json)"
end=$(jq .end_of_document around/index.json)
[ "$(jq '.vocabulary' around/index.json)" = "$(jq '.vocabulary' llama3-1/index.json)" ] || fail "another vocabulary"
if command -v h5dump >/dev/null; then
  jq ".[] | select(.text | test(\"[^ \\t\\r\\n]\")) | $begin, .llama3[], $end" "$golden/ids.json" >once
  for ((i = 0; i < 20; ++i)); do cat once; done >expected
  tokens around/train/shard-00000.h5 >found
  same expected found "documents with tokens around them"
fi
expect 0 inspect around
said ", end of document $end, beginning $begin$"
for task in 0 1; do expect 0 shard-data --input many.jsonl --tokenizer "$golden/llama3.json" --output around-tasks --validation 0 --begin-of-document "$begin" --end-of-document '<|a|>' --task $task/2; done
same around/index.json around-tasks/index.json "the set of tasks"
train_on around around-run
expect 0 train --evaluate around-run --evaluate-split train --data around --threads 1 --progress never --json
jq -e '.bits_per_byte > 0' out >/dev/null || fail "bits per byte: $(cat out)"
expect 0 generate --checkpoint around-run --threads 1 --prompt cat --tokens 2 --json
jq -e --argjson b "$begin" '.prompt_tokens[0] == $b' out >/dev/null || fail "the first token: $(cat out)"
refused 3 'has no token "<|nothing|>"' shard-data --input many.jsonl --tokenizer "$golden/llama3.json" --output none --end-of-document '<|nothing|>'
refused 3 'tokenizer bytes has one token that is no byte' shard-data --input many.jsonl --output none --begin-of-document 5
refused 3 'finds no special token' shard-data --input many.jsonl --output none --special-tokens text
mkdir foreign
jq '.added_tokens |= map(select(.content | test("text") | not))' "$golden/llama3.json" >foreign/tokenizer.json
name=$(jq -r '.added_tokens[0].content' foreign/tokenizer.json)
expect 0 shard-data --input many.jsonl --tokenizer foreign/tokenizer.json --output own --validation 0
said 'has no known token for the end of a document: the new id'
jq -n --arg n "$name" '{eos_token: $n}' >foreign/tokenizer_config.json
expect 0 shard-data --input many.jsonl --tokenizer foreign/tokenizer.json --output beside --validation 0
said "documents end with .*the eos_token of tokenizer_config.json"
[ "$(jq .end_of_document beside/index.json)" = "$(jq '.added_tokens[0].id' foreign/tokenizer.json)" ] || fail "another end: $(cat beside/index.json)"
rm foreign/tokenizer_config.json
jq -n --argjson id "$(jq '.added_tokens[0].id' foreign/tokenizer.json)" '{eos_token_id: [$id, 1]}' >foreign/config.json
expect 0 shard-data --input many.jsonl --tokenizer foreign/tokenizer.json --output beside-config --validation 0
said "documents end with .*the eos_token_id of config.json"
same beside/index.json beside-config/index.json "the end that config.json says"
# Files beside a tokenizer count before a known name in it. Where they name no token of it, its own counts.
mkdir known
cp "$golden/llama3.json" known/tokenizer.json
for content in '{"content": "<|a|>"}' '"<|nothing|>"'; do
  echo "{\"eos_token\": $content}" >known/tokenizer_config.json
  expect 0 shard-data --input texts.jsonl --tokenizer known/tokenizer.json --output known-set --validation 0 --force
  case $content in
    *nothing*) said 'beside known/tokenizer.json is skipped .*: the id 705 ends documents'; of=.content==\"'<|end_of_text|>'\" ;;
    *) said 'documents end with "<|a|>"'; of=.content==\"'<|a|>'\" ;;
  esac
  jq -e --slurpfile t known/tokenizer.json ".end_of_document == (\$t[0].added_tokens[] | select($of) | .id)" known-set/index.json >/dev/null || fail "another end: $(cat known-set/index.json)"
done
# A token that the tokenizer lacks is no end: the next file counts.
jq -n --argjson id "$(jq '.added_tokens[] | select(.content == "<|a|>").id' known/tokenizer.json)" '{eos_token_id: $id}' >known/config.json
expect 0 shard-data --input texts.jsonl --tokenizer known/tokenizer.json --output known-set --validation 0 --force
said 'eos_token of tokenizer_config.json beside known/tokenizer.json is skipped .*nothing'
said 'documents end with "<|a|>", id .*: the eos_token_id of config.json'
# A foreign model with such a tokenizer has no row for a new end of document. Its own end works everywhere, and the advice in the messages leads to it.
train_on beside beside-run
expect 0 convert-checkpoint beside-run theirs --to safetensors
jq '.eos_token_id = null' theirs/config.json >t && mv t theirs/config.json
cp foreign/tokenizer.json theirs
jq -n --arg n "$name" '{eos_token: {content: $n}}' >theirs/tokenizer_config.json
expect 0 convert-checkpoint theirs imported --from safetensors
expect 0 generate --checkpoint imported --threads 1 --tokens 2 --json
jq -e --argjson e "$(jq .end_of_document beside/index.json)" '.prompt_tokens[0] == $e' out >/dev/null || fail "the first token: $(cat out)"
refused 3 'has a vocabulary of' train --init-from imported --data own --output none "${other[@]}"
said 'shard-data --end-of-document'
expect 0 shard-data --input many.jsonl --tokenizer theirs/tokenizer.json --output theirs-data --validation 0
expect 0 train --init-from imported --data theirs-data --output theirs-run "${other[@]}"
# Weights with another end of document: every way to use them reports it.
ends="around ends documents with token $end; the weights of .* know .* as their end"
expect 0 train --init-from "$(echo run/checkpoints/step-*3)" --data around --output other-ends "${other[@]}"
said "$ends"
expect 0 train --evaluate run --evaluate-split train --data around --threads 1 --progress never
said "$ends"
cp -r run resumed-ends
expect 0 train --model gpt2-nano --data around --output resumed-ends "${other[@]}" --change steps,data
said "$ends"
expect 0 train --evaluate run --evaluate-split train --data llama3-1 --threads 1 --progress never
unsaid 'ends documents with'
# A tokenizer of a family that composes its text, through the programs.
jq '.normalizer = {type: "NFC"}' "$golden/gpt2.json" >composes.json
printf 'cafe\xcc\x81 \xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab\n' >apart.txt
printf 'caf\xc3\xa9 \xed\x95\x9c\n' >whole.txt
for form in apart whole; do expect 0 shard-data --input $form.txt --tokenizer composes.json --output composed-$form --validation 0; done
[ "$(jq '.train[0].tokens_crc32c' composed-apart/index.json)" = "$(jq '.train[0].tokens_crc32c' composed-whole/index.json)" ] || fail "text that is apart has other tokens"
absent none none.partial

mkdir moved
mv llama3-1 moved/data
mv run moved/run
g=(generate --checkpoint moved/run --threads 1)
prompt=$'it\'s 東 \U0001f682 unreachable <|a|>b'
expect 0 "${g[@]}" --prompt "$prompt" --tokens 60 --stop-at length --temperature 20 --json
mv out json
jq -e --arg p "$prompt" '.prompt == $p and (.tokens | length) == 60' json >/dev/null || fail "JSON: $(cat json)"
# The bytes of a token, computed from the file itself: the alphabet's characters of each, or the text of an added token. Bytes that are not UTF-8 are shown otherwise, and
# not compared.
bytes_of() {
  jq -rj --slurpfile t "$golden/llama3.json" '
    ([range(33; 127), range(161; 173), range(174; 256)]) as $same
    | ([range(256)] - $same) as $others
    | (reduce $same[] as $b ({}; .[[$b] | implode] = $b) | reduce range($others | length) as $i (.; .[[256 + $i] | implode] = $others[$i])) as $bytes
    | ($t[0].model.vocab | to_entries | map({(.value | tostring): .key}) | add) as $words
    | ($t[0].added_tokens | map({(.id | tostring): .content}) | add) as $added
    | "0123456789abcdef" as $x
    | [.prompt_tokens[1:][], .tokens[]] | map(tostring | if $added[.] then ($added[.] | explode[]) else ($words[.] | explode[] | $bytes[[.] | implode]) end)
    | map("\\x" + $x[. / 16 | floor:][:1] + $x[. % 16:][:1]) | add' "$1"
}
compared=0
for seed in 1 2 3 4 5 6 7 8; do
  how=(--prompt "$prompt" --tokens 5 --stop-at length --temperature 5 --seed $seed)
  expect 0 "${g[@]}" "${how[@]}" --json
  printf "$(bytes_of out)\n" >expected
  expect 0 "${g[@]}" "${how[@]}"
  mv out shown
  ! iconv -f UTF-8 -t UTF-8 <expected >/dev/null 2>&1 || { same expected shown "what is generated, seed $seed"; : $((++compared)); }
done
[ $compared -gt 0 ] || fail "no text to compare"
grep -qF "$prompt" shown || fail "the prompt does not come out as it went in: $(cat shown)"
refused 3 'no UTF-8' "${g[@]}" --prompt $'a\xff'
rm moved/run/tokenizer-*.json moved/data/tokenizer.json
refused 3 'which is not there any more' "${g[@]}" --prompt cat
expect 0 "${g[@]}" --prompt cat --tokens 2 --tokenizer "$golden/llama3.json"
refused 3 'its tokens mean something else' "${g[@]}" --prompt cat --tokenizer "$golden/gpt2.json"
refused 3 'tokenizer.json' inspect --verify moved/data
passed
