#!/bin/bash
# shard-data --task i/N: the set of N tasks equals the set of one process, byte for byte, refusals included.
# Inputs may be packed, divided or empty; tasks run in any order, at the same time, and again after they were killed.
# Missing tasks are reported, and tasks that do not belong together are refused.
# usage: tasks.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
ulimit -f 100000

# Inputs that are divided at awkward places: blank lines with spaces in them, a byte order mark at the beginning, refused documents, an empty file, a file of blank lines,
# one without a last newline, packed files.
words() { for ((i = 1; i <= $1; ++i)); do printf '%s %d: %*s\n' "$2" $i $((i * i % 97)) end; done; }
{ printf '\xef\xbb\xbf'; words 150 alpha | sed 'n;n;s/$/\n \t/'; } >a.txt
words 60 beta | sed 'n;s/$/\n\n/' | gzip >b.txt.gz
: >empty.txt
for ((i = 0; i < 2000; ++i)); do echo " "; done >blank.txt
for ((i = 0; i < 200; ++i)); do printf '\xef\xbb\xbfmarked %d\n' $i; done >marks.txt
{ words 40 gamma | sed 's/$/\n/'; printf 'bad \xff text\n\n'; words 40 delta | sed 's/$/\n/'; printf 'no end of line'; } >c.txt
{ for ((i = 1; i <= 200; ++i)); do echo "{\"text\": \"document $i $((i * i % 977))\", \"body\": \"other $i\"}"; [ $((i % 50)) != 0 ] || echo 'no json'; done; } >d.jsonl
jq -c . d.jsonl 2>/dev/null | head -49 | zstd -q >e.jsonl.zst
head -c 3000 /dev/zero | tr '\0' x >long.txt

# equal NAME COUNT...: compares one process with that many tasks, with the flags in `flags`.
equal() {
  local name=$1 n i tasks
  shift
  expect 0 shard-data "${flags[@]}" --output "$name" --rejects "$name.tsv" --max-rejects 0.9 --json
  jq -S 'del(.seconds, .output)' out >"$name.json"
  for n; do
    tasks=$(seq 0 $((n - 1)) | shuf --random-source=d.jsonl)
    for i in $tasks; do
      absent "$name-$n"
      expect 0 shard-data "${flags[@]}" --output "$name-$n" --rejects "$name-$n.tsv" --max-rejects 0.9 --json --task "$i/$n"
    done
    same "$name" "$name-$n" "$name of $n tasks"
    same "$name.tsv" "$name-$n.tsv" "refusals of $name of $n tasks"
    jq -S 'del(.seconds, .output)' out >summary.json
    same "$name.json" summary.json "summary of $name of $n tasks"
    absent "$name-$n.parts" "$name-$n.partial"
  done
}
flags=(--input a.txt b.txt.gz empty.txt blank.txt c.txt a.txt --split paragraphs --shard-tokens 1000 --validation 0.2)
equal paragraphs 1 2 3 7
[ "$(jq .train.shards paragraphs.json)" -gt 3 ] && [ "$(jq ".rejected + .empty" paragraphs.json)" -ge 3 ] || fail "too little to say anything: $(cat paragraphs.json)"
h5dump -d /sources paragraphs/train/shard-00000.h5 >out 2>err || fail "no sources"
flags=(--input c.txt marks.txt a.txt blank.txt --split lines --shard-tokens 300 --validation 0.1 --threads 2)
equal lines 2 3 7 40
flags=(--input d.jsonl e.jsonl.zst d.jsonl --json-key body --shard-tokens 500 --max-document 60)
equal json 2 3 7
flags=(--input long.txt c.txt --split paragraphs --shard-tokens 700 --max-document 2000 --validation 0)   # documents longer than a shard
equal long 2 5
flags=(--input c.txt a.txt long.txt)   # whole files are not cut
equal whole 2 7
printf 'a.txt\nc.txt\n' >list
flags=(--input @list --split lines)
equal listed 3

# All at once, each task twice: the second one is refused, or finds the part done.
flags=(--input d.jsonl d.jsonl --shard-tokens 900)
expect 0 shard-data "${flags[@]}" --output once --max-rejects 0.5
jobs=()
for i in 0 1 2 3 4 5; do for twice in 1 2; do shard-data "${flags[@]}" --output at-once --max-rejects 0.5 --task $i/6 >"at-once-$i-$twice" 2>&1 & jobs+=($!); done; done
for job in "${jobs[@]}"; do wait "$job"; code=$?; case $code in 0 | 2 | 4) ;; *) fail "exit code $code of tasks at once" ;; esac; done
grep -hv -e 'is done; of 6 tasks' -e 'is there already' -e 'is in use by' -e 'exists already' -e '^  try: ' -e 'shard-data: [0-9]' -e 'shard-data: train' -e refused -e 'parts joined: ' -e '^at-once$' -e 'another task makes' at-once-* >odd
[ ! -s odd ] || fail "tasks at once say: $(cat odd)"
[ -e at-once/index.json ] || expect 0 shard-data "${flags[@]}" --output at-once --max-rejects 0.5 --task 0/6
same once at-once "tasks at once"
rm -rf at-once.parts

