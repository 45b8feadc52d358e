#!/bin/bash
# train --evaluate: the loss that training recorded, the same JSON on every layout, an independent sum of log
# probabilities, refusals, damage, signals.
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
ulimit -f 100000
ranks() { local n=$1; shift; echo mpirun -q --bind-to none -n "$n" "$@"; }
state() { find run -type f -printf '%p %s %T@ ' -exec cksum {} +; find run -type d -printf '%p %T@\n'; }

small_text 300 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
expect 0 train --model gpt2-nano --data data --global-batch 6 --micro-batch 2 --learning-rate 0.01 --progress never --threads 1 --steps 20 --output run --validate-every 20 --validation-sequences 8
# A validation is not part of the step before it. Forward passes of eighty sequences take longer than one forward and
# backward pass, which would not hold if the step included the validation.
expect 0 shard-data --input text --split paragraphs --output half --validation 0.5
expect 0 train --model gpt2-nano --data half --global-batch 1 --progress never --threads 1 --steps 6 --output timed --validate-every 2 --validation-sequences 80
jq -es 'map(has("validation_seconds")) == [false, true, false, true, false, true] and ([.[] | select(.validation_seconds) | .step_seconds < .validation_seconds] | any)' timed/metrics.jsonl >/dev/null ||
  fail "seconds of steps and validations: $(jq -c '[.step_seconds, .validation_seconds]' timed/metrics.jsonl)"
recorded=$(tail -1 run/metrics.jsonl | jq .validation_loss)
before=$(state)
evaluate=(train --evaluate run --threads 1 --progress never --json)

# The loss that training recorded, to the bit. The set and the shape of a micro-batch come from the checkpoint.
expect 0 "${evaluate[@]}" --evaluate-sequences 8
[ "$(jq .loss out)" = "$recorded" ] || fail "training recorded $recorded, the evaluation says $(jq .loss out)"
jq -e '.step == 20 and .data == "data" and .split == "validation" and .sequences == 8 and .tokens == 512 and (.perplexity - (.loss | exp) | fabs) < 1e-9' out >/dev/null || fail "the JSON is wrong"
mv out eight
expect 0 $(ranks 3 "${evaluate[@]}" --evaluate-sequences 8 --zero 3)
cmp out eight || fail "3 ranks say something else"

# The whole split, whose last micro-batch is not full: the same JSON on every layout.
expect 0 "${evaluate[@]}" --evaluate-split train --sequence 30 --micro-batch 5
jq -e '.sequences % 5 != 0 and .sequences == ((.split_tokens - 1) / 30 | floor) and .tokens == 30 * .sequences' out >/dev/null || fail "sequences were dropped"
mv out all
expect 0 $(ranks 3 "${evaluate[@]}" --evaluate-split train --sequence 30 --micro-batch 5 --zero 2)
cmp out all || fail "3 ranks say something else about all of the split"
expect 0 $(ranks 2 "${evaluate[@]}" --evaluate-split train --sequence 30 --micro-batch 1 --zero 1)
jq -es '(.[0].loss - .[1].loss | fabs) < 1e-5 and .[0].bytes == .[1].bytes and .[0].tokens == .[1].tokens' out all >/dev/null || fail "micro-batches of 1 and 5 differ"
expect 0 $(ranks 2 "${evaluate[@]}" --dtype bf16 --document-mask on --zero 3)
mv out narrow
expect 0 "${evaluate[@]}" --dtype bf16 --document-mask on
cmp out narrow || fail "bf16 differs on 2 ranks"
jq -e '.bits_per_byte as $b | (.loss * .tokens / (2 | log) / .bytes - $b | fabs) < 1e-9' out >/dev/null || fail "bits per byte"

# Streamed weights: the same but for what is said of them, and as many bytes read and taken as predicted.
for n in 1 2; do
  expect 0 $(ranks $n "${evaluate[@]}" --evaluate-split train --sequence 30 --micro-batch 5 --stream-weights --gathered-layers 1)
  said "weights are streamed: .* are read in the first accumulation step, .* in each later one"
  jq -c 'del(.streamed_weights)' out | cmp - all || fail "$n ranks say something else with streamed weights"
  jq -e '.streamed_weights | .bytes == .predicted_bytes and .memory_bytes == .predicted_memory_bytes and .bytes > .first_step_bytes and .later_step_bytes > 0 and .later_step_bytes < .first_step_bytes and .block_bytes > 0' out >/dev/null ||
    fail "what was read: $(jq -c .streamed_weights out)"
done
expect 0 train --evaluate run --evaluate-sequences 8 --threads 1 --progress never --stream-weights
said 'weights  *[0-9]* bytes read of the checkpoint, predicted [0-9]*, difference 0; '
said 'memory  *[0-9]* bytes of arenas, predicted [0-9]*, difference 0'

# An independent sum: the log probabilities that `generate` gives for one document. That document is the second window
# of a set: the end of the first document, and 64 tokens.
expect 0 generate --checkpoint run --tokens 64 --stop-at length --temperature 0 --json
mv out generated
jq -je .text generated >second
[ "$(wc -c <second)" = 64 ] || fail "the generated text has $(wc -c <second) bytes"
printf '%064d' 0 >first
expect 0 shard-data --input first --input second --split whole --validation 0 --output small
for n in 1 2; do
  expect 0 "${evaluate[@]}" --data small --evaluate-split train --evaluate-sequences $n
  mv out "small-$n"
done
jq -es '.[0].bytes == 63 and .[1].bytes == 127 and (.[1].loss * 128 - .[0].loss * 64 + (.[2].logprobs | add) | fabs) < 1e-3' small-1 small-2 generated >/dev/null ||
  fail "the second window: $(jq -s '[.[1].loss * 128 - .[0].loss * 64, (.[2].logprobs | add)]' small-1 small-2 generated)"

