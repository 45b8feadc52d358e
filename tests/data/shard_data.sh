#!/bin/bash
# shard-data from the command line: every bad input, exit codes, files left behind, equal bytes for any number of threads.
# usage: shard_data.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
ulimit -f 100000   # blocks of 1 KiB: nothing here may fill a disk




# hinted CODE COMMAND...: like expect, and the message must have a hint.
hinted() {
  expect "$@"
  grep -q '^  try: ' err || fail "nothing to try: ${*:2}"
}

# Valid inputs.
for ((i = 1; i <= 200; ++i)); do echo "{\"text\": \"document $i with some words\"}"; done >good.jsonl
expect 0 shard-data --input good.jsonl --output plain
[ "$(cat out)" = plain ] || fail "plain: stdout is not the folder alone"
[ -f plain/index.json ] && [ -f plain/train/shard-00000.h5 ] || fail "plain: no set"
absent plain.partial
expect 0 shard-data --input good.jsonl --output json --json
jq -e '.documents == 200 and .rejected == 0 and .train.shards == 1 and .train.tokens + .validation.tokens == .text_bytes + 200' out >/dev/null || fail "json: $(cat out)"

# The same documents, read in other ways.
expect 0 shard-data --input - --output stdin <good.jsonl
same_tokens plain stdin "stdin"
head -100 good.jsonl >a.jsonl
tail -100 good.jsonl >b.jsonl
printf 'a.jsonl\n\nb.jsonl\n' >list
expect 0 shard-data --input @list --output list-out
same_tokens plain list-out "list"
expect 0 shard-data --input a.jsonl b.jsonl --output two
same_tokens plain two "two inputs"
sed 's/"text"/"body"/' good.jsonl >body.jsonl
expect 0 shard-data --input body.jsonl --json-key body --output key
same_tokens plain key "key"
seq 1 300 >plain.txt
expect 0 shard-data --input - --split lines --output text-stdin --json <plain.txt
jq -e '.documents == 300' out >/dev/null || fail "text from stdin: $(cat out)"

# The number of threads does not change the bytes: many documents, several shards.
for ((i = 1; i <= 20000; ++i)); do echo "{\"text\": \"document $i $((i * i % 977)) ${RANDOM}${RANDOM} and a line of some words, longer than the others, to fill shards\"}"; done >many.jsonl
for threads in 1 2 4; do expect 0 shard-data --input many.jsonl --output threads-$threads --threads $threads --shard-tokens 200000 --validation 0.1; done
[ "$(ls threads-1/train | wc -l)" -ge 4 ] || fail "threads: too few shards to say anything"
for threads in 2 4; do diff -r threads-1 threads-$threads || fail "--threads $threads gives other bytes than 1"; done

# Refused documents are counted and listed. More than a hundredth of all documents is too many.
{ cat good.jsonl; printf '{"text": "bad \xff"}\nno json\n'; } >bad.jsonl
expect 0 shard-data --input bad.jsonl --output rejects --rejects rejects.tsv --json
jq -e '.documents == 200 and .rejected == 2' out >/dev/null || fail "rejects: $(cat out)"
printf 'bad.jsonl\t201\tinvalid UTF-8\nbad.jsonl\t202\tnot JSON\n' | diff - rejects.tsv || fail "rejects: other lines"
same_tokens plain rejects "rejects"
{ cat good.jsonl; printf '{"other": "x"}\n{"text": ""}\n{"text": 7}\n'; } >worse.jsonl
hinted 3 shard-data --input worse.jsonl --output too-many --rejects worse.tsv --max-rejects 0.005
said '2 of 202 documents were refused'
absent too-many too-many.partial
printf "worse.jsonl\t201\tno key 'text'\nworse.jsonl\t202\tempty document\nworse.jsonl\t203\tkey 'text' is not text\n" | diff - worse.tsv || fail "too many: other lines"
expect 0 shard-data --input worse.jsonl --output allowed --max-rejects 0.02
same_tokens plain allowed "allowed"

# Inputs that do not exist or are empty.
hinted 3 shard-data --input absent.txt --output missing
said 'cannot read absent.txt'
hinted 3 shard-data --input @absent --output missing
mkdir a-folder
hinted 3 shard-data --input a-folder --output missing
said 'a-folder holds no file to read'
if [ "$(id -u)" != 0 ]; then
  cp good.jsonl secret.jsonl && chmod 000 secret.jsonl
  hinted 3 shard-data --input secret.jsonl --output missing
  said 'cannot read secret.jsonl'
fi
: >empty.txt
hinted 3 shard-data --input empty.txt --output missing
hinted 3 shard-data --input - --output missing
hinted 3 shard-data --input good.jsonl --tokenizer absent.model --output missing
said 'tokenizer absent.model does not exist'
said 'try: the tokenizer.json or tokenizer.model of a published model, from its folder on Hugging Face; spm_train makes a new one'
hinted 3 shard-data --input good.jsonl --tokenizer a-folder --output missing
said 'tokenizer a-folder is a folder without tokenizer.json or tokenizer.model'
: >a-folder/tokenizer.model
hinted 3 shard-data --input good.jsonl --tokenizer a-folder/ --output missing
said 'try: --tokenizer a-folder/tokenizer.model'
hinted 3 shard-data --input good.jsonl --tokenizer good.jsonl --output missing
said 'is no JSON'
said 'SentencePiece model, or a tokenizer.json'
echo 'just words' >words.txt
hinted 3 shard-data --input good.jsonl --tokenizer words.txt --output missing
said 'not a SentencePiece model'
head -1 good.jsonl >one.jsonl
hinted 3 shard-data --input one.jsonl --validation 0.999999 --output missing
said 'all went to validation'
absent missing missing.partial

