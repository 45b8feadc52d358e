#!/bin/bash
# score --references from the command line: what it prints, packed inputs and pipes, line ends and marks, and every
# refusal.
# usage: translations.sh BIN_FOLDER GOLDEN_TRANSLATIONS
PATH=$(realpath "$1"):$PATH
golden=$(realpath "$2")
. "$(dirname "$0")/../script.sh"

s="score --references"
hyp=$golden/german.hypothesis one=$golden/german.reference-1 two=$golden/german.reference-2

# The scores of sacrebleu, to every digit that it prints.
expect 0 $s "$one" --input "$hyp" --metric bleu,chrf,chrf++
once '^BLEU 55.07, precisions 80.0/61.2/51.2/39.5, brevity penalty 0.982, ratio 0.982, 55 words for 56, nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:trainyard-[0-9.]*$'
once '^chrF2 76.09, nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:trainyard-[0-9.]*$'
once '^chrF2++ 74.12, nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:'
[ ! -s err ] || fail "says something on stderr"
for tokenizer in 13a none char intl zh; do
  expect 0 $s "$one" "$two" --input "$hyp" --metric bleu --bleu-tokenizer $tokenizer --json
  jq -c '[.score, .precisions, .brevity_penalty, [.hypothesis_words, .reference_words], .matched_ngrams, .all_ngrams]' out >ours
  jq -c ".german.scores[] | select(.tokenizer == \"$tokenizer\" and .references == 2) | [.score, .precisions, .brevity_penalty, .lengths, .matched, .all]" "$golden/scores.json" >theirs
  same theirs ours "$tokenizer"
  jq -e ".metric == \"BLEU\" and .lines == 6 and (.signature | startswith(\"nrefs:2|case:mixed|eff:no|tok:$tokenizer|smooth:exp|version:trainyard-\"))" out >/dev/null || fail "JSON of $tokenizer"
done
expect 0 $s "$one" --input "$one"
once '^BLEU 100.00, precisions 100.0/100.0/100.0/100.0, brevity penalty 1.000'
once '^chrF2 100.00'
expect 0 $s "$golden/nothing.reference-1" --input "$golden/nothing.hypothesis" --json
jq -se 'length == 2 and all(.score == 0)' out >/dev/null || fail "scores without a match"
expect 0 $s "$golden/empty.reference-1" --input "$golden/empty.hypothesis"
once '^BLEU 0.00, precisions 0.0/0.0/0.0/0.0, brevity penalty 0.000, ratio 0.000, 0 words for 6'

# Wherever lines come from, they are the same lines.
expect 0 $s "$one" "$two" --input "$hyp"
cp out plain
for source in "cat" "sed s/\$/\\r/" "head -c -1" "sed 1s/^/\xef\xbb\xbf/"; do
  $source "$hyp" >changed
  expect 0 $s "$one" "$two" --input changed
  same plain out "$source"
  $source "$one" >changed
  expect 0 $s changed "$two" --input "$hyp"
  same plain out "$source of a reference"
done
gzip -c "$one" >one.gz
expect 0 $s one.gz "$two" --input "$hyp"
same plain out gzip
if command -v zstd >/dev/null; then
  zstd -qc "$hyp" >hyp.zst
  expect 0 $s one.gz "$two" --input hyp.zst
  same plain out zstd
fi
$s "$one" "$two" <"$hyp" >out && same plain out "standard input"
gzip -c "$hyp" | $s "$one" --references "$two" --input - >out && same plain out "packed standard input"
$s - "$two" --input "$hyp" <"$one" >out && same plain out "a reference from standard input"
$s <(cat "$one") <(gzip -c "$two") --input <(cat "$hyp") >out && same plain out pipes
{ for i in $(seq 1 40000); do echo 'a line of words, number '"$i"; done; } >long
tr '\n' ' ' <long >longest
expect 0 $s longest --input longest --json
jq -se 'length == 2 and all(.score > 99.999999 and .score < 100.000001)' out >/dev/null || fail "one line of $(wc -c <longest) bytes"
expect 0 $s long --input long --metric chrf
{ $s long --input long; echo $? >code; } | true
[ "$(cat code)" = 0 ] || fail "a reader that goes away: exit code $(cat code)"

