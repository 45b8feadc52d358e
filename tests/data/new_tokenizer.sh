#!/bin/bash
# shard-data --train-tokenizer from the command line: the tokenizer alone and with its set, every form of input, the models of spm_train, tasks, interruption, and
# what is refused.
# usage: new_tokenizer.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
ulimit -f 400000

# Words of random syllables, the same in each run.
words() {
  awk -v lines="$1" 'BEGIN {
    n = split("the re in er tra yard lo ing qu st ion ea ck mu dro fi ze ha wo ple", part, " ")
    for (l = 1; l <= lines; ++l) {
      for (w = 0; w < 9; ++w) {
        for (k = x % 4; k >= 0; --k) { x = (x * 69069 + 12345) % 4294967296; printf "%s", part[int(x / 65536) % n + 1] }
        printf w < 8 ? " " : ". Line %d\n", l
      }
      if (l % 5 == 0) print ""
    }
  }'
}
words 600 >book.txt
make_alone() { expect 0 shard-data --split lines --train-tokenizer "$1" --output-tokenizer "$2" "${@:3}"; }

# The tokenizer alone, for every kind; the same bytes with a set, for any number of threads and form of input.
for kind in bpe:400 bpe-gpt2:400 unigram:400 sentencepiece-bpe:400; do
  name=${kind%%:*}
  case $name in bpe*) file=tokenizer.json ;; *) file=tokenizer.model ;; esac
  make_alone "$kind" "$name" --input book.txt --threads 1
  once "^shard-data: tokenizer $kind: [0-9]* tokens from all .* of text"
  [ "$(cat out)" = "$name" ] || fail "stdout is no path: $(cat out)"
  expect 0 shard-data --input book.txt --split lines --train-tokenizer "$kind" --output "set-$name" --threads 3 --json
  same "$name" "set-$name/$file" "$kind with a set"
  jq -e --arg k "$kind" --argjson n "${kind#*:}" '.trained_tokenizer.kind == $k and .trained_tokenizer.vocabulary == $n and .train.tokens > 0' out >/dev/null || fail "summary: $(cat out)"
  jq -e --argjson n "${kind#*:}" --arg f "$file" '.vocabulary == $n and .tokenizer.source == $f' "set-$name/index.json" >/dev/null || fail "index: $(cat "set-$name/index.json")"
  # The set is the one that the file gives.
  mkdir -p given-file && cp "$name" given-file/$file
  expect 0 shard-data --input book.txt --split lines --tokenizer given-file/$file --output given --force
  same set-$name/train given/train "$kind: the set"
  [ $name = bpe ] || [ $name = unigram ] || continue
  for form in pipe gzip folder list jsonl; do
    case $form in
      pipe) cat book.txt | make_alone "$kind" other --input - --json ;;
      gzip) gzip -kf book.txt && make_alone "$kind" other --input book.txt.gz --dry-run && absent other && make_alone "$kind" other --input book.txt.gz ;;
      folder) mkdir -p books && cp book.txt books && make_alone "$kind" books/other --input books && mv books/other other && rm -r books ;;
      list) echo book.txt >list && make_alone "$kind" other --input @list --threads 2 ;;
      jsonl) jq -Rc 'select(length > 0) | {body: (. + "\n")}' book.txt >book.jsonl && expect 0 shard-data --input book.jsonl --json-key body --train-tokenizer "$kind" --output-tokenizer other ;;
    esac
    same "$name" other "$kind from a $form"
    rm -f other
  done
done

# A model trains on such a set, and text comes out of it.
expect 0 train --model gpt2-nano --data set-bpe --output run --steps 2 --global-batch 2 --sequence 32 --threads 1 --progress never
expect 0 generate --checkpoint run --prompt 'the train' --tokens 4 --threads 1

# Of the same sentences, spm_train makes the same pieces with the same scores.
if command -v spm_train >/dev/null; then
  jq -Rc 'select(length > 0) | {text: .}' book.txt >lines.jsonl
  jq -r .text lines.jsonl >lines.txt
  for kind in unigram bpe; do
    [ $kind = bpe ] && ours=sentencepiece-bpe || ours=unigram
    expect 0 spm_train --input=lines.txt --model_prefix=theirs --vocab_size=400 --model_type=$kind --byte_fallback=true --normalization_rule_name=identity --remove_extra_whitespaces=false \
      --allow_whitespace_only_pieces=true --split_digits=true --control_symbols='<mask>,[X]'
    expect 0 shard-data --input lines.jsonl --train-tokenizer $ours:400 --special-token '<mask>' --special-token '[X]' --output-tokenizer ours.model
    spm_export_vocab --model=ours.model --output=ours.vocab
    spm_export_vocab --model=theirs.model --output=theirs.vocab
    [ "$(wc -l <ours.vocab)" = 400 ] || fail "$kind: $(wc -l <ours.vocab) pieces"
    same ours.vocab theirs.vocab "$kind: pieces"
    rm ours.model
  done
fi

