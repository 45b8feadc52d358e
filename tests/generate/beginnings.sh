#!/bin/bash
# Tokens that generate puts before a prompt: with models trained here, with and without a token that begins documents,
# and with an imported model whose tokenizer has a template.
# usage: beginnings.sh BIN_FOLDER GOLDEN_TOKENIZERS
PATH=$(realpath "$1"):$PATH
golden=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
end_at_first_failure

begin=$(jq '.added_tokens[] | select(.content == "<|begin_of_text|>").id' "$golden/llama3.json")
end=$(jq '.added_tokens[] | select(.content == "<|end_of_text|>").id' "$golden/llama3.json")
mkdir with-template
jq --argjson id "$begin" '.post_processor = {type: "Sequence", processors: [{type: "ByteLevel", add_prefix_space: true, trim_offsets: false, use_regex: true},
  {type: "TemplateProcessing", single: [{SpecialToken: {id: "<|begin_of_text|>", type_id: 0}}, {Sequence: {id: "A", type_id: 0}}], pair: [],
   special_tokens: {"<|begin_of_text|>": {id: "<|begin_of_text|>", ids: [$id], tokens: ["<|begin_of_text|>"]}}}]}' "$golden/llama3.json" >with-template/tokenizer.json

small_text 60 >text
printf 'layers = 1\nhidden = 16\nheads = 4\nkv-heads = 2\nffn = 24\ncontext = 32\nnorm = "rms"\npositions = "rotary"\nactivation = "swiglu"\nbiases = "off"\ntied = "off"\n' >model.toml
train_on() { expect 0 train --model model.toml --data "$1" --output "$2" --steps 1 --global-batch 2 --threads 1 --progress never; }
first() {  # WANT CHECKPOINT ARGUMENTS...: checks the tokens before the text, with which the prompt's tokens begin
  local want=$1 checkpoint=$2
  shift 2
  expect 0 generate --checkpoint "$checkpoint" --threads 1 --tokens 2 --json "$@"
  [ "$(jq -c .begin_tokens out)" = "$want" ] || fail "begins with $(jq -c .begin_tokens out), not $want: $checkpoint $*"
  jq -e '.begin_tokens as $b | .prompt_tokens[:$b | length] == $b' out >/dev/null || fail "other prompt tokens: $(cat out)"
}

# Models trained here: the beginning of documents in their shards, else the end of the document before, unless the
# document mask was on.
expect 0 shard-data --input text --split paragraphs --tokenizer "$golden/llama3.json" --output plain --validation 0
train_on plain plain-run
first "[$end]" plain-run --prompt line; once "<|end_of_text|> (token $end) is put before the text, as between the documents"
expect 0 train --model model.toml --data plain --output masked-run --steps 1 --global-batch 2 --threads 1 --progress never --document-mask on
first '[]' masked-run --prompt line; unsaid 'is put before'
first "[$end]" masked-run; unsaid 'is put before'
first "[$end]" plain-run
first '[]' plain-run --prompt line --no-bos
[ "$(jq '.prompt_tokens[0]' out)" != "$end" ] || fail "there is one all the same"
expect 0 shard-data --input text --split paragraphs --tokenizer with-template/tokenizer.json --output ended --validation 0
train_on ended ended-run
first "[$end]" ended-run --prompt line; once "<|end_of_text|> (token $end) is put before the text, as between the documents"
expect 0 shard-data --input text --split paragraphs --tokenizer "$golden/llama3.json" --begin-of-document '<|begin_of_text|>' --output begun --validation 0
# (The model has more rows than the tokenizer has tokens. They count in log probabilities, here and in `score` below.)
{ cat model.toml; echo 'vocabulary = 800'; } >wide.toml
expect 0 train --model wide.toml --data begun --output begun-run --steps 1 --global-batch 2 --threads 1 --progress never
first "[$begin]" begun-run --prompt line; once "<|begin_of_text|> (token $begin) is put before the text, as before each document of the training data"
first "[$begin]" begun-run; once 'is put before the text'
first '[]' begun-run --prompt line --no-bos; [ ! -s err ] || fail "what is left out is said"
first '[]' begun-run --prompt '<|begin_of_text|>line'; unsaid 'is put before'
jq -e --argjson b "$begin" '.prompt_tokens[:1] == [$b] and .prompt_tokens[1] != $b' out >/dev/null || fail "twice: $(cat out)"
# The token is not shown, but it counts: the continuation is another one.
expect 0 generate --checkpoint begun-run --threads 1 --tokens 20 --prompt line --temperature 0; mv out with
expect 0 generate --checkpoint begun-run --threads 1 --tokens 20 --prompt '<|begin_of_text|>line' --no-bos --temperature 0; same out with "the token in the prompt itself"
[ "$(head -c 4 with)" = line ] || fail "the text does not begin with its prompt"