# Intervals: the same seed, the same numbers; the half width of many lines is that of sacrebleu within the noise.
b="$s $golden/drawn.reference-1 --input $golden/drawn.hypothesis"
expect 0 $b --confidence 1000 --json
cp out first
expect 0 $b --confidence 1000 --seed 12345 --json
same first out "the default seed"
expect 0 $b --confidence 1000 --seed 1 --json
cmp -s first out && fail "another seed gives the same"
jq -c 'select(.confidence.low < .score and .score < .confidence.high) | [.metric, (.signature | contains("|bs:1000|seed:1|"))]' out >seen
printf '["BLEU",true]\n["chrF2",true]\n' >wanted
same wanted seen intervals
expect 0 $b --confidence 1000 --baseline "$golden/drawn.baseline"
said '^BLEU 45.[0-9]*, 95 % in 4[0-9.]* to [45][0-9.]* (mean 45[0-9.]* +- 3[0-9.]*), [-+][0-9.]* to the baseline.s 4[0-9.]* (p 0.[12][0-9]*), precisions'
expect 0 $b --confidence 100 --baseline "$golden/drawn.hypothesis" --json
jq -se 'all(.baseline.difference == 0 and .baseline.p_value == 1)' out >/dev/null || fail "a system differs from itself"

# Text of separate signs is suspected, for BLEU.
yes 'a word .' | head -100 >tokenized
expect 0 $s tokenized --input tokenized
once '100 lines of tokenized end with a space and a full stop'
expect 0 $s tokenized --input tokenized --metric chrf
unsaid 'full stop'
head -99 tokenized >fewer
expect 0 $s fewer --input fewer
unsaid 'full stop'

# Refusals of files.
printf 'a\nb\n' >two-lines
: >none
refused 3 'german.hypothesis has 6 lines, and two-lines has 2 lines' $s two-lines --input "$hyp"
refused 3 'two-lines has 2 lines, and none has 0 lines' $s two-lines none --input two-lines
refused 3 'none holds no line' $s none --input none
refused 3 'standard input holds no line' $s none
said 'try: --input FILE names the translations'
refused 3 'standard input has 0 lines, and two-lines has 2 lines' $s two-lines two-lines
said 'try: --input FILE names the translations'
printf '\xef\xbb\xbf' >mark
refused 3 'mark holds no line' $s none --input mark
printf 'a\n\xff\n' >bytes
refused 3 'bytes, line 2: is no UTF-8' $s two-lines --input bytes
refused 3 'bytes, line 2: is no UTF-8' $s two-lines bytes --input two-lines
refused 3 'bytes, line 2: is no UTF-8' $s two-lines --input two-lines --baseline bytes --confidence 10
iconv -t UTF-16 two-lines >utf16
refused 3 'utf16 is UTF-16 text' $s two-lines --input utf16
head -c 17000000 /dev/zero | tr '\0' x >huge
refused 3 'huge, line 1: longer than 16 MiB' $s two-lines --input huge
refused 3 'line 1: longer than 16 MiB' $s two-lines --input <(tr '\0' x </dev/zero)   # without an end
head -c 60 one.gz >cut.gz
refused 3 'cut.gz is cut off' $s cut.gz --input "$hyp"
refused 3 'absent' $s absent --input "$hyp"
refused 3 'is a folder' $s . --input "$hyp"

# Refusals of flags.
refused 2 '--checkpoint is required' score
refused 2 '--input is required' score --checkpoint run
for flag in '--metric bleu' '--bleu-tokenizer intl' '--confidence 10' '--seed 1' '--baseline two-lines'; do
  refused 2 "${flag%% *} needs --references" score --checkpoint run --input two-lines $flag
done
for flag in '--checkpoint run' '--tokenizer bytes' '--threads 1' --stream-weights '--batch 2' --no-bos; do
  refused 2 "${flag%% *} is of no use beside --references" $s two-lines --input two-lines $flag
done
refused 2 '--seed needs --confidence' $s two-lines --input two-lines --seed 1
refused 2 '--baseline needs --confidence' $s two-lines --input two-lines --baseline two-lines
refused 2 '--metric names chrf twice' $s two-lines --input two-lines --metric chrf,bleu,chrf
refused 2 'ter is not known; use bleu, chrf, chrf++' $s two-lines --input two-lines --metric bleu,ter
refused 2 'flores200 is not known; use 13a, none, char, intl, zh' $s two-lines --input two-lines --bleu-tokenizer flores200
refused 2 '--bleu-tokenizer intl is of no use without the metric bleu' $s two-lines --input two-lines --metric chrf --bleu-tokenizer intl
refused 2 'standard input is named twice' $s - --input -
refused 2 '1 must lie between 2 and' $s two-lines --input two-lines --confidence 1
expect 2 score --refs two-lines --input two-lines
said '\--references'
expect 2 $s two-lines --input two-lines --tokenize intl
said '\--bleu-tokenizer'
passed