# Special tokens, and those of a chat template, which need not be given.
printf '{"prompt": "where is yard %d", "response": "there"}\n' $(seq 200) >chats.jsonl
expect 0 shard-data --input chats.jsonl --chat-template chatml --train-tokenizer bpe:300 --special-token '[MASK]' --output chats
jq -e '[.added_tokens[].content] == ["<|endoftext|>", "[MASK]", "<|im_start|>", "<|im_end|>"]' chats/tokenizer.json >/dev/null || fail "$(grep -A4 added_tokens chats/tokenizer.json)"
expect 0 shard-data --input chats.jsonl --chat-template chatml --train-tokenizer bpe:300 --special-token '<|im_end|>' --end-of-document '<|im_end|>' --output chats-own-end
jq -e '.end_of_document == 1' chats-own-end/index.json >/dev/null || fail "$(cat chats-own-end/index.json)"

# A sample, and what is refused among the documents.
expect 0 shard-data --input book.txt --split lines --train-tokenizer bpe:300 --tokenizer-sample 4kB --output-tokenizer sampled --json
jq -e '.sample_bytes <= 4000 and .sample_bytes > 500 and .text_bytes > 20000' out >/dev/null || fail "$(cat out)"
said 'drawn by hash'
printf 'good text\nbad \377 text\nmore good text\n' >broken
expect 0 shard-data --input broken --split lines --train-tokenizer bpe:260 --max-rejects 0.5 --rejects list.tsv --output-tokenizer of-broken
said 'refused: broken, line 2: invalid UTF-8'
grep -q "^broken	2	invalid UTF-8$" list.tsv || fail "list of refusals: $(cat list.tsv)"
refused 3 '1 of 3 documents were refused' shard-data --input broken --split lines --train-tokenizer bpe:260 --output-tokenizer none
refused 3 '1 of 3 documents were refused' shard-data --input broken --split lines --train-tokenizer bpe:260 --output none
refused 3 'too little for a vocabulary of 500000' shard-data --input book.txt --split lines --train-tokenizer bpe:500000 --output none
most=$(sed -n 's/.*--train-tokenizer bpe:\([0-9]*\)$/\1/p' err)
expect 0 shard-data --input book.txt --split lines --train-tokenizer "bpe:$most" --output-tokenizer most
refused 3 "it gives $most tokens" shard-data --input book.txt --split lines --train-tokenizer "bpe:$((most + 1))" --output none
refused 3 'too little for a vocabulary of 500000' shard-data --input book.txt --split lines --train-tokenizer unigram:500000 --output none
refused 3 'a vocabulary of 262 is too small' shard-data --input book.txt --split lines --train-tokenizer unigram:262 --output none
refused 3 'no document to train' shard-data --input <(echo) --split lines --train-tokenizer bpe:300 --output-tokenizer none

# Contradictions are refused before any text is read.
common=(shard-data --input book.txt --split lines)
refused 2 'train-tokenizer .*KIND:N' "${common[@]}" --train-tokenizer bpe --output none
refused 2 '.*output is required' "${common[@]}"
refused 2 '.*output is required' "${common[@]}" --train-tokenizer bpe:300
refused 2 'do not go together' "${common[@]}" --train-tokenizer bpe:300 --task 0/2 --output none; said 'every task with --tokenizer FILE'
refused 2 'a tokenizer that exists' "${common[@]}" --train-tokenizer bpe:300 --tokenizer bytes --output none
for flag in '--output-tokenizer none' '--tokenizer-sample 1GB' '--special-token [X]'; do refused 2 'is for --train-tokenizer' "${common[@]}" $flag --output none; done
for flag in '--pack best-fit' '--shard-tokens 100' '--validation 0' '--force' '--special-tokens text' '--end-of-document 0'; do
  refused 2 'is for a shard set' "${common[@]}" --train-tokenizer bpe:300 --output-tokenizer none $flag
done
refused 2 'is a pipe' shard-data --input <(cat book.txt) --split lines --train-tokenizer bpe:300 --output none; said '--output-tokenizer FILE alone'
refused 2 'will not have this token' "${common[@]}" --train-tokenizer bpe:300 --output none --end-of-document '<|end|>'; said '--special-token'
refused 2 'will not have this token' "${common[@]}" --train-tokenizer bpe:300 --output none --begin-of-document 300
refused 2 'exists already' "${common[@]}" --train-tokenizer bpe:300 --output-tokenizer sampled
refused 2 'exists already' "${common[@]}" --train-tokenizer bpe:300 --output set-bpe
refused 2 'there is no folder' "${common[@]}" --train-tokenizer bpe:300 --output-tokenizer nowhere/none
refused 2 'lies in the folder of the shard set' "${common[@]}" --train-tokenizer bpe:300 --output set-bpe --output-tokenizer set-bpe/none --force
refused 2 'tokenizer-sample' "${common[@]}" --train-tokenizer bpe:300 --tokenizer-sample 0 --output none
refused 3 'finds no special token' "${common[@]}" --train-tokenizer unigram:300 --special-tokens text --output none
absent none none.partial nowhere

# A signal ends it, also within SentencePiece, and leaves nothing.
words 40000 >large.txt
timeout -s INT 1 shard-data --input <(cat large.txt; sleep 60) --split lines --train-tokenizer bpe:4000 --output-tokenizer none 2>err >out && fail "not stopped"
said 'nothing was written'
timeout -s INT 1 shard-data --input large.txt --split lines --train-tokenizer unigram:8000 --output-tokenizer none 2>err >out && fail "not stopped"
said 'nothing was written'
absent none
passed
