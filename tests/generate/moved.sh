#!/bin/bash
# A run keeps its SentencePiece model: the model file, the shards and the run may move or disappear. Runs on older sets
# keep theirs too.
# usage: moved.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
command -v spm_train >/dev/null || skipped "spm_train is not installed (Debian package sentencepiece)"
ulimit -f 400000
words=(the cat dog house runs sleeps under over green tree river stone walks and sings with a little old friend)
for ((i = 0; i < 2000; ++i)); do echo "${words[i * 7 % 20]} ${words[i * i % 19]} ${words[i * 3 % 17]} ${words[i % 13]} number $((i % 97))"; done >text.txt
spm_train --input=text.txt --model_prefix=small --vocab_size=50 --num_threads=1 >/dev/null 2>log || { cat log; exit 1; }
shards() { shard-data --input text.txt --split lines --tokenizer small.model --output "$1" --validation 0 >/dev/null 2>log || { cat log; exit 1; }; }
train_on() { train --model gpt2-nano --data "$1" --output "$2" --steps 2 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never >/dev/null 2>log || { cat log; exit 1; }; }
say() { generate --checkpoint "$1" --threads 1 --prompt 'the cat' --tokens 8 "${@:2}"; }

shards data
cmp small.model data/tokenizer.model || fail "the set has no model of its own"
mkdir moved
mv data moved/data
mv small.model gone.model
inspect --verify moved/data >/dev/null || fail "a set that moved is refused"
train_on moved/data run
kept=$(echo run/tokenizer-*.model)
cmp gone.model "$kept" || fail "the run has no model of its own"
say run >before || fail "generate: exit code $?"
rm -r moved/data
say run >after && cmp before after || fail "without the data"
mv run moved/run
say moved/run >after && cmp before after || fail "a run that moved"
say moved/run/checkpoints/step-00000002 >after && cmp before after || fail "its checkpoint"
(cd moved/run/checkpoints/step-00000002 && say .) >after && cmp before after || fail "its checkpoint from within"
ln -s moved/run/checkpoints/step-00000002 link
say link >after && cmp before after || fail "its checkpoint by a link"

# A changed tokenizer model is refused, in a run and in a set.
kept=$(echo moved/run/tokenizer-*.model)
printf 'x' | dd of="$kept" bs=1 seek=100 conv=notrunc 2>/dev/null
code=0
say moved/run >out 2>err || code=$?
[ $code = 3 ] || fail "a damaged model: exit code $code, $(cat err)"
rm "$kept"
code=0
say moved/run >out 2>err || code=$?
[ $code = 3 ] && grep -q 'which is not there any more' err && grep -q '^  try: --tokenizer' err || fail "no model anywhere: exit code $code, $(cat err)"
say moved/run --tokenizer gone.model >after && cmp before after || fail "--tokenizer"

# Older sets name the path of the model file.
mv gone.model small.model
shards data
rm data/tokenizer.model
code=0
inspect --verify data >out 2>err || code=$?
[ $code = 3 ] && grep -q 'data/tokenizer.model' err || fail "a set without its model: exit code $code, $(cat err)"
jq --arg path "$PWD/small.model" '.tokenizer.source = $path' data/index.json >index && mv index data/index.json
inspect --verify data >/dev/null || fail "an older set is refused"
train_on data old
cmp small.model "$(echo old/tokenizer-*.model)" || fail "a run of an older set has no model of its own"
rm small.model old/tokenizer-*.model
train_on data new   # training works without the file
grep -q 'small.model is not the tokenizer' log || fail "nobody says that the model is gone: $(cat log)"
passed
