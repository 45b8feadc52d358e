#!/bin/bash
# A masked model from the command line: it learns, an evaluation gives what training recorded, and it resumes. It is
# refused where a next token is needed. Also a set's own mask token and its words.
# usage: masked_model.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
ranks() { local n=$1; shift; echo mpirun -q --bind-to none -n "$n" "$@"; }

small_text 300 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
{ tiny_model 32; printf '[attention]\ncausal = "off"\n'; } >both.toml
tiny_model 32 >causal.toml
train=(train --data data --global-batch 6 --micro-batch 2 --learning-rate 0.01 --threads 1 --progress never --validate-every 10 --validation-sequences 8 --steps 20)
masked=("${train[@]}" --model both.toml --document-mask on)

# Contradictions, before anything is made.
refused 2 '--objective masked: the attention of model .* is causal' "${train[@]}" --model causal.toml --objective masked --output run
refused 2 '--objective causal: the attention of model .* is not causal' "${masked[@]}" --objective causal --output run
refused 2 '--mask-rate 0.2: model .* learns the next token' "${train[@]}" --model causal.toml --mask-rate 0.2 --output run
refused 2 '--mask-words on: model' "${train[@]}" --model causal.toml --mask-words on --output run
refused 2 'mask-rate.*1.5' "${masked[@]}" --mask-rate 1.5 --output run
{ echo 'vocabulary = 257'; cat both.toml; } >tight.toml
refused 3 'which gets the id 257' "${train[@]}" --model tight.toml --output run
absent run
expect 0 train --help
said '--objective'; said '--mask-rate'; said '--mask-words'

expect 0 "${masked[@]}" --output run
jq -es '.[0].loss > .[19].loss and length == 20' run/metrics.jsonl >/dev/null || fail "nothing was learned"
expect 0 inspect run/checkpoints/step-00000020
said 'objective *masked'; said 'mask_rate *0.15'; said 'mask_token *257'; said 'vocabulary 258'

# The validation loss that training recorded, to the bit, on every layout.
evaluate=(train --evaluate run --threads 1 --progress never --json)
expect 0 "${evaluate[@]}" --evaluate-sequences 8
[ "$(jq .loss out)" = "$(tail -1 run/metrics.jsonl | jq .validation_loss)" ] || fail "training recorded $(tail -1 run/metrics.jsonl | jq .validation_loss), the evaluation says $(jq .loss out)"
jq -e '.objective == "masked" and .tokens > 10 and .tokens < 8 * 32 / 3 and .bits_per_byte == null' out >/dev/null || fail "the JSON is wrong: $(cat out)"
mv out eight
expect 0 $(ranks 3 "${evaluate[@]}" --evaluate-sequences 8 --zero 3)
same out eight "three ranks"
expect 0 train --evaluate run --progress never
said 'hidden and predicted'
said 'hidden *tokens, chosen at a rate of 0.15'
expect 0 train --evaluate run --mask-rate 0.3 --mask-words on --threads 1 --progress never --json --evaluate-sequences 8
jq -e '.mask_rate == 0.3 and .mask_words == "on"' out >/dev/null || fail "the JSON is wrong: $(cat out)"
refused 2 '--objective causal: the attention of model .* is not causal' train --evaluate run --objective causal --threads 1

# A stop, and the rest on another layout. Another rate makes another run.
expect 75 "${masked[@]}" --output again --stop-after 7
expect 3 "${masked[@]}" --output again --mask-rate 0.3; said '--mask-rate: the checkpoint has 0.15, this run 0.3'
expect 3 "${masked[@]}" --output again --mask-words on; said '--mask-words: the checkpoint has off, this run on'
expect 0 $(ranks 3 "${masked[@]}" --output again --zero 2)
numbers() { jq -c '[.step, .loss, .gradient_norm, .validation_loss]' "$1/metrics.jsonl"; }
[ "$(numbers run)" = "$(numbers again)" ] || fail "a resumed run has other numbers"
expect 0 reshard-checkpoint --diff run again
expect 75 "${masked[@]}" --output changed --stop-after 7
expect 0 "${masked[@]}" --output changed --mask-rate 0.3 --change mask_rate
[ "$(numbers run)" != "$(numbers changed)" ] || fail "another rate hides the same"
refused 3 'it predicts hidden tokens' generate --checkpoint run --tokens 4
refused 3 'no gpt2 (attention-causal is .off., not .on.)' convert-checkpoint run hugging --to safetensors
absent hugging

# A plan has room for the mask token.
expect 0 partition-model --model both.toml --data data --sequence 32 --global-batch 6 --micro-batch 2 --output plan.json
jq -e '.model.vocabulary == 258' plan.json >/dev/null || fail "the plan's vocabulary is $(jq .model.vocabulary plan.json)"
expect 0 train --plan plan.json --data data --output planned --steps 2 --threads 1 --progress never

# With bytes, words begin with white space.
expect 0 "${masked[@]}" --output words --mask-words on
expect 0 train --evaluate words --threads 1 --progress never --json --evaluate-sequences 8
[ "$(jq .loss out)" = "$(tail -1 words/metrics.jsonl | jq .validation_loss)" ] || fail "words that are hidden in an evaluation are others"

# A tokenizer's own mask token takes no room, and its pieces tell where words begin.
if command -v spm_train >/dev/null; then
  spm_train --input=text --model_prefix=model --vocab_size=60 --hard_vocab_limit=false --user_defined_symbols='[MASK]' --num_threads=1 >/dev/null 2>log || fail "spm_train: $(tail -3 log)"
  mask=$(grep -n '^\[MASK\]' model.vocab | cut -d: -f1)
  expect 0 shard-data --input text --split paragraphs --tokenizer model.model --output pieces --validation 0.1
  expect 0 train --data pieces --model both.toml --mask-words on --output own --steps 2 --threads 1 --progress never --sequence 16
  jq -e --argjson id $((mask - 1)) --argjson n "$(wc -l <model.vocab)" '.identity.mask_token == $id and .model.vocabulary == $n' own/checkpoints/step-*/manifest.json >/dev/null || fail "the mask of the tokenizer: $(jq -c '.identity.mask_token, .model.vocabulary' own/checkpoints/step-*/manifest.json)"
  rm pieces/tokenizer.model
  refused 3 'the words of pieces are not known' train --data pieces --model both.toml --mask-words on --output lost --steps 2
  absent lost
else
  echo "without spm_train: SentencePiece left out"
fi
passed
