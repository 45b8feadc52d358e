#!/bin/bash
# generate --samples: each continuation equals the text that its seed gives alone, under a heading of its own or in a
# list. --prompts: many prompts in a batch. score: log-likelihoods of the same tokens.
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
[ "$(cat code)" = 0 ] && ! grep -v "is put before\|--no-bos leaves it out" err || fail "a reader that goes away: exit code $(cat code)"

# Many prompts: in order, each with what it gives alone, whatever the batch. The context of 64 tokens fills up.
printf '"line"\n{"prompt": "the", "id": "x"}\n\n{"ids": [108, 105]}\n"a"\n"line 1"\n' >prompts
many=(generate --checkpoint run --threads 1 --tokens 100 --temperature 2 --stop-at length --seed 5)
for batch in 1 2 5; do
  expect 0 "${many[@]}" --prompts prompts --batch $batch --json; mv out all-$batch
done
same all-1 all-2 "batches of 1 and of 2"
same all-1 all-5 "batches of 1 and of 5"
[ "$(jq -c .id all-1 | xargs)" = "1 x 3 4 5" ] || fail "ids: $(jq -c .id all-1 | xargs)"
what='[.prompt_tokens, .text, .tokens, .logprobs, .stopped]'
for one in 'line' 'the' 'a' 'line 1'; do
  expect 0 "${many[@]}" --prompt "$one" --json
  [ "$(jq -c "$what" out)" = "$(jq -c "select(.prompt == \"$one\") | $what" all-1)" ] || fail "the prompt '$one' in a batch: $(cat all-1)"
done
expect 0 "${many[@]}" --prompt-ids 108,105 --json
[ "$(jq -c "$what" out)" = "$(jq -c "select(.id == 3) | $what" all-1)" ] || fail "ids in a batch: $(cat all-1)"
refused 3 'the prompt has token 300, and tokenizer bytes has 257' generate --checkpoint run --prompt-ids 1,300
refused 2 'prompt-ids and a text are both given' generate --checkpoint run --prompt-ids 1 --prompt a
refused 2 'prompts reads many prompts, and another one is given' generate --checkpoint run --prompts prompts --prompt a
refused 2 'samples is for one prompt' generate --checkpoint run --prompts prompts --samples 2
refused 3 'nothing: cannot be read' generate --checkpoint run --prompts nothing
echo '{"prompt": "a", "seed": 3}' >wrong
refused 3 'wrong, line 1: the key "seed" is not known' generate --checkpoint run --prompts wrong
printf 'In the beginning\n' >plain
refused 3 'plain, line 1 is no JSON: "In the beginning"' generate --checkpoint run --prompts plain; said 'try: each line is JSON, such as {"prompt": "In the beginning"} or "In the beginning"$'
refused 3 'plain, line 1 is no JSON: "In the beginning"' score --checkpoint run --input plain; said 'try: each line is JSON, such as {"context": "In", "endings": '
printf '{"prompt": "a"\n' >cut
refused 3 'cut, line 1 is no JSON: it breaks off' generate --checkpoint run --prompts cut; said 'try: each line is JSON, such as'
: >empty
refused 3 'empty: holds no prompt' generate --checkpoint run --prompts empty
# A prompt that is refused: of a file before the first is continued, of a pipe behind the answers before it, with any batch.
{ cat prompts; printf '"%065d"\n"a"\n' 0; } >long
for batch in 1 2 8; do
  refused 3 'long, line 7: the prompt has 65 tokens' "${many[@]}" --prompts long --batch $batch
  expect 3 "${many[@]}" --prompts - --batch $batch <long; once 'standard input, line 7: the prompt has 65 tokens'
  same out all-1 "answers before the prompt that is too long, --batch $batch"
done
expect 3 "${many[@]}" --prompts <(cat long) --batch 3; same out all-1 "answers from a named pipe"
refused 2 'context 65 is more than the 64 tokens' generate --checkpoint run --prompt a --context 65

# Scores: of tokens that were generated, their log probabilities.
ids=$(jq -c 'select(.id == "x") | .prompt_tokens' all-1)
of=$(jq -c 'select(.id == "x") | .tokens[:20]' all-1)
echo "{\"context_ids\": $ids, \"endings_ids\": [$of, [1]], \"answer\": 0, \"group\": \"made\"}" >questions
echo '{"text": "the line of the text", "group": "text"}' >>questions
expect 0 score --checkpoint run --input questions --no-bos --json
jq -se --argjson sum "$(jq 'select(.id == "x") | .logprobs[:20] | add' all-1)" '(.[0].log_likelihoods[0] - $sum | fabs) < 1e-3 and .[0].ids[0] == '"$of"' and .[1].tokens == 19 and .[2].summary.groups[1].texts == 1' out >/dev/null || fail "scores: $(cat out)"
mv out scores
expect 0 score --checkpoint run --input - --no-bos --json --batch 1 <questions
same out scores "scores in batches of one"
expect 0 score --checkpoint run --input questions --json; once 'end of document (token 256) is put before the text, as between the documents'
[ "$(head -1 out)" = "$(head -1 scores)" ] || fail "something is put before ids: $(head -1 out)"
OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 expect 0 score --checkpoint run --input questions; once 'warning: 4 processes were started, and each writes the whole result: score works on one process'
OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1 expect 0 score --checkpoint run --input questions; unsaid 'warning'
# A context that is too long loses its beginning, which is said once.
x=$(printf 'x%.0s' {1..64})
for line in "$x" xy "$x$x" "$x"; do echo "{\"context\": \"$line\", \"endings\": [\" a\", \" bc\"]}"; done >long-lines
expect 0 score --checkpoint run --input long-lines --json; once 'warning: 3 contexts did not fit into the 64 tokens that the model can see: their end is kept (context_cut)'
jq -sec '[.[:4][].context_cut] == [3, null, 67, 3]' out >/dev/null || fail "marks of lines: $(cat out)"
expect 0 score --checkpoint run --input questions; unsaid 'did not fit'
expect 0 score --checkpoint run --input questions
grep -q '^all 2 groups: [01] of 1 question right' out && grep -q '^all 2 groups: 1 text, 20 tokens' out || fail "no total: $(cat out)"
grep -q '^made: [01] of 1 question right, accuracy [01].0000 +- 0.0000$' out && grep -q '^text: 1 text, 20 tokens, perplexity [0-9.]*, [0-9.]* bits per byte$' out || fail "a summary: $(cat out)"
refused 3 'wrong, line 1: the key "prompt" is not known\|has neither or both' score --checkpoint run --input wrong
refused 3 'empty: holds no question' score --checkpoint run --input empty
refused 3 'nothing: cannot be read' score --checkpoint run --input nothing
passed
