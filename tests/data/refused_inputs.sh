#!/bin/bash
# shard-data for a first-time user: packed inputs and pipes, refused documents and why, a missing validation split, and a full stdout.
# usage: refused_inputs.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
ulimit -f 100000

for ((i = 1; i <= 300; ++i)); do echo "{\"text\": \"document $i with some words\"}"; done >good.jsonl
expect 0 shard-data --input good.jsonl --output plain
gzip -k good.jsonl
{ head -100 good.jsonl | gzip; tail -200 good.jsonl | gzip; } >members.jsonl.gz
expect 0 shard-data --input good.jsonl.gz --output gzip
same_tokens plain gzip gzip
expect 0 shard-data --input members.jsonl.gz --output members
same_tokens plain members "two members"
expect 0 shard-data --input - --output packed-stdin <members.jsonl.gz
same_tokens plain packed-stdin "packed standard input"
if command -v zstd >/dev/null; then
  zstd -qk good.jsonl
  expect 0 shard-data --input good.jsonl.zst --output zstd
  same_tokens plain zstd zstd
fi
# Streaming: pipes from the shell with JSON lines and with text, and a list from a pipe.
expect 0 shard-data --input <(zcat good.jsonl.gz) --output substitution
same_tokens plain substitution "<(zcat)"
expect 0 shard-data --input @<(echo good.jsonl) --output list
same_tokens plain list "@<(echo)"
half=$(($(wc -c <good.jsonl.gz) / 2))
head -c $half good.jsonl.gz >cut.jsonl.gz
expect 3 shard-data --input cut.jsonl.gz --output cut
said 'cut.jsonl.gz is cut off'
{ head -c $half good.jsonl.gz; printf 'xxxxxxxx'; tail -c +$((half + 9)) good.jsonl.gz; } >bad.jsonl.gz
expect 3 shard-data --input bad.jsonl.gz --output cut
said 'bad.jsonl.gz is'
[ ! -e cut ] && [ ! -e cut.partial ] || fail "a set of a cut input is there"

# Input that is not text is refused from a pipe, too.
printf '\xff\xfea\0b\0' >utf16
expect 3 shard-data --input - --output piped <utf16; said 'standard input is UTF-16 text'
expect 3 shard-data --input <(cat utf16) --output piped
said 'is UTF-16 text'
said 'iconv -f UTF-16 -t UTF-8 >utf8.txt$'   # a command that reads what the pipe held
gzip -k utf16
expect 3 shard-data --input utf16.gz --output piped
said 'iconv -f UTF-16 -t UTF-8 <(zcat utf16.gz) >utf8.txt$'
# JSON that is not JSON lines is refused by name, with the command that converts it.
printf '[\n  {"text": "one"},\n  {"text": "two"}\n]\n' | tee list.json | expect 3 shard-data --input - --output piped
said 'standard input is a JSON list, and no JSON lines'
said "jq -c '.\[\]'"
expect 3 shard-data --input list.json --output piped
said 'list.json is a JSON list, and no JSON lines'
jq '.[0]' list.json | expect 3 shard-data --input - --output piped
said 'standard input is JSON over several lines'
jq -c '.[]' list.json | expect 0 shard-data --input - --output piped --validation 0
jq -e '.train[0].documents == 2' piped/index.json >/dev/null || fail "two documents: $(cat piped/index.json)"

# A flag without an effect on any input is refused. Messages use the singular for one document.
printf 'a text\n' >plain.txt
expect 2 shard-data --input plain.txt --json-key body --output unused; said '--json-key is for JSON lines, and plain.txt is plain text'
expect 2 shard-data --input good.jsonl --split lines --output unused; said '--split is for plain text, and good.jsonl is JSON lines'
expect 2 shard-data --input - --split lines --output unused <good.jsonl; said '--split is for plain text, and standard input is JSON lines'
expect 2 shard-data --input - --input plain.txt --json-key body --output unused <plain.txt; said 'and every input is plain text'
[ ! -e unused ] && [ ! -e unused.partial ] || fail "a refused set is there"
expect 0 shard-data --input - --input plain.txt --json-key text --split lines --output mixed <good.jsonl
expect 0 shard-data --input plain.txt --output single --validation 0
said '^shard-data: 1 document, 7 B of text .*; none refused$'
said '^shard-data: train 8 tokens in 1 shard, validation 0 tokens in 0 shards$'

# The hint follows from the first refusal.
printf '{"content": "some text", "n": 1, "title": "t"}\n' >other_keys.jsonl
refused 3 '1 of 1 documents were refused' shard-data --input other_keys.jsonl --output keys
said 'try: --json-key NAME takes the text from another key; with text there are: content, title; --rejects FILE lists them'
expect 0 shard-data --input other_keys.jsonl --json-key content --output keys --validation 0
# Conversations: without --chat-template, and with it under other keys.
printf '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}\n' >chats.jsonl
printf '{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]}\n' >sharegpt.jsonl
printf '{"prompt": "a", "completion": "b"}\n' >trl.jsonl
printf '{"instruction": "a", "input": "", "output": "b"}\n' >alpaca.jsonl
for file in chats sharegpt trl; do
  refused 3 '1 of 1 documents were refused' shard-data --input $file.jsonl --output keys2
  said 'try: the first line holds a conversation: --chat-template chatml, or plain, '; unsaid 'json-key'
  expect 0 shard-data --input $file.jsonl --chat-template plain --output chats-$file --validation 0
  same_tokens chats-chats chats-$file "the conversation of $file.jsonl"
