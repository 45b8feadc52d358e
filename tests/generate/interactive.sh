#!/bin/bash
# generate --interactive: lines in, answers out. A refused line does not end it. Ctrl-C ends an answer, and then the
# program.
# usage: interactive.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
end_at_first_failure

small_text 60 >text
tiny_model 64 >model.toml
expect 0 shard-data --input text --split paragraphs --output data --validation 0
expect 0 train --model model.toml --data data --output run --steps 2 --global-batch 2 --threads 1 --progress never
g=(generate --checkpoint run --threads 1 --tokens 20 --seed 3)

# Each answer equals a run with the line as its prompt; an empty line equals a run without a prompt. The last line needs
# no line feed.
: >expected
for prompt in 'a line' '' 'a line' 'about'; do
  if [ -n "$prompt" ]; then expect 0 "${g[@]}" --prompt "$prompt"; else expect 0 "${g[@]}"; fi
  { cat out; echo; } >>expected
done
printf 'a line\n\na line\nabout' >lines
expect 0 "${g[@]}" --interactive <lines
same out expected "the answers"
once "end of document (token 256) is put before the text"
expect 0 "${g[@]}" --interactive </dev/null
[ ! -s out ] || fail "an answer to nothing"

# JSON: each answer is a line, printed at once. Samples are a list, or have headings.
expect 0 "${g[@]}" --interactive --json <lines; mv out answers
[ "$(wc -l <answers)" = 4 ] || fail "$(wc -l <answers) answers"
expect 0 "${g[@]}" --prompt about --json
[ "$(tail -1 answers)" = "$(cat out)" ] || fail "another answer"
expect 0 "${g[@]}" --interactive --samples 2 --json <lines
jq -se 'length == 4 and all(.samples | length == 2)' out >/dev/null || fail "samples: $(cat out)"
expect 0 "${g[@]}" --interactive --samples 2 <lines
[ "$(grep -c '^==> sample [12] of 2, seed [34] <==$' out)" = 8 ] || fail "headings"

# A refused line is reported, and the next line is answered. If the lines come from a file, the exit code reports
# refusals at the end.
{ echo 'a line'; printf 'x%.0s' {1..64}; echo; echo 'about'; } >some
expect 3 "${g[@]}" --interactive <some
once 'line 2: the prompt has 64 tokens'; once '1 of 3 prompts were refused'
grep -q '^about' out || fail "the line behind it has no answer"
expect 3 "${g[@]}" --interactive --json <some
jq -se 'length == 3 and (.[0] | has("text")) and (.[1] | has("error") and (has("text") | not)) and .[2].prompt == "about"' out >/dev/null || fail "JSON of a refused line: $(cat out)"
{ head -c 17000000 /dev/zero | tr '\0' x; echo; echo 'about'; } >long
expect 3 "${g[@]}" --interactive <long
once 'line 1: standard input: a prompt of more than 16 MiB'; grep -q '^about' out || fail "the line behind a long one has no answer"
refused 3 'standard input: cannot be read' "${g[@]}" --interactive </
for flag in '--prompt x' '--prompt -' '--prompt-file lines'; do refused 2 '--interactive reads its prompts from standard input' "${g[@]}" --interactive $flag; done
printf '\n' | "${g[@]}" --interactive --no-bos >out 2>err; [ "${PIPESTATUS[1]}" = 3 ] || fail "nothing to begin with"
said 'line 1: the prompt has no tokens'
yes line | { "${g[@]}" --interactive 2>err; echo $? >code; } | head -c 30 >out
[ "$(cat code)" = 0 ] && ! grep -v "is put before\|--no-bos leaves it out" err || fail "a reader that goes away: exit code $(cat code)"

# Ctrl-C ends the answer, and the next line is answered. Without an answer under way, it ends the program.
until_true() { local i; for ((i = 0; i < 300; ++i)); do ! "$@" || return 0; sleep 0.1; done; fail "never: $*"; }
answers() { [ "$(grep -c . out)" -ge "$1" ]; }
begins() { grep -q "^$1" out; }
ended() { [ "$(tail -c 2 out | od -An -tx1 | tr -d ' ')" = 0a0a ]; }
gone() { ! kill -0 "$1" 2>/dev/null; }
mkfifo typed
start() {
  env --default-signal=INT generate --checkpoint run --threads 1 --tokens 1000000 --stop-at length --interactive "$@" <typed >out 2>err &
  pid=$!
  exec 7>typed
}
start
echo first >&7; until_true begins first; kill -INT $pid; until_true ended
kill -0 $pid || fail "it is gone: $(cat err)"
echo second >&7; until_true begins second; kill -INT $pid; until_true ended
kill -INT $pid; code=0; wait $pid || code=$?
[ $code = 130 ] || fail "exit code $code of a program that was ended by SIGINT"
exec 7>&-
# Further samples of an interrupted answer are left out, and JSON says that it was interrupted. Then the input ends.
start --json --samples 1000
echo first >&7; sleep 1; kill -INT $pid; until_true answers 1
exec 7>&-; code=0; wait $pid || code=$?
[ $code = 0 ] || fail "exit code $code at the end of the input"
jq -e '(.samples | length) == 1 and .samples[0].stopped == "interrupted" and (.samples[0].tokens | length) > 0' out >/dev/null || fail "an answer that was ended: $(head -c 300 out)"
# A program that was started with the signal ignored is not ended by it.
env --ignore-signal=INT "${g[@]}" --interactive <typed >out 2>err &
pid=$!
exec 7>typed
sleep 0.5; kill -INT $pid; echo first >&7; until_true begins first; exec 7>&-; code=0; wait $pid || code=$?
[ $code = 0 ] || fail "a signal that is ignored: exit code $code"

# On a terminal it prints a prompt sign on stderr, and messages name no line number.
if command -v script >/dev/null; then
  { sleep 1; printf 'about\n'; sleep 1; printf 'x%.0s' {1..70}; printf '\n'; sleep 1; printf '\004'; sleep 1; } | SHELL=$(command -v bash) script -qec "${g[*]} --interactive >out; echo code \$? >code" shown >/dev/null
  grep -q '^> ' shown || fail "nothing asks: $(cat -v shown)"
  grep -q 'generate: the prompt has 70 tokens' shown || fail "the refused line: $(cat -v shown)"
  grep -q '^about' out || fail "no answer"
  if grep -q '^> ' out; then fail "it asks on stdout"; fi
  [ "$(cat code)" = 'code 0' ] || fail "on a terminal: $(cat code)"
fi
passed
