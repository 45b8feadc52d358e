#!/bin/bash
# generate --samples: each continuation equals the text that its seed gives alone, under a heading of its own or in a
# list.
# usage: samples.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
end_at_first_failure

small_text 60 >text
tiny_model 64 >model.toml
expect 0 shard-data --input text --split paragraphs --output data --validation 0
expect 0 train --model model.toml --data data --output run --steps 2 --global-batch 2 --threads 1 --progress never
g=(generate --checkpoint run --threads 1 --prompt 'line' --tokens 30 --temperature 2)

# The text of sample i equals that of a run with --seed seed + i.
expect 0 "${g[@]}" --seed 7 --samples 3; mv out shown
: >expected
for i in 1 2 3; do
  [ $i = 1 ] || echo >>expected
  echo "==> sample $i of 3, seed $((6 + i)) <==" >>expected
  expect 0 "${g[@]}" --seed $((6 + i))
  cat out >>expected
  mv out alone-$i
done
same expected shown "three samples"
cmp -s alone-1 alone-2 && fail "two seeds give the same text"
expect 0 "${g[@]}" --seed 7 --samples 1
[ "$(head -1 out)" = '==> sample 1 of 1, seed 7 <==' ] || fail "a sample without its heading"
tail -n +2 out >one; same one alone-1 "one sample"

# JSON has the samples in a list, each with what it has alone.
expect 0 "${g[@]}" --seed 7 --samples 3 --json; mv out list
[ "$(wc -l <list)" = 1 ] || fail "--json is $(wc -l <list) lines"
jq -e '.seed == 7 and .prompt == "line" and (.samples | length) == 3 and (has("text") | not) and ([.samples[].seed] == [7, 8, 9])' list >/dev/null || fail "--json: $(cat list)"
for i in 0 1 2; do
  expect 0 "${g[@]}" --seed $((7 + i)) --json
  [ "$(jq -c '[.seed, .text, .tokens, .logprobs, .stopped]' out)" = "$(jq -c ".samples[$i] | [.seed, .text, .tokens, .logprobs, .stopped]" list)" ] || fail "sample $i: $(cat list)"
  [ "$(jq -c '[.prompt_tokens, .begin_tokens]' out)" = "$(jq -c '[.prompt_tokens, .begin_tokens]' list)" ] || fail "the prompt of sample $i"
done
expect 0 "${g[@]}" --samples 1 --json
jq -e '(.samples | length) == 1' out >/dev/null || fail "a list of one: $(cat out)"

alike=(generate --checkpoint run --threads 1 --prompt 'line' --tokens 3)
# Samples that cannot differ are reported to be one text. Seeds that do not exist are refused.
expect 0 "${alike[@]}" --temperature 0 --samples 2; once 'warning: all 2 samples are the same text'
expect 0 "${alike[@]}" --top-k 1 --samples 2; once 'warning: all 2 samples are the same text'
expect 0 "${alike[@]}" --temperature 0 --samples 1; unsaid 'warning'
expect 0 "${g[@]}" --samples 2; unsaid 'warning'
refused 2 'leaves no seeds for 3 samples' "${g[@]}" --seed 18446744073709551614 --samples 3
expect 0 "${g[@]}" --seed 18446744073709551614 --samples 2 --json
[[ $(cat out) = *'"seed":18446744073709551615'* ]] || fail "the last seed: $(cat out)"
for wrong in 0 -1 1000001 many; do refused 2 '--samples' "${g[@]}" --samples=$wrong; done

# A reader that goes away ends all samples.
{ "${alike[@]:0:7}" --tokens 100000 --stop-at length --samples 1000000 2>err; echo $? >code; } | head -c 40 >shown
[ "$(cat code)" = 0 ] && [ ! -s err ] || fail "a reader that goes away: exit code $(cat code)"
passed
