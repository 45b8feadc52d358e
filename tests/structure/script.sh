#!/bin/bash
# tests/script.sh: each of its functions fails when its condition is false, and passes when it is true. A script cannot
# pass by ending early.
# usage: script.sh
set -u
shared=$(cd "$(dirname "$0")/.." && pwd)/script.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export TMPDIR=$folder/made
mkdir made
bad=0
# ends CODE LINES: a script of these lines ends with this exit code, and leaves nothing behind.
ends() {
  local code=0
  printf '. %q\n%s\n' "$shared" "$2" >script
  timeout 20 bash script >out 2>&1 <<<"input of the test" || code=$?
  [ $code = "$1" ] || { echo "exit code $code, not $1: $2"; cat out; bad=1; }
  [ -z "$(ls -A made)" ] || { echo "left behind: $2: $(ls -A made)"; bad=1; rm -rf made/*; }
}
green() { ends 0 "$1"$'\npassed'; }
red() { ends 1 "$1"$'\npassed'; grep -q '^FAIL: ' out || { echo "red without a word: $1"; bad=1; }; }
told() { grep -q -e "$1" out || { echo "does not say '$1':"; cat out; bad=1; }; }

# How a script ends.
green ''
ends 1 'true'; told 'ended before its last line'
ends 1 'exit 0'; told 'ended before its last line'
ends 1 'end_at_first_failure; exit 0'; told '^1 failures'
ends 1 'exit 3'; told '^FAIL: .* 3$'
ends 1 'set -e; false; passed'; told '^FAIL: '
ends 1 'echo $unset; passed'
ends 77 'skipped "no such tool"'; told '^skipped: no such tool'
ends 0 'passed "all of it"'; told '^all of it$'
red 'fail one; fail two'; ! grep -q 'all as it' out || { echo 'red, and yet as it should be'; bad=1; }; told '^FAIL: one'; told '^FAIL: two'; told '^2 failures'
red '(fail inside)'
red 'seq 1 | while read -r line; do fail "$line"; done'
red 'said=$(fail unseen; echo x); echo "FAIL: seen"'
red 'end_at_first_failure; fail one; fail two'; told '^FAIL: one'; told '^1 failures'
red 'set -e; fail one; fail two'; told '^2 failures'
red 'echo why >err; fail one'; told '^why$'
green 'sleep 100 & echo $! >"$TMPDIR/../job"'; ! kill -0 "$(cat job)" 2>/dev/null || { echo 'a job goes on'; bad=1; kill "$(cat job)"; }
green 'clean_up() { rm "$TMPDIR/its-own"; }; touch "$TMPDIR/its-own"'
green '[ -z "$(ls -A)" ] && [ "$PWD" = "$folder" ] || fail "the folder is not empty"; ! read -r line || fail "stdin is not empty"'

# Exit codes and messages of a command.
green 'expect 0 true; expect 3 sh -c "exit 3"'
red 'expect 0 false'
red 'expect 3 false'
red 'expect 1 true'
red 'expect 0 no-such-command'
red 'time_limit=0.2; expect 0 sleep 10'
green 'expect 0 cat <<<words; said words'
green 'expect 0 sh -c "echo one; echo two >&2"; said one; said two; once one; once two; unsaid three'
red 'expect 0 echo one; said two'
red 'said nothing-ran'
red 'expect 0 sh -c "echo one; echo one >&2"; once one'
red 'expect 0 echo one; once two'
red 'expect 0 echo one; unsaid one'
red 'expect 0 sh -c "echo one >&2"; unsaid one'
refusal='echo "train: it is so" >&2; echo "  try: another" >&2; exit 2'
green "refused 2 'is so' sh -c '$refusal'"
red "refused 3 'is so' sh -c '$refusal'"
red "refused 2 'is not so' sh -c '$refusal'"
red "refused 2 'is so' sh -c 'echo product; $refusal'"
red "refused 2 'is so' sh -c 'echo \"train: it is so\" >&2; $refusal'"
red "refused 2 'is so' sh -c '${refusal/train: /}'"
red "refused 2 'is so' sh -c '${refusal/  try: /}'"
red "refused 2 'is so' sh -c 'seq 1 1000 >&2; $refusal'"

# Files.
green 'echo a >a; echo a >b; same a b files; mkdir x y; echo a >x/a; echo a >y/a; same x y folders; absent c'
red 'echo a >a; echo b >b; same a b files'
red 'echo a >a; same a b files'
red 'mkdir x y; echo a >x/a; same x y folders'
red 'touch a; absent b a'
index='set_of() { mkdir "$1"; echo "{\"train\": [$2], \"validation\": []}" >"$1/index.json"; }; set_of a "{\"tokens\": 1}"'
green "$index; set_of b '{\"tokens\": 1, \"other\": 2}'; same_tokens a b sets"
red "$index; set_of b '{\"tokens\": 2}'; same_tokens a b sets"
red "$index; same_tokens a b sets"
red "$index; set_of b ''; set_of c ''; same_tokens b c sets"

green '[ "$(small_text 3 | wc -l)" = 6 ] && [ "$(tiny_model 16 | tail -1)" = "context = 16" ] || fail "what is written for other tests"'
[ $bad = 0 ] && echo "all as it should be"