done
refused 3 '1 of 1 documents were refused' shard-data --input <(cat chats.jsonl) --output keys2
said 'try: --json-key NAME takes the text from another key; --chat-template reads conversations; '
refused 3 '1 of 1 documents were refused' shard-data --input alpaca.jsonl --output keys2
said 'try: --json-key NAME .*; --chat-template reads prompt and response (the page conversations)'
refused 3 '1 of 1 documents were refused' shard-data --input alpaca.jsonl --chat-template plain --output keys2
said 'try: a conversation is messages .*; the first line of alpaca.jsonl has: instruction, input, output; the page conversations'
unsaid 'json-key'
printf 'caf\xe9\n' >latin.txt
refused 3 '1 of 1 documents were refused' shard-data --input latin.txt --output latin; said 'iconv -f ISO-8859-1 -t UTF-8'

# The first refusals are printed with their reason, whether or not they are too many.
{ cat good.jsonl; printf '{"other": 1}\nno json\n{"text": ""}\n{"text": 7}\n{"text": "\xff"}\n'; } >bad.jsonl
expect 0 shard-data --input bad.jsonl --output refusals --max-rejects 0.1 --json
said "^shard-data: refused: bad.jsonl, line 301: no key 'text'$"
said '^shard-data: refused: bad.jsonl, line 304: '
unsaid 'line 303'
said '^shard-data: 1 more refused; --rejects FILE lists all$'
jq -e '.rejected == 4 and .empty == 1' out >/dev/null || fail "counts: $(cat out)"
jq -e '.first_refusals | length == 3 and .[1] == {source: "bad.jsonl", line: 302, reason: "not JSON"}' out >/dev/null || fail "first refusals: $(cat out)"
expect 0 shard-data --input bad.jsonl --output listed --max-rejects 0.1 --rejects 'list of refusals'
said '1 more refused; list of refusals lists all'
said '4 documents refused and left out, 1 empty document left out'
expect 3 shard-data --input bad.jsonl --output too-many --max-rejects 0.001
said '^  bad.jsonl, line 302: not JSON$'
said '^  and 1 more$'

# Without a validation split there is a warning with the flag that makes one. There is none if the split exists or was not wanted.
echo "One book that is one document." >book.txt
expect 0 shard-data --input book.txt --output no-validation
said 'warning: there is no validation split: the one document was not chosen'
said '^  try: --split paragraphs, or lines, .*--validation'
expect 0 shard-data --input book.txt --split paragraphs --output no-empty-lines
said '^  try: --split lines makes more documents of a text without empty lines; --validation 0.1'
expect 0 shard-data --input book.txt --split lines --output no-lines
said '^  try: --validation 0.1 chooses more documents'
expect 0 shard-data --input book.txt --output not-wanted --validation 0
unsaid warning
expect 0 shard-data --input good.jsonl --output validation --validation 0.1
unsaid warning

# A full stdout is exit 4; the set is written.
if [ -w /dev/full ]; then
  for form in --json --progress=never; do
    code=0
    timeout 60 shard-data --input good.jsonl --output full$form $form >/dev/full 2>err </dev/null || code=$?
    [ $code = 4 ] && grep -q 'standard output cannot be written' err || fail "a full stdout with $form: exit code $code, $(cat err)"
    same_tokens plain full$form "a full stdout"
  done
fi

# Names with tabs and newlines stay one field of one line, without control characters for the terminal.
name=$'a\tb\nc\e[31m.txt'
printf 'text\n\n\377\n' >"$name"
expect 0 shard-data --input "$name" --split paragraphs --output names --rejects names.tsv --max-rejects 1 --validation 0
printf 'a\\tb\\nc\\x1b[31m.txt\t3\tinvalid UTF-8\n' | diff - names.tsv || fail "names: other lines"
unsaid $'\e'
timeout 60 inspect --verify names >/dev/null || fail "names: inspect --verify refuses the set"

# What a set lacks is said: whole conversations, and values of a field.
printf '%s\n' '{"messages":[{"role":"user","content":"How are you today?"},{"role":"assistant","content":"Very well, thank you."}],"lang":"en"}' '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}' >two.jsonl
expect 0 shard-data --input two.jsonl --chat-template plain --pack best-fit --sequence 40 --validation 0 --output cut
said 'warning: 1 of 2 documents are longer than 40 tokens and were cut: a larger --sequence keeps them'
expect 0 shard-data --input two.jsonl --chat-template plain --pack best-fit --sequence 400 --validation 0 --output whole
unsaid 'were cut'
printf '%s\n' '{"text":"a b","lang":"en"}' '{"text":"c"}' >fields.jsonl
expect 0 shard-data --input fields.jsonl --keep-field lang --keep-field langg --validation 0 --output fields
said 'warning: no document has the key langg, which --keep-field names'
passed
