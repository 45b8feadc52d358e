#!/bin/bash
# generate from the command line: sources of prompts, what goes to stdout and stderr, JSON, how texts end, and every
# refusal.
# usage: command_line.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
ulimit -f 400000

words=(the cat dog house runs sleeps under over green tree river stone walks and sings with a little old friend)
for ((i = 0; i < 3000; ++i)); do echo "${words[i * 7 % 20]} ${words[i * i % 19]} ${words[i * 3 % 17]} caf$'\xc3\xa9' ${words[i % 13]} number $((i % 97))"; done >text.txt
trained() {  # TOKENIZER NAME
  shard-data --input text.txt --split lines --tokenizer "$1" --output "data-$2" --validation 0 >/dev/null 2>log &&
    train --model gpt2-nano --data "data-$2" --output "$2" --steps 3 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never --learning-rate 0.01 >/dev/null 2>log || { cat log; exit 1; }
}
trained bytes run
g=(generate --checkpoint run --threads 1)

# A prompt is the same prompt whatever its source. A line feed at the end of a file counts. What is put before the prompt
# is named.
"${g[@]}" --prompt 'the cat' --tokens 20 >plain 2>err || fail "exit code $?"
grep -q '^generate: end of document (token 256) is put before the text, as between the documents' err && [ "$(grep -c generate: err)" = 1 ] || fail "stderr is no terminal: $(cat err)"
printf 'the cat' >prompt.txt
"${g[@]}" --prompt-file prompt.txt --tokens 20 >other && same plain other "--prompt-file"
printf 'the cat' | "${g[@]}" --prompt - --tokens 20 >other && same plain other "--prompt -"
"${g[@]}" --prompt-file - --tokens 20 <prompt.txt >other && same plain other "--prompt-file -"
"${g[@]}" --prompt $'the cat\n\n' --tokens 20 --json | jq 'del(.checkpoint)' >plain.json
[ "$(jq -c '.prompt_tokens[-3:]' plain.json)" = '[116,10,10]' ] || fail "no line feeds: $(cat plain.json)"
printf 'the cat\n\n' >ended.txt
"${g[@]}" --prompt-file ended.txt --tokens 20 --json | jq 'del(.checkpoint)' >other && same plain.json other "line feeds at the end of a file"
"${g[@]}" --prompt - --tokens 20 --json <ended.txt | jq 'del(.checkpoint)' >other && same plain.json other "line feeds at the end of standard input"
[ "$(head -c 7 plain)" = "the cat" ] || fail "the prompt is not shown"
for threads in 2 3; do generate --checkpoint run --threads $threads --prompt 'the cat' --tokens 20 >other && same plain other "$threads threads"; done

"${g[@]}" --prompt 'the cat' --tokens 20 --stream-weights >other && same plain other "--stream-weights"

# A checkpoint of tensor-parallel ranks gives the same as a checkpoint of one rank: it holds other parts of the same
# tensors.
timeout 100 mpirun --bind-to none --oversubscribe -n 2 train --model gpt2-nano --data data-run --output pair --tensor-parallel 2 --steps 3 --global-batch 2 --micro-batch 2 --sequence 32 --threads 1 --progress never --learning-rate 0.01 >/dev/null 2>log || { cat log; exit 1; }
[ "$(jq .plan.tensor pair/checkpoints/step-00000003/manifest.json)" = 2 ] || fail "the pair's checkpoint is not one of two tensor ranks"
generate --checkpoint pair --threads 1 --prompt 'the cat' --tokens 20 >other && same plain other "a checkpoint of two tensor ranks"

# The output is valid UTF-8, whatever the model writes and the prompt holds, and appears while it is made.
"${g[@]}" --temperature 100 --tokens 3000 --stop-at length >noise || fail "exit code $?"
iconv -f UTF-8 -t UTF-8 <noise >/dev/null || fail "stdout is no UTF-8"
"${g[@]}" --prompt "$(printf 'a\377b\342\202')" --tokens 5 | iconv -f UTF-8 -t UTF-8 >/dev/null || fail "a broken prompt makes broken text"
{ "${g[@]}" --prompt 'the cat' --tokens 1000000 --stop-at length 2>err; echo $? >code; } | head -c 30 >other
[ "$(cat code)" = 0 ] && ! grep -v 'is put before\|--no-bos leaves it out' err || fail "a reader that goes away: exit code $(cat code), $(cat err)"
[ "$(head -c 7 other)" = "the cat" ] || fail "nothing was shown"
if command -v script >/dev/null; then
  SHELL=$(command -v bash) script -qec "${g[*]} --prompt cat --tokens 9 --stop-at length >other" typed >/dev/null </dev/null
  grep -Eq '^generate: 9 tokens in [0-9.]+ s \([0-9]+ tokens/s\)' typed || fail "no speed on a terminal: $(cat typed)"
  if grep -q 'tokens/s' other; then fail "the speed is on stdout"; fi
  # On a terminal no control character is shown, wherever it comes from. In a file the text is as the model wrote it.
  SHELL=$(command -v bash) script -qec "${g[*]} --prompt \$'\\e]0;title\\a\\x9b31m' --tokens 300 --temperature 100 --stop-at length" typed >/dev/null </dev/null
  sed '1d;$d' typed | tr -d '\r\n\t' | grep -q '[[:cntrl:]]' && fail "a terminal was told something: $(sed '1d;$d' typed | od -c | head -5)"
  iconv -f UTF-8 -t UTF-8 <typed >/dev/null || fail "a terminal was told something that is no UTF-8"
  grep -q 'x1b\]0;title' typed || fail "the escape character is not shown: $(od -c typed | head -5)"
