#!/bin/bash
# shard-data on a terminal, made by script(1): the progress line ends before the result, a warning or an error is printed.
# usage: terminal.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
command -v script >/dev/null || skipped "no script(1) here, which makes terminals"
export TERM=xterm LC_ALL=C.UTF-8
shown=screen

small_text 20000 >text
slowly() { cat text; sleep 1; cat text; }
export -f slowly
# on_terminal COMMAND: writes its lines, as the terminal shows them, to `screen`.
on_terminal() {
  SHELL=$(command -v bash) timeout 60 script -qec "$1" typescript >raw 2>&1 </dev/null || fail "exit code $?: $1"
  sed 's/\r$//; s/.*\r\x1b\[K//' raw >screen
}
line() { grep -q -x -e "$1" screen || fail "no line '$1'"; }

on_terminal "stty cols 100; slowly | shard-data --input - --split paragraphs --output data"
line 'shard-data: .* read, .*B/s'
line data
line 'shard-data: 40,000 documents, .*'
on_terminal "stty cols 100; slowly | shard-data --input - --split paragraphs --output json --json"
line '{"output":"json",.*'
on_terminal "stty cols 100; slowly | shard-data --input - --output single"
line 'shard-data: .* read, .*B/s'
line 'shard-data: warning: there is no validation split: .*'
on_terminal "stty cols 100; { slowly; printf '\377'; } | shard-data --input - --split lines --max-rejects 0 --output bad; [ \$? = 3 ]"
line 'shard-data: .* read, .*B/s'
line 'shard-data: 1 of .* documents were refused, 0 % are allowed'
passed