expect 0 train --evaluate run/checkpoints/step-00000020 --model gpt2-nano --data data --progress never
said 'bits per byte '; said 'perplexity '

# Refusals.
expect 3 "${evaluate[@]}" --model gpt2-micro
said 'layers: the checkpoint has'
expect 3 train --evaluate nowhere; said 'no such checkpoint'
expect 3 train --evaluate run/checkpoints/latest; said 'run/checkpoints/latest is a file'
expect 2 train --evaluate ''
expect 3 train --evaluate data; said 'no whole checkpoint'
expect 3 "${evaluate[@]}" --evaluate-sequences 9999; said 'holds .* sequences'
expect 3 "${evaluate[@]}" --data small; said 'no validation split'
expect 3 "${evaluate[@]}" --memory-limit 1MB; said 'too many'
expect 2 "${evaluate[@]}" --evaluate-sequences -1
expect 2 "${evaluate[@]}" --evaluate-split test
expect 2 "${evaluate[@]}" --output other --steps 5; said '--output, --steps'
expect 2 "${evaluate[@]}" --zero 4
expect 2 "${evaluate[@]}" --sequence 65; said 'longer than'
expect 2 "${evaluate[@]}" --dry-run
expect 2 train --data data --output other --evaluate-split train
expect 2 train --data data --output other --json
expect 2 train --data data --output other --stream-weights
jq '.vocabulary = 300 | .tokenizer = {name: "other.model", source: "other.model", crc32c: 7}' data/index.json >index && mkdir other-tokens && cp -r data/* other-tokens && mv index other-tokens/index.json
expect 3 "${evaluate[@]}" --data other-tokens; said 'tokenizer other.model'
expect 3 $(ranks 2 "${evaluate[@]}" --data other-tokens)
[ "$(grep -c 'tokenizer other.model' err)" = 1 ] || fail "the refusal is not said once"
cp -r run damaged
printf 'X' | dd of=damaged/checkpoints/step-00000020/rank-00000.h5 bs=1 seek=60000 conv=notrunc status=none
expect 3 $(ranks 2 train --evaluate damaged --threads 1 --progress never); said 'rank-00000.h5'
expect 3 $(ranks 2 train --evaluate damaged --threads 1 --progress never --stream-weights); said 'rank-00000.h5 is damaged between bytes'
cp -r data torn
printf 'X' | dd of=torn/train/shard-00000.h5 bs=1 seek=$(($(jq '.train[0].payload_offset' data/index.json) + 9000)) conv=notrunc status=none
expect 3 $(ranks 2 "${evaluate[@]}" --data torn --evaluate-split train); said 'train/shard-00000.h5'
# A single shard can be shown, and is read when asked.
expect 0 inspect data/train/shard-00000.h5; said 'split train'
expect 0 inspect torn/train/shard-00000.h5
expect 3 inspect --verify torn/train/shard-00000.h5; said 'train/shard-00000.h5'
# Without an index nothing can be compared, except in the folder above.
cp -r data/train bare
expect 0 inspect --verify bare; said 'without an index.json nothing was compared$'
expect 0 inspect --verify data/train; said 'nothing was compared; inspect --verify data compares all checksums'
cp -r run $'r\xff'
expect 0 train --evaluate $'r\xff' --threads 1 --json
jq -e '.checkpoint | startswith("percent:r%FF/")' out >/dev/null || fail "a path that is not UTF-8"
# Names of sets are shown on one line.
cp -r data $'da\n\eta'
expect 0 train --evaluate run --threads 1 --progress never --data $'da\n\eta'; said 'data            da\\n\\x1bta: '
# Answers alone, as in training.
for i in 1 2 3 4 5 6 7 8; do echo '{"prompt": "Two and two?", "response": "Four."}'; done >chat.jsonl
expect 0 shard-data --input chat.jsonl --chat-template plain --validation 0 --output chats
expect 0 train --model gpt2-nano --data chats --sequence 32 --global-batch 2 --answers-only --document-mask on --progress never --threads 1 --steps 2 --output answers
expect 0 train --evaluate answers --evaluate-split train --threads 1 --progress never; said 'predicted in answers, of'
expect 0 train --evaluate answers --evaluate-split train --threads 1 --progress never --json; jq -e .answers_only out >/dev/null || fail "answers alone"
code=0; "${evaluate[@]}" >/dev/full 2>err || code=$?
[ $code = 4 ] || fail "a full standard output is exit $code"

# Signals: there is nothing to save. USR1 is for training.
slow=(train --evaluate run --threads 1 --progress never --zero 3 --collective-delay 0.02 --evaluate-split train)
code=0; timeout -s TERM --preserve-status 1 "${slow[@]}" >out 2>err || code=$?
[ $code = 143 ] || fail "exit $code after TERM"
mpirun -q --bind-to none -n 3 "${slow[@]}" >out 2>err & launcher=$!
for _ in $(seq 1 100); do rank=$(pgrep -P "$launcher" -x train | tail -1); [ -n "$rank" ] && break; sleep 0.1; done
# Waits until it ignores USR1, the tenth bit.
for _ in $(seq 1 600); do [ $((0x$(sed -n 's/^SigIgn:\s*//p' "/proc/$rank/status") & 0x200)) != 0 ] && break; sleep 0.1; done
kill -USR1 "$rank"; sleep 0.3; kill -0 "$rank" || fail "USR1 ended an evaluation"
kill -TERM "$rank"
code=0; wait "$launcher" || code=$?
[ $code != 0 ] && [ $code != 75 ] || fail "exit $code after TERM to one rank"

[ "$(state)" = "$before" ] || fail "the run folder was written to"
[ ! -e other ] || fail "something was made"
passed
