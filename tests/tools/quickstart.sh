#!/bin/bash
# slurm/quickstart.sh on programs that are built: small texts, many cores, Ctrl-C in its training and the way on, texts that are no texts, folders that are not its own.
# usage: quickstart.sh SOURCE_FOLDER BUILD_FOLDER
set -u
script=$1/slurm/quickstart.sh build=$2
folder=$(mktemp -d)
job=''
trap '[ -z "$job" ] || kill -KILL -- "-$job" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder" || exit 1
ulimit -f 4000000
unset SLURM_JOB_ID
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
expect() { # CODE ARGUMENTS...: output in `out`
  local want=$1 code=0
  shift
  timeout 200 bash "$script" --build-dir "$build" "$@" >out 2>&1 </dev/null || code=$?
  [ "$code" = "$want" ] || fail "exit code $code, not $want: $*: $(tail -15 out)"
}
said() { grep -q -- "$1" out || fail "does not say '$1': $(tail -15 out)"; }

words=(in the beginning there was a small house "beside" old river and many people came to see what others had done with their hands "für" "été")
for ((p = 0; p < 150; ++p)); do
  for ((w = 0; w < 25; ++w)); do printf '%s ' "${words[(p * p + w * (p % 7 + 1) + w * w) % 26]}"; done
  printf '\n\n'
done | head -c 20000 | iconv -c -f UTF-8 -t UTF-8 >text

# --help builds nothing and makes nothing.
(cd / && timeout 20 bash "$script" --help) >out 2>&1 </dev/null || fail "--help: exit code $?"
said '--text FILE'; said 'Ctrl-C'

# Ctrl-C reaches the whole process group. In training: the step is saved, nothing else begins, 75.
steps=40   # as few as it ever takes
env --default-signal=INT setsid bash "$script" --build-dir "$build" --text text --work w --seconds 2 >stopped 2>&1 </dev/null &
job=$!
for ((i = 0; i < 600; ++i)); do [ "$(wc -l 2>/dev/null <w/run/metrics.jsonl || echo 0)" -gt 3 ] && break; sleep 0.1; done
kill -INT -- "-$job"
code=0
wait $job || code=$?
job=''
[ "$code" = 75 ] || fail "Ctrl-C in training: exit code $code, not 75: $(tail -5 stopped)"
grep -q '^== resume' stopped && fail "Ctrl-C in training: it went on to the next stage"
[ "$(grep -c 'quickstart: stopped; step [0-9]* is saved' stopped)" = 1 ] || fail "Ctrl-C: no sentence: $(tail -5 stopped)"
last=$(tail -1 w/run/metrics.jsonl | jq .step)
[ -d "w/run/checkpoints/step-$(printf %08d "$last")" ] && [ "$last" -lt $steps ] || fail "no checkpoint of step $last: $(ls w/run/checkpoints)"
[ -z "$(ls -d w/run/checkpoints/*.partial 2>/dev/null)" ] || fail "something unfinished is left"

# The same command goes on, to the end: every step once, nothing made anew, a sample of several lines, figures for people.
before=$(stat -c %Y.%i w/data/index.json)
expect 0 --text text --work w --seconds 2
said 'going on with what was begun'
grep -q '^== shard-data' out && fail "it made the shards again"
[ "$(stat -c %Y.%i w/data/index.json)" = "$before" ] || fail "the shards are others"
jq -se "map(.step) == [range(1; $steps + 1)]" w/run/metrics.jsonl >/dev/null || fail "the steps are not 1 to $steps"
iconv -f UTF-8 -t UTF-8 out >/dev/null || fail "the output is not UTF-8"
[ "$(grep -c '^  | ' out)" -ge 3 ] || fail "no sample of several lines: $(grep -A9 '^sample' out)"
prompt=$(sed -n 's/^prompt:  //p' out)
[ -n "$prompt" ] && grep -qF "$prompt" text || fail "the prompt '$prompt' is not of the text"
grep -Eq '^memory +[0-9.]+ MB a rank predicted, [0-9.]+ MB measured, difference 0$' out || fail "no memory for people: $(grep ^memory out)"
grep -Eq '^learnt +40 steps: loss [0-9]\.[0-9]{3} at the first, [0-9]\.[0-9]{3} at the last; [0-9]\.[0-9]{3} on text it never saw' out || fail "no losses for people: $(grep ^learnt out)"
grep -A4 '^Try next' out | grep '^  generate' | PATH=$build/bin:$PATH bash >next 2>&1 && grep -q 'Once upon a time' next || fail "the first thing to try next fails: $(cat next)"
awk 'length($0) > 100 && /^train: step/ { print "FAIL: a line of progress is long: " $0; bad = 1 } END { exit bad }' out || failures=$((failures + 1))

# More cores than micro-batches; a text of a single line; a go that was finished begins anew, with other settings.
tr -d '\n' <text >line
expect 0 --text line --work w --seconds 10 --steps 2 --cores 24
said '8 ranks with 3 threads each'; said 'nothing will be tested'
[ "$(wc -l <w/run/metrics.jsonl)" = 2 ] || fail "it did not begin anew: $(wc -l <w/run/metrics.jsonl) steps"

# Refusals, each a sentence, each before anything is made or removed.
head -c 800 text >little
expect 3 --text little --work v
said 'holds [0-9]* bytes: too little to learn from'
expect 3 --text missing --work v
expect 2 --steps many --work v
expect 2 --nonsense
mkdir -p mine/run && echo thesis >mine/run/thesis.txt
expect 2 --text text --work mine
said 'mine/run was not made by quickstart'
[ "$(cat mine/run/thesis.txt)" = thesis ] || fail "it removed what it had not made"
[ ! -e v/data ] || fail "something was made before a refusal"
[ $failures = 0 ] && echo "all as it should be"
