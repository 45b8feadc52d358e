#!/bin/bash
# shard-data with pairs from the command line: files, pipes and JSON lines, their flags, what inspect shows, tasks, a new tokenizer with tokens of languages, and a decoder that trains on the targets alone.
# usage: pairs.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"

for ((i = 1; i <= 200; ++i)); do echo "the $i birds sing $((i * i % 977))"; done >a.en
for ((i = 1; i <= 200; ++i)); do echo "die $i Vögel singen"; done >a.de
gzip -c a.en >a.en.gz
zstd -qc a.de >a.de.zst

# Two files, packed files and pipes are the same pairs.
expect 0 shard-data --pairs a.en:a.de --output plain --json
[ "$(jq '[.documents, .rejected, .too_long, .empty] | join(" ")' out)" = '"200 0 0 0"' ] || fail "the summary: $(cat out)"
expect 0 shard-data --pairs a.en.gz:a.de.zst --output packed
same_tokens plain packed "packed files"
expect 0 shard-data --pairs <(cat a.en):<(zcat -f a.de) --output piped
same_tokens plain piped "pipes"
cp a.en a:en
expect 0 shard-data --pairs a:en:a.de --output colon
same_tokens plain colon "a name with a colon"
[ "$(jq -c '[.pairs, .answers, .format]' plain/index.json)" = '[true,true,"trainyard.shards/1"]' ] || fail "index.json: $(head -20 plain/index.json)"

# inspect: numbers of pairs, mean and longest of both sides.
expect 0 inspect --verify plain
said '^  pairs  *200: source [0-9.]* tokens in the mean, 23 at most; target [0-9.]* tokens in the mean, 22 at most$'
expect 0 inspect --json plain
[ "$(jq -c '[.pairs, .pair_lengths.pairs, .pair_lengths.source.longest, .pair_lengths.target.tokens == .answer_tokens]' out)" = '[true,200,23,true]' ] || fail "inspect --json: $(jq -c .pair_lengths out)"

# JSON lines are the same pairs, in one process and in tasks.
paste a.en a.de | jq -cR 'split("\t") | {src: .[0], tgt: .[1], from: "en", to: "de"}' >a.jsonl
expect 0 shard-data --input a.jsonl --pairs-keys src,tgt --output json
same_tokens plain json "JSON lines"
for i in 1 0 2; do expect 0 shard-data --input a.jsonl --pairs-keys src,tgt --output tasks --task $i/3; done
same json tasks "a set of tasks"
refused 2 '.*task divides one file where a line begins' shard-data --pairs a.en:a.de --output divided --task 0/2
refused 2 'was begun by a task with other settings (pairs' bash -c 'exec 3>&1; shard-data --input a.jsonl --pairs-keys src,tgt --output other --task 0/2 2>/dev/null; exec shard-data --input a.jsonl --pairs-keys src,tgt --max-source 9 --output other --task 1/2'
absent divided divided.parts

# Languages, as fields and tokens, also of a new tokenizer.
refused 3 'tokenizer bytes has no token "<2de>"' shard-data --pairs a.en:a.de --source-language en --target-language de --output none
said 'try: --language-token spells it otherwise, with {} for the language; --language-token none'
expect 0 shard-data --pairs a.en:a.de --pairs a.de:a.en --source-language en --source-language de --target-language de --target-language en \
  --train-tokenizer bpe:300 --validation 0 --output both
expect 0 inspect both
said '^  field  *target_language, in tokens: de [0-9,]*, en [0-9,]*$'
said '^  pairs  *400: '
[ "$(jq -c '[.added_tokens[].content]' both/tokenizer.json)" = '["<|endoftext|>","<2de>","<2en>"]' ] || fail "special tokens: $(jq -c '[.added_tokens[].content]' both/tokenizer.json)"
expect 0 shard-data --input a.jsonl --pairs-keys src,tgt --language-keys from,to --tokenizer both/tokenizer.json --validation 0 --output again
expect 0 inspect --json again
[ "$(jq -c '.train[0].field_tokens | keys' out)" = '["source_language","target_language"]' ] || fail "fields of JSON lines"
expect 0 shard-data --pairs a.en:a.de --source-language en --target-language de --language-token none --output untold