fi

# JSON has the same text.
"${g[@]}" --prompt 'the cat' --tokens 20 --json >json || fail "--json: exit code $?"
[ "$(wc -l <json)" = 1 ] || fail "--json is $(wc -l <json) lines"
{ printf 'the cat'; jq -j .text json; echo; } >other && same plain other "text of --json"
jq -e '.prompt == "the cat" and .prompt_tokens == [256, 116, 104, 101, 32, 99, 97, 116] and (.tokens | length) == 20 and (.logprobs | length) == 20 and
       (.logprobs | all(. <= 0)) and .stopped == "length" and .step == 3 and .seed == 0 and (.checkpoint | endswith("step-00000003"))' json >/dev/null || fail "--json: $(cat json)"
"${g[@]}" --prompt "$(printf '\377')" --tokens 1 --json | jq -e '.prompt == "\ufffd" and .prompt_tokens == [256, 255]' >/dev/null || fail "--json and a prompt that is no UTF-8"
# Greedy is the most likely token: no other draw has a larger probability. top-k 1 and a small top-p are greedy.
"${g[@]}" --prompt 'the cat' --tokens 20 --temperature 0 --json >greedy
"${g[@]}" --prompt 'the cat' --tokens 20 --top-k 1 --seed 3 --json >one
"${g[@]}" --prompt 'the cat' --tokens 20 --top-p 0.000001 --seed 4 --json >nucleus
for file in one nucleus; do [ "$(jq -c .tokens $file)" = "$(jq -c .tokens greedy)" ] || fail "$file is not greedy"; done
for seed in 1 2 3; do
  jq -e --argjson best "$(jq '.logprobs[0]' greedy)" '.logprobs[0] <= $best' <("${g[@]}" --prompt 'the cat' --tokens 1 --seed $seed --json) >/dev/null || fail "seed $seed beats greedy"
done
# The probabilities of all first tokens, found by draws, belong to one distribution: each id has one probability, and
# they add up to at most 1.
for seed in {1..40}; do "${g[@]}" --prompt 'the cat' --tokens 1 --stop-at length --temperature 3 --seed $seed --json; done | jq -c '[.tokens[0], .logprobs[0]]' | sort -u >draws
jq -se '(map(.[0]) | unique | length) == length and (map(.[1] | exp) | add) <= 1 and length > 10' draws >/dev/null || fail "log probabilities: $(cat draws)"
for ((seed = 0; seed < 20; ++seed)); do "${g[@]}" --tokens 3000 --temperature 100 --seed $seed --json; done |
  jq -se 'all(.stopped == "end-of-document" or (.tokens | length) == 3000) and any(.stopped == "end-of-document") and all(.tokens | all(. < 256))' >/dev/null || fail "ends of documents"

