#!/bin/bash
# shard-data --force replaces only shard sets that it wrote: no foreign file, no input, nothing behind a link.
# usage: force.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
ulimit -f 100000
for ((i = 1; i <= 200; ++i)); do echo "{\"text\": \"document $i with some words\"}"; done >good.jsonl
# untouched WORDS ARGUMENTS...: the command is refused, and every file is unchanged.
untouched() {
  find . -type f ! -name out ! -name err ! -name '*.sum' -exec md5sum {} + | sort -k2 >before.sum
  refused 2 "$1" shard-data "${@:2}"
  find . -type f ! -name out ! -name err ! -name '*.sum' -exec md5sum {} + | sort -k2 >after.sum
  diff before.sum after.sum || fail "${*:2}: files were touched"
}
replaced() { expect 0 shard-data "$@" --force; }

mkdir thesis
echo "years of work" >thesis/thesis.tex
untouched 'thesis is not replaced: it holds files but no index.json' --input good.jsonl --output thesis --force
untouched 'thesis is not replaced' --input good.jsonl --output thesis/ --force
untouched 'thesis is not replaced' --input good.jsonl --output thesis --force --dry-run
echo '{"format": "something else"}' >thesis/index.json
untouched 'index.json that does not belong to a shard set' --input good.jsonl --output thesis --force
cp good.jsonl thesis/text.jsonl
untouched 'thesis is not replaced: it holds the input thesis/text.jsonl' --input thesis/text.jsonl --output thesis --force
untouched 'good.jsonl is not replaced: it is an input' --input good.jsonl --output good.jsonl --force
mkdir here
cd here
untouched 'is not replaced: it holds the folder that this program was started in' --input ../good.jsonl --output . --force
untouched 'is not replaced: it holds the input ../good.jsonl' --input ../good.jsonl --output .. --force
cd ..
ln good.jsonl hard.jsonl
untouched 'hard.jsonl is not replaced: it is an input' --input good.jsonl --output hard.jsonl --force
echo good.jsonl >list
untouched 'list is not replaced: it is an input' --input @list --output list --force

# A set of ours is replaced, again and again. With one more file in it, it is not.
replaced --input good.jsonl --output data
replaced --input good.jsonl --output data
replaced --input good.jsonl --output data/.
echo "a note" >data/notes.txt
untouched 'data is not replaced: it holds notes.txt, which its index.json does not name' --input good.jsonl --output data --force
rm data/notes.txt
cp data/train/shard-00000.h5 data/train/shard-00009.h5
untouched 'holds train/shard-00009.h5' --input good.jsonl --output data --force
rm data/train/shard-00009.h5
cp good.jsonl data/train/good.jsonl
untouched 'data is not replaced: it holds the input' --input data/train/good.jsonl --output data --force
rm data/train/good.jsonl
ln -s "$PWD/good.jsonl" data/link.jsonl
untouched 'data is not replaced: it holds the input data/link.jsonl' --input data/link.jsonl --output data --force
rm data/link.jsonl
mkdir elsewhere
mv data elsewhere/data
ln -s elsewhere/data data
untouched 'data is not replaced: it is a symbolic link' --input good.jsonl --output data --force
untouched 'data is not replaced: it is a symbolic link' --input good.jsonl --output data/ --force
rm data

# NAME.partial may belong to somebody, too. What a killed run left there does not.
for name in new.partial new.replaced.partial; do
  mkdir $name
  echo "years of work" >$name/thesis.tex
  untouched "$name is not replaced: it holds files" --input good.jsonl --output new
  echo "lock" >$name/lock
  untouched "$name is not replaced: it holds thesis.tex, which is of no shard set" --input good.jsonl --output new
  rm -r $name
  echo "a file" >$name
  untouched "$name is not replaced: it is no folder" --input good.jsonl --output new
  rm $name
done
mkfifo pipe
sleep 60 >pipe &
feed=$!
shard-data --input pipe --output killed >out 2>err </dev/null &
job=$!
for ((i = 0; i < 200; ++i)); do [ -e killed.partial/lock ] && break; sleep 0.05; done
kill -KILL $job
wait $job 2>/dev/null
kill $feed
[ -e killed.partial/lock ] || fail "nothing was left by the killed run"
mkdir killed.partial/train
echo "half of a shard" >killed.partial/train/shard-00000.h5
replaced --input good.jsonl --output killed
[ -f killed/index.json ] && [ ! -e killed/lock ] && [ ! -e killed.partial ] || fail "after a killed run: $(ls -R killed*)"

# A list of refusals is replaced; another file in its place is not.
printf '{"text": 7}\n' >>good.jsonl
replaced --input good.jsonl --output data --rejects rejects.tsv
replaced --input good.jsonl --output data --rejects rejects.tsv
grep -q "key 'text' is not text" rejects.tsv || fail "rejects.tsv: $(cat rejects.tsv)"
untouched 'rejects.tsv exists already' --input good.jsonl --output other --rejects rejects.tsv
untouched 'thesis.tex is not replaced: it is no list of refused documents' --input good.jsonl --output data --rejects thesis/thesis.tex --force
untouched 'good.jsonl is not replaced: it is an input' --input good.jsonl --output data --rejects good.jsonl --force
ln -s rejects.tsv rejects-link
untouched 'rejects-link is not replaced: it is a symbolic link' --input good.jsonl --output data --rejects rejects-link --force
ln -s nowhere dangling
untouched 'dangling exists already' --input good.jsonl --output other --rejects dangling
untouched 'dangling is not replaced: it is a symbolic link' --input good.jsonl --output data --rejects dangling --force

# The list may not lie where the set is, will be or is being made: the set would then hold a foreign file.
for list in data/rejects.tsv ./data/../data/train/rejects.tsv data.partial/rejects.tsv data.replaced.partial; do
  untouched "rejects $list lies in the folder of the shard set" --input good.jsonl --output data/ --rejects $list --force
done
untouched 'rejects fresh/rejects.tsv lies in' --input good.jsonl --output fresh --rejects fresh/rejects.tsv
untouched 'rejects fresh.partial/rejects.tsv lies in' --input good.jsonl --output fresh --rejects fresh.partial/rejects.tsv
[ ! -e fresh ] && [ ! -e fresh.partial ] && [ ! -e data.partial ] && [ ! -e nowhere ] || fail "something was made: $(ls)"
replaced --input good.jsonl --output data --rejects data-rejects.tsv

# A dry run writes no list, and does not claim that it did.
for ((i = 0; i < 5; ++i)); do printf '{"text": 7}\n'; done >>good.jsonl
code=0
shard-data --input good.jsonl --output new --rejects new.tsv --dry-run --max-rejects 0.5 >out 2>err || code=$?
[ $code = 0 ] && grep -q 'more refused; without --dry-run, new.tsv lists all' err || fail "a dry run: exit $code, $(cat err)"
shard-data --input good.jsonl --output new --rejects new.tsv --dry-run >out 2>err && fail "a dry run takes too many refusals"
grep -q 'try: without --dry-run, new.tsv lists them' err || fail "a dry run's refusal: $(cat err)"
[ ! -e new.tsv ] || fail "a dry run wrote"

passed