# Limits leave out, and do not refuse.
expect 0 shard-data --pairs a.en:a.de --max-source 22 --output short --rejects long.tsv --max-rejects 0
said 'none refused, [0-9]* too long pairs left out'
grep -q 'a.en:a.de	100	pair too long: 23 tokens in the source, above --max-source 22' long.tsv || fail "the list of long pairs: $(head -2 long.tsv)"

# Bad input.
head -150 a.de >fewer.de
refused 3 'a.en has 200 lines, and fewer.de has 150 lines' shard-data --pairs a.en:fewer.de --output unequal
sed '3s/.*//' a.de >gap.de
expect 0 shard-data --pairs a.en:gap.de --output gap
said 'refused: a.en:gap.de, line 3: empty target'
sed '3,90s/.*//' a.de >gaps.de
refused 3 '88 of 200 documents were refused, 1 % are allowed' shard-data --pairs a.en:gaps.de --output gaps
refused 3 "200 of 200 documents were refused" shard-data --input a.jsonl --pairs-keys source,target --output keys
said 'try: --pairs-keys and --language-keys name the keys of both sides; the first line of a.jsonl has: src, tgt, from, to;'
absent none unequal gaps keys

# Flags that contradict one another.
refused 2 '--pairs "a.en" does not name two files' shard-data --pairs a.en --output x
refused 2 '--pairs reads lines of text, and a.jsonl has JSON lines' shard-data --pairs a.jsonl:a.de --output x
refused 2 '--pairs-keys "src" does not name two keys' shard-data --input a.jsonl --pairs-keys src --output x
refused 2 '--pairs names the files to read, and --input is for other input' shard-data --pairs a.en:a.de --input a.en --output x
refused 2 '--pairs names the files to read, and --keep-field' shard-data --pairs a.en:a.de --keep-field x --output x
refused 2 '--split says what a document is, and --pairs does, too' shard-data --pairs a.en:a.de --split lines --output x
refused 2 '--json-key says what a document is, and --pairs-keys does, too' shard-data --input a.jsonl --pairs-keys src,tgt --json-key src --output x
refused 2 '--pack best-fit packs documents, and a pair is two texts' shard-data --pairs a.en:a.de --pack best-fit --sequence 64 --output x
refused 2 '--source-language and --target-language need each other' shard-data --pairs a.en:a.de --source-language en --output x
refused 2 '--language-token spells the token of the target' shard-data --pairs a.en:a.de --language-token '<{}>' --output x
refused 2 '--language-token "de" has not one {} for the language in it' shard-data --pairs a.en:a.de --language-token de --source-language en --target-language de --output x
refused 2 '--max-source is for pairs' shard-data --input a.en --max-source 5 --output x
refused 2 '2 languages of one side, for 1 pair of files' shard-data --pairs a.en:a.de --source-language en --source-language fr --target-language de --output x
refused 2 'language "e,n" is empty, too long, no UTF-8, or has one of' shard-data --pairs a.en:a.de --source-language e,n --target-language de --output x
refused 2 'keep-field "source_language"' shard-data --input a.jsonl --pairs-keys src,tgt --language-keys from,to --language-token none --keep-field source_language --output x
refused 2 '--pairs-keys is for JSON lines, and the input is plain text' shard-data --input a.en --pairs-keys src,tgt --output x
refused 2 '--input is required' shard-data --pairs-keys src,tgt --output x
refused 2 '--source-lang ' shard-data --pairs a.en:a.de --source-lang en --output x
said 'here it is --source-language'
absent x

# A decoder trains on the targets alone, and on one direction.
tiny_model 64 >model.toml
expect 0 train --model model.toml --data plain --output run --steps 2 --sequence 32 --global-batch 4 --answers-only --document-mask on
expect 0 train --model model.toml --data 'both[target_language=en]' --output direction --steps 2 --sequence 32 --global-batch 4 --answers-only
passed