refused 2 '--prompt is empty' "${g[@]}" --prompt ''
refused 2 'both --prompt and --prompt-file' "${g[@]}" --prompt a --prompt-file prompt.txt
refused 3 'standard input: the prompt is empty' "${g[@]}" --prompt -
refused 3 'cannot open missing.txt: No such file' "${g[@]}" --prompt-file missing.txt
context=$(jq .model.context run/checkpoints/step-00000003/manifest.json)
[ "$context" -gt 10 ] || fail "no context in the manifest"
fit=$(printf 'x%.0s' $(seq 2 "$context"))
"${g[@]}" --prompt "$fit" --tokens 3 >other || fail "a prompt that fills the context: exit code $?"
refused 3 "the prompt has $context tokens, .* room for $((context - 1)) " "${g[@]}" --prompt "x$fit"
# Several processes, each with a text of its own, are seldom intended: the first process warns.
OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 "${g[@]}" --tokens 2 >other 2>err && grep -q 'warning: 4 processes were started' err || fail "several processes: $(cat err)"
SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "${g[@]}" --tokens 2 >other 2>err && grep -q 'warning: 2 processes were started' err || fail "several tasks: $(cat err)"
OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1 "${g[@]}" --tokens 2 >other 2>err && ! grep warning err || fail "the second process speaks, too: $(cat err)"
OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 "${g[@]}" --tokens 2 >other 2>err && ! grep warning err || fail "one process is warned: $(cat err)"
for wrong in 0 -1 1000001 99999999999999999999 many; do refused 2 '--tokens' "${g[@]}" --tokens $wrong; done
for wrong in -0.5 nan -nan inf 101 warm; do refused 2 '--temperature' "${g[@]}" --temperature=$wrong; done
for wrong in 0 -1 nan 1.01; do refused 2 '--top-p' "${g[@]}" --top-p=$wrong; done
refused 2 '--top-k' "${g[@]}" --top-k=-1
refused 2 'num-return-sequences is not known' "${g[@]}" --num-return-sequences 3; said 'here it is --samples'
refused 2 '--stop-at' "${g[@]}" --stop-at never
for ids in '1 2 3' '1;2' 1.5 '1,x' 99999999999 -1 1,-2; do refused 2 '--prompt-ids: .* is no token id; ids are numbers from 0 on, separated by commas: 1,2,3' "${g[@]}" --prompt-ids "$ids"; done
for ids in 1,,2 ,1 1,; do refused 2 "--prompt-ids: a value in the list .* is empty" "${g[@]}" --prompt-ids "$ids"; done
refused 2 '--prompt-ids: a value in the list .* is empty' "${g[@]}" --prompt-ids=1,,2
expect 0 "${g[@]}" --prompt-ids 256,116,104,101 --tokens 2
refused 2 '--stop ".*" is no UTF-8' "${g[@]}" --stop $'\377'
refused 2 '--stop is empty' "${g[@]}" --stop ''

# Texts that end a continuation: the same text, cut before the first of them; in JSON, in several samples, and in a batch.
export LC_ALL=C.UTF-8   # characters are cut, not bytes
s=("${g[@]}" --prompt 'the cat' --tokens 60 --stop-at length --temperature 0.9 --seed 2)
"${s[@]}" --json 2>err >json; text=$(jq -r .text json | tr -d '\0')
[ "${#text}" -gt 20 ] && [[ $text != *$'\n'* ]] || fail "another text is needed: $(cat json)"
two=${text:12:2}; head=${text%%"$two"*}
"${s[@]}" --stop nowhere >other && [ "$(tr -d '\0' <other)" = "the cat$text" ] || fail "a text that never comes: $(cat other)"
"${s[@]}" --stop nowhere --stop "$two" >other && [ "$(cat other)" = "the cat$head" ] || fail "--stop '$two': $(cat other)"
"${s[@]}" --stop "$two" --json | jq -e --arg head "$head" --argjson all "$(jq .tokens json)" '(.tokens | length) as $n | .text == $head and .stopped == "stop" and $n < 60 and $n == (.logprobs | length) and .tokens == $all[:$n]' >/dev/null || fail "--stop in JSON: $("${s[@]}" --stop "$two" --json)"
"${s[@]}" --stop "$two" --samples 1 --json | jq -e --arg head "$head" '.samples[0] | .text == $head and .stopped == "stop"' >/dev/null || fail "--stop in samples"
printf '"the cat"\n{"ids": [1, 2]}\n"a dog"\n' >prompts
"${s[@]:0:5}" "${s[@]:7}" --stop "$two" --prompts prompts --batch 2 >other || fail "--stop in a batch"
head -1 other | jq -e --arg head "$head" '.text == $head and .stopped == "stop"' >/dev/null || fail "--stop in a batch: $(cat other)"
echo 'the cat' | "${s[@]:0:5}" "${s[@]:7}" --stop "$two" --interactive >other && [ "$(head -1 other)" = "the cat$head" ] || fail "--stop in answers: $(cat other)"
refused 3 'no such checkpoint' generate --checkpoint missing

