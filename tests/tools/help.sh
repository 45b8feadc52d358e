#!/bin/bash
# Every program: --help has its parts and fits 80 columns, --version answers, wrong usage gives exit 2 and points to
# --help, a closed stdout is no error.
# usage: help.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"

for program in shard-data partition-model train inspect generate score profile-comm reshard-checkpoint convert-checkpoint; do
  timeout 20 "$program" --help >help 2>err </dev/null || fail "$program --help: exit code $?"
  [ ! -s err ] || fail "$program --help writes to stderr"
  sed '/^Usage:/,$d' help | tr '\n' ' ' | grep -Eq '^[A-Z].*[.] $' || fail "$program --help begins with: $(head -2 help)"
  grep -Eq "^Usage: $program \[OPTIONS\]" help || fail "$program --help has no usage line"
  grep -q '^Examples:$' help || fail "$program --help has no examples"
  sed -n '/^See also: .*[a-z]/,$p' help | grep -c . | grep -q '^[12]$' || fail "$program --help does not end with See also"
  cat -s help | cmp -s - help || fail "$program --help has blank lines one after the other"
  awk -v p="$program" 'length($0) > 80 { print p " --help line " NR " has " length($0) " columns"; bad = 1 } END { if (NR > 180) { print p " --help has " NR " lines"; bad = 1 } exit bad }' help ||
    fail "$program --help does not fit"
  timeout 20 "$program" --version >out 2>err </dev/null || fail "$program --version: exit code $?"
  grep -Eq '^trainyard [0-9]+[.][0-9]+[.][0-9]+$' out || fail "$program --version says: $(cat out)"
  for wrong in --nonsense "--help-me" "--progress"; do
    code=0
    timeout 20 "$program" $wrong >out 2>err </dev/null || code=$?
    [ $code = 2 ] || fail "$program $wrong: exit code $code, not 2"
    [ ! -s out ] || fail "$program $wrong writes to stdout"
    grep -q "^$program: " err || fail "$program $wrong does not say its name: $(head -1 err)"
    grep -q "try: .*--help" err || fail "$program $wrong does not name --help: $(cat err)"
    [ "$(wc -l <err)" -le 3 ] || fail "$program $wrong says too much"
  done
  { timeout 20 "$program" --help 2>err </dev/null; echo $? >code; } | true
  [ "$(cat code)" = 0 ] || fail "$program --help to a closed stdout: exit code $(cat code)"
done
# Values of flags that take several, or two.
for value in 'generate --prompt-ids N,...' 'convert-checkpoint --ignore-keys KEY,...' 'inspect --export FORMAT PATH' 'profile-comm --compare BASE NEW'; do
  timeout 20 "${value%% *}" --help >help && grep -Eq -e "^  ${value#* }( |\$)" help || fail "--help has not: $value"
done
timeout 20 train --help-model >help || fail "train --help-model: exit code $?"
awk 'length($0) > 80 { print "train --help-model line " NR " has " length($0) " columns"; bad = 1 } END { exit bad }' help || fail "train --help-model does not fit"
# Whole words, to the last letter of a column and of a line that is broken.
for line in '^  layers  *2  *1 to 10000$' '^  norm  *layer  *layer, rms$' 'hidden below 256: 4$'; do grep -q "$line" help || fail "train --help-model has no line '$line'"; done
[ -z "$(ls -A . | grep -vx -e help -e err -e out -e code)" ] || fail "something was written: $(ls -A)"
passed