# Killed while it reads, and killed while it joins: the same task continues when started again, and finished parts are kept.
for ((i = 1; i <= 20000; ++i)); do echo "{\"text\": \"document $i $((i * i % 977)) and a line of some words, longer than the others, to fill shards with\"}"; done >many.jsonl
flags=(--input many.jsonl --shard-tokens 50000)
expect 0 shard-data "${flags[@]}" --output many
for task in 0 1; do
  mkdir -p killed.parts/part-0000$task-of-00003.partial/train   # what kill -9 left
  echo torn >killed.parts/part-0000$task-of-00003.partial/train/shard-00000.h5
done
expect 0 shard-data "${flags[@]}" --output killed --task 1/3
said 'the part of task 1 is done; of 3 tasks these are missing: 0, 2; the last one makes killed'
expect 0 shard-data "${flags[@]}" --output killed --task 1/3
said 'the part of task 1 is there already; of 3 tasks these are missing: 0, 2'
expect 0 shard-data "${flags[@]}" --output killed --task 0/3 --json
[ "$(jq -c .missing out)" = '[2]' ] || fail "json of a task: $(cat out)"
absent killed
env --default-signal=INT shard-data "${flags[@]}" --output killed --task 2/3 --threads 1 >out 2>err </dev/null &
job=$!
for ((i = 0; i < 400; ++i)); do [ -e killed.partial/train/shard-00001.h5 ] && break; sleep 0.01; done
kill -KILL $job 2>/dev/null
wait $job 2>/dev/null
[ ! -e killed ] || echo "the kill came late"
expect 0 shard-data "${flags[@]}" --output killed --task 1/3
same many killed "after kills"
absent killed.parts killed.partial

# Killed between the set's rename and the end: the next start sees that everything is done.
expect 0 shard-data "${flags[@]}" --output done-2 --task 0/2
cp -r done-2.parts kept.parts
expect 0 shard-data "${flags[@]}" --output done-2 --task 1/2
same many done-2 "two tasks"
mv kept.parts done-2.parts
mkdir done-2.parts/part-00001-of-00002
cp done-2/index.json done-2.parts/index.json
expect 0 shard-data "${flags[@]}" --output done-2 --task 1/2
said 'another task makes done-2 of all parts, or has made it'
absent done-2.parts
refused 2 'done-2 exists already' shard-data "${flags[@]}" --output done-2 --task 1/2
mkdir -p done-2.parts.removed.partial/part-00001-of-00002/train   # killed while it removed the parts
cp done-2/index.json done-2.parts.removed.partial/index.json
expect 0 shard-data "${flags[@]}" --output done-2 --task 1/2
said 'another task makes done-2 of all parts, or has made it'
absent done-2.parts done-2.parts.removed.partial
expect 0 shard-data --input d.jsonl --max-rejects 0.5 --output done-2 --task 0/1 --force
expect 0 inspect --verify done-2

# Too many refused documents: the parts stay, and a start with another limit reads nothing again.
flags=(--input d.jsonl)
expect 0 shard-data "${flags[@]}" --output judged --task 0/2
expect 3 shard-data "${flags[@]}" --output judged --task 1/2
said '4 of 204 documents were refused'
said 'd.jsonl, line 51: not JSON'
said 'd.jsonl, line 153: not JSON'
absent judged judged.partial
expect 0 shard-data "${flags[@]}" --output judged --task 0/2 --max-rejects 0.1
[ -f judged/index.json ] || fail "not judged anew"
for i in 0 1; do kept shard-data --input a.txt --output none --split lines --validation 0.9999999 --task $i/2; done
[ "$code" = 3 ] || fail "exit code $code where all goes to validation"
said 'all went to validation'
absent none

# What a set keeps of documents is the same, with the words about it.
flags=(--input d.jsonl --max-rejects 0.5 --keep-field nosuch)
for i in 0 1; do expect 0 shard-data "${flags[@]}" --output fields --task $i/2; done
said 'no document has the key nosuch'
seq 1400 | sed 's/.*/{"text": "document &", "id": &}/' >ids.jsonl
flags=(--input ids.jsonl --keep-field id)
refused 3 'the field "id" has more than 1000 different values' shard-data "${flags[@]}" --output many-ids --dry-run
expect 0 shard-data "${flags[@]}" --output many-ids --task 0/2
refused 3 'the field "id" has more than 1000 different values' shard-data "${flags[@]}" --output many-ids --task 1/2
said 'try: keep a field that groups documents'
flags=(--input long.txt c.txt --split lines --pack best-fit --sequence 16 --shard-tokens 70 --max-document 2000)
equal packed 2 3

