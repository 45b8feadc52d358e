#!/bin/bash
# shard-data from the command line: every bad input, exit codes, what is left behind, equal bytes for any number of threads.
# usage: shard_data.sh SHARD_DATA
set -u
program=$1
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
ulimit -f 100000   # blocks of 1 KiB: nothing here may fill a disk
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# expect CODE NAME ARGUMENTS...: runs the program (its stdin is ours), keeps out and err.
expect() {
  local code=$1 name=$2 got=0
  shift 2
  timeout 60 "$program" "$@" >out 2>err || got=$?
  [ "$got" = "$code" ] || { fail "$name: exit code $got, not $code"; cat err; }
  [ "$code" = 0 ] || grep -q '^  try: ' err || { fail "$name: no hint"; cat err; }
}
says() { grep -q -e "$2" err || { fail "$1: stderr does not say '$2'"; cat err; }; }
absent() { for path in "${@:2}"; do [ ! -e "$path" ] || fail "$1: $path is there"; done; }

# same A B NAME: the same tokens, though they came from other inputs (/sources differs).
same() {
  local content='[.train, .validation] | map(map([.file, .tokens, .documents, .tokens_crc32c]))'
  [ "$(jq -c "$content" "$1/index.json")" = "$(jq -c "$content" "$2/index.json")" ] || fail "$3: other tokens"
  [ "$(jq '.train | length' "$1/index.json")" -ge 1 ] || fail "$3: nothing to compare"
}

# What is good.
for ((i = 1; i <= 200; ++i)); do echo "{\"text\": \"document $i with some words\"}"; done >good.jsonl
expect 0 plain --input good.jsonl --output plain </dev/null
[ "$(cat out)" = plain ] || fail "plain: stdout is not the folder alone"
[ -f plain/index.json ] && [ -f plain/train/shard-00000.h5 ] || fail "plain: no set"
absent plain plain.partial
expect 0 json --input good.jsonl --output json --json </dev/null
jq -e '.documents == 200 and .rejected == 0 and .train.shards == 1 and .train.tokens + .validation.tokens == .text_bytes + 200' out >/dev/null || fail "json: $(cat out)"

# The same documents in other ways.
expect 0 stdin --input - --output stdin <good.jsonl
same plain stdin "stdin"
head -100 good.jsonl >a.jsonl
tail -100 good.jsonl >b.jsonl
printf 'a.jsonl\n\nb.jsonl\n' >list
expect 0 list --input @list --output list-out </dev/null
same plain list-out "list"
expect 0 two --input a.jsonl b.jsonl --output two </dev/null
same plain two "two inputs"
sed 's/"text"/"body"/' good.jsonl >body.jsonl
expect 0 key --input body.jsonl --json-key body --output key </dev/null
same plain key "key"
seq 1 300 >plain.txt
expect 0 text-stdin --input - --split lines --output text-stdin --json <plain.txt
jq -e '.documents == 300' out >/dev/null || fail "text from stdin: $(cat out)"

# The number of threads is not in the bytes: many documents, several shards.
for ((i = 1; i <= 20000; ++i)); do echo "{\"text\": \"document $i $((i * i % 977)) ${RANDOM}${RANDOM} and a line of some words, longer than the others, to fill shards\"}"; done >many.jsonl
for threads in 1 2 4; do expect 0 threads --input many.jsonl --output threads-$threads --threads $threads --shard-tokens 200000 --validation 0.1 </dev/null; done
[ "$(ls threads-1/train | wc -l)" -ge 4 ] || fail "threads: too few shards to say anything"
for threads in 2 4; do diff -r threads-1 threads-$threads || fail "--threads $threads gives other bytes than 1"; done

# Refused documents are counted and listed; a hundredth of them is too many.
{ cat good.jsonl; printf '{"text": "bad \xff"}\nno json\n'; } >bad.jsonl
expect 0 rejects --input bad.jsonl --output rejects --rejects rejects.tsv --json </dev/null
jq -e '.documents == 200 and .rejected == 2' out >/dev/null || fail "rejects: $(cat out)"
printf 'bad.jsonl\t201\tinvalid UTF-8\nbad.jsonl\t202\tnot JSON\n' | diff - rejects.tsv || fail "rejects: other lines"
same plain rejects "rejects"
{ cat good.jsonl; printf '{"other": "x"}\n{"text": ""}\n{"text": 7}\n'; } >worse.jsonl
expect 3 too-many --input worse.jsonl --output too-many --rejects worse.tsv </dev/null
says too-many '3 of 203 documents were refused'
absent too-many too-many too-many.partial
printf "worse.jsonl\t201\tno key 'text'\nworse.jsonl\t202\tempty document\nworse.jsonl\t203\tkey 'text' is not text\n" | diff - worse.tsv || fail "too many: other lines"
expect 0 allowed --input worse.jsonl --output allowed --max-rejects 0.02 </dev/null
same plain allowed "allowed"

# Inputs that are not there, or hold nothing.
expect 3 missing --input absent.txt --output missing </dev/null
says missing 'cannot read absent.txt'
expect 3 no-list --input @absent --output missing </dev/null
mkdir a-folder
expect 3 directory --input a-folder --output missing </dev/null
says directory 'a-folder is a folder'
if [ "$(id -u)" != 0 ]; then
  cp good.jsonl secret.jsonl && chmod 000 secret.jsonl
  expect 3 unreadable --input secret.jsonl --output missing </dev/null
  says unreadable 'cannot read secret.jsonl'
