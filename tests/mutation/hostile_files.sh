#!/bin/bash
# The programs with inputs that are no files, with files that are too deep, of wrong types or damaged, and with a few
# mutations: exit 2 or 3 with a message and a hint.
# usage: hostile_files.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
export TRAINYARD_DEVICE=cpu TRAINYARD_GPU_MODULE=none
time_limit=30
ulimit -f 4000000
repeated() { head -c "$2" /dev/zero | sed "s/\x0/$1/g"; }

partition-model --model gpt2-nano --vocabulary 257 --ranks 2 --global-batch 8 --output plan.json >out 2>&1 || { cat out; exit 1; }
mkfifo pipe
ln -s loop loop
mkdir somewhere

# Inputs that are no regular files. A pipe of the shell is accepted.
for path in pipe loop somewhere /dev/zero; do
  [ $path = somewhere ] || refused 3 "$path" inspect $path
  refused 3 "$path" train --plan $path --print-config
  refused 3 "$path" train --config $path --print-config
  refused 3 "$path" profile-comm --compare $path $path
  refused 3 "$path" partition-model --model gpt2-nano --vocabulary 257 --ranks 2 --global-batch 8 --profile $path
done
ln -s loop loop.toml
refused 3 loop.toml partition-model --model loop.toml --ranks 2
train --print-config --plan <(cat plan.json) >out 2>err || fail "a pipe of the shell: $(cat err)"
mkdir -p run/checkpoints/step-00000001
mkfifo run/metrics.jsonl run/checkpoints/step-00000001/manifest.json
refused 3 "metrics.jsonl is not a file" inspect run/metrics.jsonl
refused 3 "manifest.json" inspect run/checkpoints/step-00000001
rm -r run

# Too deep, too large for a number, of other types.
repeated '[' 100000 >deep.json
refused 3 "nested more than 64 deep" inspect deep.json
refused 3 "nested more than 64 deep" train --plan deep.json --print-config
refused 3 "nested more than 64 deep" profile-comm --compare deep.json deep.json
{ printf 'steps = 1\n'; repeated 'a.' 200000; echo 'b = 1'; } >deep.toml
refused 3 "deep.toml line 2: a dotted key" train --config deep.toml --print-config
refused 3 "deep.toml line 2: a dotted key" partition-model --model deep.toml --ranks 2
sed 's/"global_batch": 8/"global_batch": 1e999/' plan.json >large.json
refused 3 "large.json" train --plan large.json --print-config
refused 3 "large.json" inspect large.json
for value in '"8"' null '[8]' 8.5 true '{"a": 8}' 18446744073709551616; do
  sed "s/\"global_batch\": 8/\"global_batch\": $value/" plan.json >wrong.json
  refused 3 "wrong.json: 'global_batch' must be a whole number" train --plan wrong.json --print-config
  refused 3 "wrong.json: 'global_batch' must be a whole number" inspect wrong.json
done
echo '{"format": 7}' >seven.json
refused 3 "neither a plan nor a profile" inspect seven.json

# Metrics: a broken last line is what a killed run leaves. Other broken lines are named.
mkdir run
line() { printf '{"step":%s,"loss":5.5,"learning_rate":0.001}\n' "$1"; }
{ line 1; line 2; printf '{"step":3,"lo'; } >run/metrics.jsonl
inspect run >out 2>err || fail "an unfinished last line: $(cat err)"
grep -q 'breaks off' out || fail "an unfinished last line is not told: $(cat out)"
{ line 1; line '"two"'; line 3; } >run/metrics.jsonl
refused 3 "metrics.jsonl line 2: 'step' must be a whole number" inspect run
{ line 1; line 1e999; line 3; } >run/metrics.jsonl
refused 3 "metrics.jsonl line 2" inspect run
{ line 1; line 2; repeated '[' 100000; echo; line 4; } >run/metrics.jsonl
refused 3 "metrics.jsonl line 3" inspect run
refused 3 "metrics.jsonl line 3" inspect --csv run
rm -r run

# A few mutations around every byte, through real programs. The other tests do thousands of mutations within one
# process.
size=$(wc -c <plan.json)
for i in $(seq 0 11); do
  at=$((size * i / 12))
  for change in "head -c $at plan.json" "sed s/[0-9]/x/$((i + 1)) plan.json"; do
    $change >bad.json
    for command in "inspect bad.json" "train --plan bad.json --print-config"; do
      code=0
      timeout 30 $command >out 2>err </dev/null || code=$?
      [ $code = 0 ] || [ $code = 2 ] || [ $code = 3 ] || fail "$change, $command: exit code $code: $(head -c 300 err)"
    done
  done
done

passed
