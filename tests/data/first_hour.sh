#!/bin/bash
# shard-data for somebody who comes for the first time: packed inputs and pipes, what was refused and why, a missing validation split, and a stdout without room.
# usage: first_hour.sh SHARD_DATA INSPECT
set -u
program=$1
inspect=$2
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
ulimit -f 100000
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
expect() {  # CODE NAME ARGUMENTS...
  local code=$1 name=$2 got=0
  shift 2
  timeout 60 "$program" "$@" >out 2>err || got=$?
  [ "$got" = "$code" ] || { fail "$name: exit code $got, not $code"; cat err; }
}
says() { grep -q -e "$2" err || { fail "$1: stderr does not say '$2'"; cat err; }; }
silent() { ! grep -q -e "$2" err || { fail "$1: stderr says '$2'"; cat err; }; }
same() { [ "$(jq -c '[.train, .validation] | map(map([.tokens, .documents, .tokens_crc32c]))' "$1/index.json")" = "$(jq -c '[.train, .validation] | map(map([.tokens, .documents, .tokens_crc32c]))' "$2/index.json")" ] || fail "$3: other tokens"; }

for ((i = 1; i <= 300; ++i)); do echo "{\"text\": \"document $i with some words\"}"; done >good.jsonl
expect 0 plain --input good.jsonl --output plain </dev/null
gzip -k good.jsonl
{ head -100 good.jsonl | gzip; tail -200 good.jsonl | gzip; } >members.jsonl.gz
expect 0 gzip --input good.jsonl.gz --output gzip </dev/null
same plain gzip gzip
expect 0 members --input members.jsonl.gz --output members </dev/null
same plain members "two members"
expect 0 packed-stdin --input - --output packed-stdin <members.jsonl.gz
same plain packed-stdin "packed standard input"
if command -v zstd >/dev/null; then
  zstd -qk good.jsonl
  expect 0 zstd --input good.jsonl.zst --output zstd </dev/null
  same plain zstd zstd
fi
# Streaming: pipes that the shell makes, of JSON lines and of text, and a list from one.
expect 0 substitution --input <(zcat good.jsonl.gz) --output substitution </dev/null
same plain substitution "<(zcat)"
expect 0 list --input @<(echo good.jsonl) --output list </dev/null
same plain list "@<(echo)"
half=$(($(wc -c <good.jsonl.gz) / 2))
head -c $half good.jsonl.gz >cut.jsonl.gz
expect 3 cut --input cut.jsonl.gz --output cut </dev/null
says cut 'cut.jsonl.gz is cut off'
{ head -c $half good.jsonl.gz; printf 'xxxxxxxx'; tail -c +$((half + 9)) good.jsonl.gz; } >bad.jsonl.gz
expect 3 damaged --input bad.jsonl.gz --output cut </dev/null
says damaged 'bad.jsonl.gz is'
[ ! -e cut ] && [ ! -e cut.partial ] || fail "a set of a cut input is there"

# A flag that no input would use is refused, and of one thing there is one.
printf 'a text\n' >plain.txt
expect 2 unused --input plain.txt --json-key body --output unused </dev/null; says unused '--json-key is for JSON lines, and plain.txt is plain text'
expect 2 unused --input good.jsonl --split lines --output unused </dev/null; says unused '--split is for plain text, and good.jsonl is JSON lines'
expect 2 unused --input - --split lines --output unused <good.jsonl; says unused '--split is for plain text, and standard input is JSON lines'
expect 2 unused --input - --input plain.txt --json-key body --output unused <plain.txt; says unused 'and every input is plain text'
[ ! -e unused ] && [ ! -e unused.partial ] || fail "a refused set is there"
expect 0 mixed --input - --input plain.txt --json-key text --split lines --output mixed <good.jsonl
expect 0 single --input plain.txt --output single --validation 0 </dev/null
says single '^shard-data: 1 document, 7 B of text .*; none refused$'
says single '^shard-data: train 8 tokens in 1 shard, validation 0 tokens in 0 shards$'

# The first refusals are told with their reason, whether they are too many or not.
{ cat good.jsonl; printf '{"other": 1}\nno json\n{"text": ""}\n{"text": 7}\n{"text": "\xff"}\n'; } >bad.jsonl
expect 0 refusals --input bad.jsonl --output refusals --max-rejects 0.1 --json </dev/null
says refusals "^shard-data: refused: bad.jsonl, line 301: no key 'text'$"
says refusals '^shard-data: refused: bad.jsonl, line 303: empty document$'
silent refusals 'line 304'
says refusals '^shard-data: 2 more refused; --rejects FILE lists all$'
jq -e '.first_refusals | length == 3 and .[1] == {source: "bad.jsonl", line: 302, reason: "not JSON"}' out >/dev/null || fail "first refusals: $(cat out)"
expect 0 listed --input bad.jsonl --output listed --max-rejects 0.1 --rejects 'list of refusals' </dev/null
says listed '2 more refused; list of refusals lists all'
expect 3 too-many --input bad.jsonl --output too-many --max-rejects 0.001 </dev/null
says too-many '^  bad.jsonl, line 302: not JSON$'
says too-many '^  and 2 more$'

# A text without a validation split: said, with the flag that makes one; silent where it is there or was not wanted.
echo "One book that is one document." >book.txt
expect 0 no-validation --input book.txt --output no-validation </dev/null
says no-validation 'warning: there is no validation split: the one document was not chosen'
says no-validation '^  try: --split paragraphs .*--validation'
expect 0 not-wanted --input book.txt --output not-wanted --validation 0 </dev/null
silent not-wanted warning
expect 0 validation --input good.jsonl --output validation --validation 0.1 </dev/null
silent validation warning

# A stdout without room is exit 4; the set is there.
if [ -w /dev/full ]; then
  for form in --json --progress=never; do
    code=0
    timeout 60 "$program" --input good.jsonl --output full$form $form >/dev/full 2>err </dev/null || code=$?
    [ $code = 4 ] && grep -q 'standard output cannot be written' err || fail "a full stdout with $form: exit code $code, $(cat err)"
    same plain full$form "a full stdout"
  done
fi

# Names with tabs and newlines stay one field of one line, and no terminal obeys them.
name=$'a\tb\nc\e[31m.txt'
printf 'text\n\n\377\n' >"$name"
expect 0 names --input "$name" --split paragraphs --output names --rejects names.tsv --max-rejects 1 --validation 0 </dev/null
printf 'a\\tb\\nc\\x1b[31m.txt\t3\tinvalid UTF-8\n' | diff - names.tsv || fail "names: other lines"
silent names $'\e'
timeout 60 "$inspect" --verify names >/dev/null || fail "names: inspect --verify refuses the set"

[ $failures = 0 ] && echo "all as it should be"