fi
: >empty.txt
expect 3 empty --input empty.txt --output missing </dev/null
expect 3 empty-stdin --input - --output missing </dev/null
expect 3 no-model --input good.jsonl --tokenizer absent.model --output missing </dev/null
expect 3 bad-model --input good.jsonl --tokenizer good.jsonl --output missing </dev/null
says bad-model 'not a SentencePiece model'
head -1 good.jsonl >one.jsonl
expect 3 all-validation --input one.jsonl --validation 0.999999 --output missing </dev/null
says all-validation 'all went to validation'
absent inputs missing missing.partial

# Usage.
expect 2 no-input --output missing </dev/null
expect 2 no-output --input good.jsonl </dev/null
expect 2 unknown --input good.jsonl --output missing --nonsense </dev/null
expect 2 split --input good.jsonl --output missing --split words </dev/null
expect 2 validation --input good.jsonl --output missing --validation 1.5 </dev/null
expect 2 shard-tokens --input good.jsonl --output missing --shard-tokens 1 </dev/null
expect 2 threads --input good.jsonl --output missing --threads -1 </dev/null
absent usage missing missing.partial

# What exists is kept without --force, and replaced with it.
cp -r plain kept
expect 2 exists --input many.jsonl --output kept </dev/null
says exists 'kept exists already'
diff -r plain kept || fail "exists: the set was touched"
expect 0 force --input body.jsonl --json-key body --output threads-4 --force </dev/null
same plain threads-4 "force"
absent force threads-4.partial threads-4.replaced.partial
expect 3 force-bad --input worse.jsonl --output kept --force </dev/null
diff -r plain kept || fail "force with a bad input: the set was touched"

# A dry run counts and writes nothing.
expect 0 dry-run --input bad.jsonl --output dry --rejects dry.tsv --dry-run --json </dev/null
jq -e '.documents == 200 and .rejected == 2' out >/dev/null || fail "dry run: $(cat out)"
absent dry-run dry dry.partial dry.tsv
expect 2 dry-run-exists --input good.jsonl --output plain --dry-run </dev/null
expect 0 dry-run-force --input good.jsonl --output plain --dry-run --force </dev/null
same plain stdin "dry run"

# No space: exit 4, nothing left.
( ulimit -f 200; trap '' XFSZ; code=0; timeout 60 "$program" --input many.jsonl --output full >out 2>err </dev/null || code=$?; [ $code = 4 ] || { echo "full disk: exit code $code"; cat err; exit 1; } ) || fail "full disk"
grep -q '^  try: ' err || { fail "full disk: no hint"; cat err; }
absent full-disk full full.partial

# A signal ends it with nothing left behind, between documents and while it waits for a pipe; the shell sees the signal.
mkfifo pipe
for signal in INT TERM HUP; do
  # A shell without job control starts background programs deaf to SIGINT: env gives it back.
  ( while cat many.jsonl; do :; done >pipe 2>/dev/null ) &
  feed=$!
  env --default-signal=INT "$program" --input pipe --output interrupted --shard-tokens 100000 >out 2>err </dev/null &
  job=$!
  for ((i = 0; i < 200; ++i)); do [ -e interrupted.partial/train/shard-00001.h5 ] && break; sleep 0.05; done
  [ -e interrupted.partial/train/shard-00001.h5 ] || fail "SIG$signal came before a shard was written"
  kill -$signal $job
  code=0
  wait $job || code=$?
  kill $feed 2>/dev/null
  [ $code = $((128 + $(kill -l $signal))) ] || fail "SIG$signal: exit code $code"
  says SIG$signal "stopped by SIG$signal; nothing was written"
  absent SIG$signal interrupted interrupted.partial
done
sleep 60 >pipe &
feed=$!
"$program" --input pipe --output waiting >out 2>err </dev/null &
job=$!
for ((i = 0; i < 200; ++i)); do [ -e waiting.partial ] && break; sleep 0.05; done
kill -TERM $job
code=0
wait $job || code=$?
kill $feed
[ $code = 143 ] || fail "SIGTERM in a wait: exit code $code"
absent "SIGTERM in a wait" waiting waiting.partial

# ... and while it waits for the first byte of standard input, or for a pipe's writer.
sleep 60 >pipe &
feed=$!
"$program" --input - --output waiting >out 2>err <pipe &
job=$!
sleep 0.5
kill -TERM $job
code=0
wait $job || code=$?
kill $feed
[ $code = 143 ] || fail "SIGTERM before the first byte: exit code $code"
absent "SIGTERM before the first byte" waiting waiting.partial
mkfifo silent
"$program" --input silent --output waiting >out 2>err </dev/null &
job=$!
sleep 0.5
kill -TERM $job
code=0
wait $job || code=$?
[ $code = 143 ] || fail "SIGTERM without a writer: exit code $code"
absent "SIGTERM without a writer" waiting waiting.partial

# Where documents came from.
expect 0 sources --input a.jsonl b.jsonl --output sources --validation 0 </dev/null
h5dump -y -w 0 -d /sources sources/train/shard-00000.h5 | sed -n '/DATA {/,/}/p' | grep -o '[0-9]\+' | while read -r n; do printf "\\$(printf %o "$n")"; done >sources.txt
printf '0\ta.jsonl\n100\tb.jsonl\n' | diff - sources.txt || fail "sources: $(cat sources.txt)"

# Nobody reads stdout.
{ timeout 60 "$program" --input good.jsonl --output closed 2>err </dev/null; echo $? >code; } | true
[ "$(cat code)" = 0 ] || { fail "closed stdout: exit code $(cat code)"; cat err; }
same plain closed "closed stdout"

[ $failures = 0 ] && echo "all as it should be" || { echo "$failures failures"; exit 1; }