# An encoder has nothing to read without a source.
train --model t5-nano --data data-run --output towers --steps 1 --global-batch 2 --sequence 32 --source-sequence 64 --threads 1 --progress never >/dev/null 2>log || fail "no run: $(cat log)"
t=(generate --checkpoint towers --threads 1 --tokens 5)
refused 2 'a model with an encoder reads a source, and none is given' "${t[@]}"
refused 2 'is for models without an encoder' "${t[@]}" --interactive
for option in --stream-weights --no-bos; do refused 2 'is for models without an encoder' "${t[@]}" "$option" --prompt a; done
refused 2 '--beams searches for the likeliest text, and' "${t[@]}" --prompt a --beams 2 --temperature 1
refused 2 '--length-penalty compares the texts of --beams' "${t[@]}" --prompt a --length-penalty 2
refused 2 '--stop is not supported with --beams' "${t[@]}" --prompt a --beams 2 --stop b
refused 3 'tokenizer bytes has no token "<2de>"' "${t[@]}" --prompt a --target-language de
refused 3 'the prompt has 64 tokens' "${t[@]}" --prompt "$(printf '%064d' 0)"
refused 2 '--beams is for models with an encoder' "${g[@]}" --beams 2
printf '"a"\n{"prompt": "bc", "id": "x"}\n{"ids": [100, 256]}\n' >sources.jsonl
"${t[@]}" --prompts sources.jsonl --batch 2 --beams 2 >many || fail "many sources"
[ "$(jq -r .id many | tr '\n' ' ')" = '1 x 3 ' ] && [ "$(jq -c .prompt_tokens many | tail -1)" = '[100,256]' ] || fail "answers: $(cat many)"
[ "$("${t[@]}" --prompt bc --beams 2 --json | jq -c .tokens)" = "$(jq -c .tokens many | sed -n 2p)" ] || fail "a source alone"
[ "$("${t[@]}" --prompt bc)" = "$("${t[@]}" --prompt bc --temperature 0)" ] || fail "targets are written greedily"
echo '{"prompt": "bc", "target_language": "de"}' | refused 3 'standard input, line 1: tokenizer bytes has no token' "${t[@]}" --prompts -
echo '{"prompt": "bc", "language": "de"}' >sources.jsonl
refused 3 'the key "language" is not known' "${t[@]}" --prompts sources.jsonl
echo '{"context": "a", "endings": ["b", "c"], "answer": 0}' >questions.jsonl
refused 3 'the model of .* has an encoder, and a text alone has no source to read' score --checkpoint towers --input questions.jsonl --threads 1

refused 3 'holds no whole checkpoint' generate --checkpoint data-run
mkdir foreign && echo '{}' >foreign/config.json && : >foreign/model.safetensors
for program in 'generate --checkpoint' inspect 'train --data data-run --evaluate'; do
  # shellcheck disable=SC2086
  refused 3 'foreign:\? holds n' $program foreign; said 'convert-checkpoint foreign NEW --from safetensors'
done
if [ -w /dev/full ]; then
  code=0
  "${g[@]}" --tokens 5 >/dev/full 2>err || code=$?
  [ $code = 4 ] && grep -q 'No space left' err || fail "a full disk: exit code $code, $(cat err)"
fi

# SentencePiece: the text equals the output of spm_decode for the ids, with byte pieces.
if command -v spm_train >/dev/null && command -v spm_decode >/dev/null; then
  mkdir elsewhere
  for kind in fallback plain; do
    bytes=$([ $kind = fallback ] && echo 'true --vocab_size=320' || echo 'false --vocab_size=60')
    spm_train --input=text.txt --model_prefix=$kind --byte_fallback=$bytes --num_threads=1 >/dev/null 2>log || { cat log; exit 1; }
    trained $kind.model spm-$kind
    p=(generate --checkpoint spm-$kind --threads 1)
    for temperature in 0 1 20; do
      "${p[@]}" --prompt 'the old cat' --tokens 150 --stop-at length --temperature $temperature --json >json || fail "$kind: exit code $?"
      "${p[@]}" --prompt 'the old cat' --tokens 150 --stop-at length --temperature $temperature >shown
      jq -r '.prompt_tokens[1:] + .tokens | map(tostring) | join(" ")' json | spm_decode --model=$kind.model --input_format=id >other
      same shown other "$kind, temperature $temperature"
      iconv -f UTF-8 -t UTF-8 <shown >/dev/null || fail "$kind: stdout is no UTF-8"
    done
  done
  generate --checkpoint spm-fallback --prompt 'the ~ cat' --tokens 2 >other || fail "a byte piece in the prompt: exit code $?"
  refused 3 "tokenizer-[0-9a-f]*.model has no token for '~' at byte 4 " "${p[@]}" --prompt 'the ~ cat'
  refused 3 'CRC32C .* its tokens mean something else' generate --checkpoint spm-fallback --prompt cat --tokenizer bytes
  refused 3 "bytes has 257 tokens, the model's vocabulary 60" "${p[@]}" --prompt cat --tokenizer bytes
  mv plain.model moved.model
  mv data-spm-plain spm-plain/tokenizer-*.model elsewhere/
  refused 3 'trained with tokenizer .*data-spm-plain/tokenizer.model, which is not there' "${p[@]}" --prompt cat
  "${p[@]}" --prompt cat --tokens 3 --tokenizer moved.model >other || fail "--tokenizer with the new place: exit code $?"
  refused 3 'tokenizer missing.model does not exist' "${p[@]}" --prompt cat --tokenizer missing.model
else
  echo "without spm_train and spm_decode: SentencePiece left out"
fi
passed
