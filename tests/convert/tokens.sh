#!/bin/bash
# What exported models say about tokens, from the command line: names of SentencePiece tokens, the token before texts,
# padding of a RoBERTa.
# usage: tokens.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export OMP_NUM_THREADS=1

small_text 400 >text
tiny_model 16 >tiny.toml
train=(train --global-batch 4 --sequence 16 --threads 1 --progress never --steps 1)
data() { shard-data --input text --split paragraphs --validation 0 --output "$@" >/dev/null 2>&1 || fail "no data: $*"; }
settings() { jq -c '[.eos_token, .bos_token, .mask_token, .add_bos_token]' "$1/tokenizer_config.json"; }

# A SentencePiece model's tokens have their names, and texts begin with the same token after the way out and in.
data pieces --train-tokenizer sentencepiece-bpe:300 --special-token '<|im_end|>'
data begun --tokenizer pieces/tokenizer.model --begin-of-document '<s>' --end-of-document '<|im_end|>'
expect 0 "${train[@]}" --model tiny.toml --data begun --output run
expect 0 convert-checkpoint run pieces-out --to safetensors --json
jq -e '.notes == [] and .companions == ["tokenizer.model", "tokenizer_config.json"]' out >/dev/null || fail "JSON: $(cat out)"
[ "$(settings pieces-out)" = '["<|im_end|>","<s>",null,true]' ] || fail "settings: $(cat pieces-out/tokenizer_config.json)"
expect 0 convert-checkpoint pieces-out back --from safetensors
for one in run back; do
  generate --checkpoint $one --prompt a --tokens 1 --threads 1 --json >said.json 2>/dev/null || fail "no text of $one"
  [ "$(jq -c '.begin_tokens // .prompt_tokens[:1]' said.json)" = '[1]' ] || fail "texts of $one begin otherwise: $(cat said.json)"
done

# A tokenizer.json without a post_processor: transformers will not put the token there, and the export says so.
data bpe --train-tokenizer bpe:280 --special-token '[MASK]' --special-token '<|begin|>'
data begun-bpe --tokenizer bpe/tokenizer.json --begin-of-document '<|begin|>'
expect 0 "${train[@]}" --init-from back --data begun-bpe --output other --change tokenizer
expect 0 convert-checkpoint other other-out --to safetensors
said 'texts of the run begin with token 2, which AutoTokenizer of transformers does not put before a text'
[ "$(settings other-out)" = '["<|endoftext|>","<|begin|>",null,true]' ] || fail "settings: $(cat other-out/tokenizer_config.json)"
expect 0 convert-checkpoint other-out other-back --from safetensors
jq -e '.provenance.document_tokens == {end: 0, begin: 2}' other-back/manifest.json >/dev/null || fail "begins otherwise: $(jq -c .provenance other-back/manifest.json)"

# A RoBERTa whose token 1 is the mask would be another model in transformers. With padding there it goes out.
sed 's/^\(norm\|positions\|activation\|biases\|tied\) = .*//' tiny.toml >roberta.toml
cat >>roberta.toml <<'END'
norm-position = "post"
embedding-norm = "on"
segments = 1
activation = "gelu-erf"
head = "masked"
attention-causal = "off"
position-offset = 2
norm-epsilon = 1e-12
END
expect 0 "${train[@]}" --model roberta.toml --data bpe --output hidden
refused 3 'token 1, "\[MASK\]", the mask, of the run.s tokenizer is padding in a roberta' convert-checkpoint hidden nope --to safetensors
absent nope nope.partial
data padded --train-tokenizer bpe:280 --special-token '<pad>' --special-token '[MASK]'
expect 0 "${train[@]}" --model roberta.toml --data padded --output masked
expect 0 convert-checkpoint masked masked-out --to safetensors
unsaid padding
[ "$(settings masked-out)" = '["<|endoftext|>",null,"[MASK]",null]' ] || fail "settings: $(cat masked-out/tokenizer_config.json)"
[ "$(jq .pad_token_id masked-out/config.json)" = 1 ] || fail "padding: $(cat masked-out/config.json)"
# Fine-tuned with another tokenizer, whose token 1 is text: the padding stays.
rm masked-out/tokenizer*
expect 0 convert-checkpoint masked-out masked-in --from safetensors
data plain --train-tokenizer bpe:278
expect 0 "${train[@]}" --init-from masked-in --data plain --output tuned
expect 0 convert-checkpoint tuned tuned-out --to safetensors
said 'a text that has it needs position_ids there: 2, 3'
[ "$(jq .pad_token_id tuned-out/config.json)" = 1 ] || fail "padding: $(cat tuned-out/config.json)"
expect 0 convert-checkpoint tuned-out tuned-in --from safetensors
passed
