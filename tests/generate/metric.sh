#!/usr/bin/env bash
# train --evaluate --metric: the scores of targets that a model writes are those of generate and score on the same text,
# on any number of ranks, and apart by language.
#   metric.sh FOLDER_OF_PROGRAMS
set -u
programs=$(realpath "$1")
PATH=$programs:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
failures=0
fail() {
  echo "FAIL: $*" >&2
  failures=$((failures + 1))
}
refused() {  # CODE PATTERN COMMAND...
  local want=$1 pattern=$2 code=0
  shift 2
  "$@" >out 2>err || code=$?
  { [ "$code" = "$want" ] && grep -q -- "$pattern" err; } || fail "exit code $code of $*: $(cat out err)"
}

for i in $(seq 60); do echo "the $i birds sing in tree $((i * 7))"; done >source
for i in $(seq 60); do echo "in Baum $((i * 7)) singen die $i Vögel"; done >target
shard-data --pairs source:target --validation 0 --output pairs >/dev/null 2>log || fail "no pairs: $(cat log)"
printf 'hidden = 32\ncontext = 96\n[encoder]\nlayers = 1\n[decoder]\nlayers = 1\n' >two.toml
train --model two.toml --data pairs --output run --steps 60 --global-batch 8 --micro-batch 8 --learning-rate 1e-2 \
  --sequence 64 --source-sequence 48 --threads 1 --progress never >/dev/null 2>log || fail "no run: $(cat log)"
evaluate=(train --evaluate run --evaluate-split train --threads 1 --progress never)

"${evaluate[@]}" --metric bleu,chrf,chrf++ --json >one 2>log || fail "no metric: $(cat log)"
jq -R . source | generate --checkpoint run --threads 1 --tokens 64 --prompts - | jq -r .text >written
score --input written --references target --metric bleu,chrf,chrf++ --json >scores 2>log || fail "no scores: $(cat log)"
[ "$(jq -c '[.metrics[].score]' one)" = "$(jq -sc '[.[].score]' scores)" ] || fail "other scores: $(cat one scores)"
[ "$(jq -c '[.metrics[] | .pairs]' one)" = '[60,60,60]' ] || fail "pairs: $(cat one)"
[ "$(jq -r .metrics.bleu.signature one)" = "$(jq -r 'select(.metric == "BLEU").signature' scores)" ] || fail "signatures"
mpirun -n 3 "${evaluate[@]}" --metric bleu,chrf,chrf++ --json >three 2>log || fail "three ranks: $(cat log)"
[ "$(jq -c .metrics three)" = "$(jq -c .metrics one)" ] || fail "three ranks: $(cat three)"
"${evaluate[@]}" --metric chrf --evaluate-sequences 7 >table 2>log && grep -q '^chrf  *[0-9.]* of 7 pairs, nrefs:1' table || fail "a table: $(cat table log)"

head -40 source >a.en && head -40 target >a.de && tail -20 source >b.en && tail -20 target | sed 's,singen,zingen,' >b.nl
shard-data --pairs a.en:a.de --source-language en --target-language de --pairs b.en:b.nl --source-language en \
  --target-language nl --language-token none \
  --validation 0 --output both >/dev/null 2>log || fail "no languages: $(cat log)"
"${evaluate[@]}" --data both --metric chrf --json >languages 2>log || fail "languages: $(cat log)"
[ "$(jq -c '.metrics.chrf.languages | map_values(.pairs)' languages)" = '{"en-de":40,"en-nl":20}' ] || fail "languages: $(cat languages)"
"${evaluate[@]}" --data 'both[target_language=nl]' --metric chrf --json >dutch 2>log || fail "a language: $(cat log)"
[ "$(jq -c '[.metrics.chrf.score, .metrics.chrf.pairs]' dutch)" = "$(jq -c '.metrics.chrf.languages["en-nl"] | [.score, .pairs]' languages)" ] || fail "a language alone: $(cat dutch)"

shard-data --input target --split lines --validation 0 --output texts >/dev/null 2>&1
train --model two.toml --data pairs:1,texts:1 --output tasks --steps 2 --global-batch 8 --micro-batch 8 --sequence 64 \
  --source-sequence 48 --threads 1 --progress never >/dev/null 2>log || fail "no tasks: $(cat log)"
train --evaluate tasks --evaluate-split train --threads 1 --progress never --metric chrf --json >tasks.json 2>log || fail "tasks: $(cat log)"
[ "$(jq -sc 'map([.objective, .metrics.chrf.pairs])' tasks.json)" = '[["pairs",60],["spans",null]]' ] || fail "tasks: $(cat tasks.json)"
train --model two.toml --data texts --output spans --steps 2 --global-batch 8 --micro-batch 8 --sequence 16 --source-sequence 32 --threads 1 --progress never >/dev/null 2>log || fail "no spans: $(cat log)"
refused 2 '--metric is for sets of pairs, and texts is none' train --evaluate spans --evaluate-split train --threads 1 --progress never --metric bleu
refused 2 '--metric names bleu twice' "${evaluate[@]}" --metric bleu,bleu
refused 2 '--metric: rouge' "${evaluate[@]}" --metric rouge
refused 2 '--metric writes targets with weights that are kept' "${evaluate[@]}" --metric bleu --stream-weights
refused 2 '--metric is only for --evaluate' train --data pairs --output no --metric bleu
echo "$failures failures"
exit $((failures > 0))