# Scores: what precedes contexts and texts is there once, whether the line has it or not, and is named.
printf '{"context": "line", "endings": [" 1", " 2"]}\n{"text": "line 1"}\n' >bare-lines
printf '{"context": "<|begin_of_text|>line", "endings": [" 1", " 2"]}\n{"text": "<|begin_of_text|>line 1"}\n' >begun-lines
expect 0 score --checkpoint begun-run --threads 1 --input bare-lines --json; mv out bare-scores
once "<|begin_of_text|> (token $begin) is put before the text, as before each document of the training data"
expect 0 score --checkpoint begun-run --threads 1 --input begun-lines --json; unsaid 'is put before'; same out bare-scores "lines that begin with the token"
expect 0 generate --checkpoint begun-run --threads 1 --tokens 2 --prompt line --json; mv out made
jq -c '{context_ids: .prompt_tokens, endings_ids: [.tokens[:1]]}' made >ids-lines
jq -c '.prompt_tokens + .tokens | {ids: .}' made >>ids-lines
expect 0 score --checkpoint begun-run --threads 1 --input ids-lines --json; unsaid 'is put before'
jq -se --slurpfile made made '(.[0].log_likelihoods[0] - $made[0].logprobs[0] | fabs) < 1e-4 and .[1].tokens == ($made[0].prompt_tokens + $made[0].tokens | length) - 1' out >/dev/null || fail "ids: $(cat out)"
expect 0 score --checkpoint masked-run --threads 1 --input bare-lines --json; once "<|end_of_text|> (token $end) is put before a text and before endings without a context"
jq -se '.[1].bytes == 6' out >/dev/null || fail "bytes of a text: $(cat out)"
head -1 bare-lines >one-line
expect 0 score --checkpoint masked-run --threads 1 --input one-line --json; unsaid 'is put before'; mv out one-scores
expect 0 score --checkpoint masked-run --threads 1 --input one-line --json --no-bos; same out one-scores "a model that saw nothing before its documents"

# A text ends before a token that --stop names, also one that has no text.
stops=0
for seed in {1..8}; do
  expect 0 generate --checkpoint begun-run --threads 1 --prompt line --tokens 2000 --temperature 100 --seed $seed --stop-at length --stop '<|begin_of_text|>' --json
  jq -e --argjson b "$begin" '.tokens | all(. != $b)' out >/dev/null || fail "the token is in the text"
  jq -e '.stopped == "stop"' out >/dev/null && stops=$((stops + 1))
done
[ $stops -ge 4 ] || fail "the token has ended $stops of 8 texts"

# An imported model: its tokenizer's files decide.
expect 0 convert-checkpoint plain-run theirs --to safetensors
cp with-template/tokenizer.json theirs
jq --argjson b "$begin" '.bos_token_id = $b' theirs/config.json >config && mv config theirs/config.json
expect 0 convert-checkpoint theirs imported --from safetensors
first "[$begin]" imported --prompt line; once "<|begin_of_text|> (token $begin) is put before the text, as the post_processor of tokenizer.json says"
first '[]' imported --prompt line --no-bos; unsaid 'is put before'
first "[$begin]" imported
# Fine-tuned: the model of a folder whose texts begin with no token gets none either, and one whose texts do begin with
# one gets what its training documents had before them. All end tokens of the folder end a text.
expect 0 train --init-from imported --data ended --output on-run --steps 1 --global-batch 2 --threads 1 --progress never
first "[$end]" on-run --prompt line; once "<|end_of_text|> (token $end) is put before the text"
mkdir bare && cp theirs/*.safetensors bare && cp "$golden/llama3.json" bare/tokenizer.json
jq --argjson b "$begin" --argjson e "$end" '.bos_token_id = $b | .eos_token_id = [$e, 7]' theirs/config.json >bare/config.json
echo '{"eos_token_id": [7, 9]}' >bare/generation_config.json
expect 0 convert-checkpoint bare bare-imported --from safetensors
expect 0 train --init-from bare-imported --data plain --output bare-run --steps 1 --global-batch 2 --threads 1 --progress never
first '[]' bare-imported --prompt line; unsaid 'is put before'
first '[]' bare-run --prompt line; unsaid 'is put before'
for model in bare-imported bare-run; do
  for stop in length end-of-document; do
    for seed in 1 2 3 4 5 6; do generate --checkpoint $model --threads 1 --prompt line --tokens 3000 --temperature 100 --seed $seed --stop-at $stop --json || fail "exit code $?"; done >out 2>err
    jq -se --argjson e "$end" 'all([.tokens[] | select(. == $e or . == 7 or . == 9)] == [])' out >/dev/null || fail "an end token is drawn: $model --stop-at $stop"
  done
  jq -se 'any(.stopped == "end-of-document")' out >/dev/null || fail "no text has ended"
done

# A tokenizer that puts no token before a text. Without a prompt a text begins with config.json's bos_token_id, else
# with an end of document.
cp "$golden/llama3.json" theirs/tokenizer.json
expect 0 convert-checkpoint theirs silent --from safetensors
first '[]' silent --prompt line; [ ! -s err ] || fail "nothing is put, and it is said"
first "[$begin]" silent
jq 'del(.bos_token_id)' theirs/config.json >config && mv config theirs/config.json
expect 0 convert-checkpoint theirs silent --from safetensors --force
first "[$end]" silent
# The tokenizer's settings, read when the model is used and not when it was imported.
jq -n '{add_bos_token: true, bos_token: {content: "<|a|>"}}' >theirs/tokenizer_config.json
first "[$(jq '.added_tokens[] | select(.content == "<|a|>").id' "$golden/llama3.json")]" silent --prompt line; once 'add_bos_token of tokenizer_config.json says'
expect 0 generate --checkpoint silent --threads 1 --tokens 2 --prompt line; [ "$(head -c 4 out)" = line ] || fail "what is put before is shown: $(cat out)"
jq -n '{add_bos_token: true, bos_token: "<|gone|>"}' >theirs/tokenizer_config.json
refused 3 'puts "<|gone|>" before each text' generate --checkpoint silent --threads 1 --tokens 2 --prompt line
first '[]' silent --prompt line --no-bos

refused 2 'nothing to begin with' generate --checkpoint plain-run --no-bos
passed
