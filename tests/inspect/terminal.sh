#!/bin/bash
# inspect --follow on a terminal that script(1) makes: draws in place, fits the window, and restores the terminal
# however it ends. Also on a real run from its start.
# usage: terminal.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
command -v script >/dev/null || skipped "no script(1) here, which makes terminals"
export TERM=xterm LC_ALL=C.UTF-8
small_text 300 >text
shard-data --input text --split paragraphs --output data --validation 0.1 >/dev/null 2>&1 || fail "no shards"
common=(--model gpt2-nano --data data --steps 400 --global-batch 4 --sequence 32 --threads 1 --progress never)

on_terminal() { timeout 60 script -qec "$1" typescript >screen 2>&1 </dev/null; }
# The pictures, one after the other, and what is left on the first screen, without control sequences.
pictures() { sed 's/\x1b\[H/\n@\n/g; s/\x1b\[?1049l/\n/g; s/\x1b\[[?0-9]*[A-Za-z]//g; s/\r//g' screen; }   # a line with @ begins a picture
given_back() {
  [ "$(grep -o $'\x1b\\[?1049[hl]' screen | tail -1)" = $'\x1b[?1049l' ] || fail "$1: the other screen stays"
  [ "$(grep -o $'\x1b\\[?25[hl]' screen | tail -1)" = $'\x1b[?25h' ] || fail "$1: the cursor stays hidden"
}

# From before the start to the end.
train "${common[@]}" --output run --save-every 100 >train.out 2>&1 &
on_terminal "stty cols 90 rows 30; inspect run --follow --interval 0.1" || fail "exit code $?: $(pictures | tail -5)"
wait $! || fail "train: $(tail -3 train.out)"
given_back "a run that ends"
pictures >out
: >err
said '400 of 400  100 %'
said 'all 400 steps are done'
said 'checkpoint  run/checkpoints/step-00000400'
said 'step 1 .*400$'
grep -q $'\x1b\\[H' screen || fail "nothing is drawn in place"
[ "$(wc -L <out)" -le 89 ] || fail "a line has $(wc -L <out) columns"

# It waits for a stopped run; the window changes its size; then Ctrl-C.
train "${common[@]}" --output stopped --stop-after 5 >train.out 2>&1
[ $? = 75 ] || fail "train: $(tail -3 train.out)"
code=0
on_terminal 'stty cols 100 rows 30; (while ! grep -q "5 of 400" screen; do sleep 0.1; done; stty cols 44 rows 12 </dev/tty; sleep 1; kill -INT $(cat pid)) & sh -c "echo \$\$ >pid; exec inspect stopped --follow --wait --interval 30"; echo "code $?"' || code=$?
given_back "Ctrl-C"
pictures >out
said 'stopped at step 5 of 400'
said '^code 130$'
tac out | sed '/^@$/q' | grep -v '^code ' >last   # the last picture, and what it left behind
[ "$(wc -L <last)" -le 43 ] || fail "the window was made smaller, and a line has $(wc -L <last) columns"
[ "$(wc -l <last)" -le 25 ] || fail "the window was made smaller, and a picture has $(wc -l <last) lines"
[ "$(grep -o $'\x1b\\[H' screen | wc -l)" -ge 3 ] || fail "not drawn again for another size"

# Without a screen to draw on it prints lines.
TERM=dumb on_terminal "inspect run --follow" || fail "TERM=dumb: exit code $?"
! grep -q $'\x1b' screen || fail "TERM=dumb: control characters"
grep -q 'step 400/400' screen || fail "TERM=dumb: no line"
expect 0 inspect run --follow
! grep -q $'\x1b' out || fail "a pipe: control characters"
passed