# Tasks that do not belong together, and damage.
expect 0 shard-data --input a.txt c.txt --split lines --output mixed --task 0/2
refused 2 'mixed.parts was begun by a task with other settings (split: "lines" there, "paragraphs" here)' shard-data --input a.txt c.txt --split paragraphs --output mixed --task 1/2
refused 2 'tasks: "2" there, "3" here' shard-data --input a.txt c.txt --split lines --output mixed --task 1/3
refused 2 'shard_tokens: .*validation: ' shard-data --input a.txt c.txt --split lines --output mixed --task 1/2 --shard-tokens 99 --validation 0.5
refused 2 'the inputs are not the ones with which' shard-data --input c.txt a.txt --split lines --output mixed --task 1/2
echo more >>c.txt
refused 3 'c.txt has changed since mixed.parts was begun' shard-data --input a.txt c.txt --split lines --output mixed --task 1/2
absent mixed mixed.parts/part-00001-of-00002
expect 0 shard-data --input a.txt c.txt --split lines --max-rejects 0.5 --output torn --task 0/2
printf X | dd of="$(ls torn.parts/part-00000-of-00002/train/shard-00000.h5)" bs=1 seek=3000 conv=notrunc status=none
part=torn.parts/part-00000-of-00002
torn() { refused 3 "$1" shard-data --input a.txt c.txt --split lines --max-rejects 0.5 --output torn --task "$2/2"; said "try: remove $part and run that task again"; absent torn; }
torn "$part/train/shard-00000.h5" 1
torn "$part/train/shard-00000.h5" 0
mv $part/train moved
torn "$part/train/shard-00000.h5" 0
mv moved $part/train
for damage in 'head -c 100' 'sed s/text_bytes/other/' 'sed s/crc32c/other/'; do
  cp $part/part.json moved
  $damage moved >$part/part.json
  torn "$part/part.json" 1
  mv moved $part/part.json
done
mv $part/part.json moved
torn "$part/part.json" 1
torn "$part holds no part.json" 0
rm -r $part
expect 0 shard-data --input a.txt c.txt --split lines --max-rejects 0.5 --output torn --task 0/2
expect 0 shard-data --input a.txt c.txt --split lines --max-rejects 0.5 --output whole-again
same whole-again torn "after damage"
expect 0 shard-data --input a.txt --split lines --output left --rejects list.tsv --task 0/2
refused 2 'rejects: "list.tsv" there, "" here' shard-data --input a.txt --split lines --output left --task 1/2
refused 2 'max_rejects: ' shard-data --input a.txt --split lines --output left --rejects list.tsv --max-rejects 0.5 --task 1/2
touch left.parts/mine.txt
cp -r left.parts killed.parts
expect 0 shard-data --input a.txt --split lines --output left --rejects list.tsv --task 1/2
said 'warning: the folder of the parts is left: left.parts holds mine.txt'
[ "$(cat out)" = left ] && [ -e left.parts/mine.txt ] || fail "a set whose parts are left: $(cat out) $(ls left.parts)"
expect 0 inspect --verify left
refused 2 'exists already' shard-data --input a.txt --split lines --output left --task 1/2
rm -r left.parts && mv killed.parts left.parts && mkdir left.parts/part-00001-of-00002 && cp left/index.json left.parts/index.json   # killed before the end
expect 0 shard-data --input a.txt --split lines --output left --rejects list.tsv --task 1/2
said 'warning: the folder of the parts is left: left.parts holds mine.txt'
mkdir thesis.parts && echo "years of work" >thesis.parts/thesis.tex
refused 2 'thesis.parts is not replaced: it holds thesis.tex' shard-data --input a.txt --split lines --output thesis --task 0/2
[ "$(ls thesis.parts)" = thesis.tex ] || fail "thesis.parts was touched: $(ls thesis.parts)"

# Usage.
for wrong in 2/2 9/8; do refused 2 'is behind the last of' shard-data --input a.txt --output usage --task $wrong; done
for wrong in 1 /2 1/ a/b -1/2 1/0 0/100000 1/2/3 ' 1/2' 0x1/2; do refused 2 'is not of the form i/N' shard-data --input a.txt --output usage --task "$wrong"; done
refused 2 'standard input is a pipe' shard-data --input - --output usage --task 0/2
refused 2 '/dev/fd/.* is a pipe' bash -c 'shard-data --input <(cat a.txt) --output usage --task 0/2'
refused 2 'dry-run' shard-data --input a.txt --output usage --task 0/2 --dry-run
refused 2 'lies in the folder of the shard set' shard-data --input a.txt --output usage --task 0/2 --rejects usage.parts/list
absent usage usage.parts usage.partial
passed