# Usage.
hinted 2 shard-data --output missing
hinted 2 shard-data --input good.jsonl
hinted 2 shard-data --input good.jsonl --output missing --nonsense
for empty in "--output '' --input good.jsonl" "--output= --input good.jsonl"; do
  hinted 2 bash -c "shard-data $empty"
  said '^shard-data: --output is empty: is a variable unset? Give a value, or leave it out'
done
for empty in "--input '' --output missing" "--input= --output missing"; do
  hinted 2 bash -c "shard-data $empty"
  flag=$(grep -o '^--[a-z]*' <<<"$empty")
  said "^shard-data: $flag is empty: is a variable unset?\$"
  said "try: $flag: [a-z]"
  unsaid 'leave it out'
done
hinted 2 shard-data --input good.jsonl --output missing --rejects ''
said 'Give a value, or leave it out'
hinted 2 shard-data --input good.jsonl --output missing --split words
hinted 2 shard-data --input good.jsonl --output missing --validation 1.5
hinted 2 shard-data --input good.jsonl --output missing --shard-tokens 1
hinted 2 shard-data --input good.jsonl --output missing --threads -1
absent missing missing.partial

# An existing set is kept without --force, and replaced with it.
cp -r plain kept
hinted 2 shard-data --input many.jsonl --output kept
said 'kept exists already'
diff -r plain kept || fail "exists: the set was touched"
expect 0 shard-data --input body.jsonl --json-key body --output threads-4 --force
same_tokens plain threads-4 "force"
absent threads-4.partial threads-4.replaced.partial
hinted 3 shard-data --input worse.jsonl --output kept --force --max-rejects 0.005
diff -r plain kept || fail "force with a bad input: the set was touched"

# A dry run counts and writes nothing.
expect 0 shard-data --input bad.jsonl --output dry --rejects dry.tsv --dry-run --json
jq -e '.documents == 200 and .rejected == 2' out >/dev/null || fail "dry run: $(cat out)"
absent dry dry.partial dry.tsv
hinted 2 shard-data --input good.jsonl --output plain --dry-run
expect 0 shard-data --input good.jsonl --output plain --dry-run --force
same_tokens plain stdin "dry run"

# No space: exit 4, and no files are left.
( ulimit -f 200; trap '' XFSZ; code=0; timeout 60 shard-data --input many.jsonl --output full >out 2>err </dev/null || code=$?; [ $code = 4 ] || { echo "full disk: exit code $code"; cat err; exit 1; } ) || fail "full disk"
grep -q '^  try: ' err || { fail "full disk: no hint"; cat err; }
absent full full.partial

# A signal ends it without leaving files, between documents and while it waits for a pipe. The shell sees the signal.
mkfifo pipe
for signal in INT TERM HUP; do
  # A shell without job control starts background programs that ignore SIGINT; env restores it.
  ( while cat many.jsonl; do :; done >pipe 2>/dev/null ) &
  feed=$!
  env --default-signal=INT shard-data --input pipe --output interrupted --shard-tokens 100000 >out 2>err </dev/null &
  job=$!
  for ((i = 0; i < 200; ++i)); do [ -e interrupted.partial/train/shard-00001.h5 ] && break; sleep 0.05; done
  [ -e interrupted.partial/train/shard-00001.h5 ] || fail "SIG$signal came before a shard was written"
  kill -$signal $job
  code=0
  wait $job || code=$?
  kill $feed 2>/dev/null
  [ $code = $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit code $code"
  said "stopped by SIG$signal; nothing was written"
  absent interrupted interrupted.partial
done
sleep 60 >pipe &
feed=$!
shard-data --input pipe --output waiting >out 2>err </dev/null &
job=$!
for ((i = 0; i < 200; ++i)); do [ -e waiting.partial ] && break; sleep 0.05; done
kill -TERM $job
code=0
wait $job || code=$?
kill $feed
[ $code = 143 ] || fail "SIGTERM in a wait: exit code $code"
absent waiting waiting.partial

# The same while it waits for the first byte of standard input, or for a pipe's writer.
sleep 60 >pipe &
feed=$!
shard-data --input - --output waiting >out 2>err <pipe &
job=$!
sleep 0.5
kill -TERM $job
code=0
wait $job || code=$?
kill $feed
[ $code = 143 ] || fail "SIGTERM before the first byte: exit code $code"
absent waiting waiting.partial
mkfifo silent
shard-data --input silent --output waiting >out 2>err </dev/null &
job=$!
sleep 0.5
kill -TERM $job
code=0
wait $job || code=$?
[ $code = 143 ] || fail "SIGTERM without a writer: exit code $code"
absent waiting waiting.partial

# Shards record the source of each document.
expect 0 shard-data --input a.jsonl b.jsonl --output sources --validation 0
h5dump -y -w 0 -d /sources sources/train/shard-00000.h5 | sed -n '/DATA {/,/}/p' | grep -o '[0-9]\+' | while read -r n; do printf "\\$(printf %o "$n")"; done >sources.txt
printf '0\ta.jsonl\n100\tb.jsonl\n' | diff - sources.txt || fail "sources: $(cat sources.txt)"

# Nobody reads stdout.
{ timeout 60 shard-data --input good.jsonl --output closed 2>err </dev/null; echo $? >code; } | true
[ "$(cat code)" = 0 ] || { fail "closed stdout: exit code $(cat code)"; cat err; }
same_tokens plain closed "closed stdout"

passed
