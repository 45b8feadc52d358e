#!/bin/bash
# How train starts: a signal in its first moments, a start that fails, and --dry-run, which refuses what a start would
# refuse.
# usage: startup.sh BIN_FOLDER [LIBRARY that sends the signal]
PATH=$(realpath "$1"):$PATH
early=${2-}
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
looks() { find . -not -name out -not -name err -printf '%p %T@ %s\n' | sort; }
dry() { # CODE FLAGS...: like expect, and nothing may change
  local before
  before=$(looks)
  expect "$1" "${base[@]}" --dry-run "${@:2}"
  [ "$(looks)" = "$before" ] || fail "--dry-run ${*:2} changed something: $(diff <(echo "$before") <(looks))"
}

small_text 200 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
tiny_model >model.toml
base=(train --model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never)

# A scheduler's signal may arrive before a program has installed its handlers.
if [ -n "$early" ]; then
  expect 75 env LD_PRELOAD="$early" "${base[@]}" --output early --steps 100000
  expect 75 env EARLY_SIGNAL=before LD_PRELOAD="$early" "${base[@]}" --output before --steps 100000
  said "stopped after step 1 of"
  expect 0 env LD_PRELOAD="$early" train --evaluate early --evaluate-sequences 2 --threads 1
fi

# A start that fails leaves nothing.
before=$(find . | sort)
expect 3 "${base[@]}" --output new/run --resume data
expect 3 "${base[@]}" --output new/run --sequence 8 --validate-every 1 --validation-sequences 100000
[ "$(find . | sort)" = "$before" ] || fail "a start that failed left $(diff <(echo "$before") <(find . | sort))"

# --dry-run reports what a start would do.
dry 0 --output new --steps 10
said "would begin anew"
expect 0 "${base[@]}" --output run --steps 10 --save-every 5
[ ! -e run/lock ] || fail "a run that has ended left its lock"
dry 0 --output run --steps 10
said "would do nothing: run/checkpoints/step-00000010 is of step 10"
dry 0 --output run --steps 10 --resume run/checkpoints/step-00000005
said "would go on after step 5 of 10, from run/checkpoints/step-00000005"
dry 0 --output new --steps 10 --init-from run/checkpoints/step-00000005
said "weights of run"

# A run that is made longer goes on with another learning rate than was planned, and reports that.
dry 0 --output run --steps 10
unsaid "the learning rate of step"
dry 0 --output run --steps 12 --change steps
said "^the learning rate of step 11 is .*; the settings of the checkpoint gave [0-9.e-]*$"
cp -r run longer
expect 0 "${base[@]}" --output longer --steps 12 --change steps
said "the learning rate of step 11 is .*; the settings of the checkpoint gave [0-9.e-]*$"
rm -r longer

# --dry-run refuses what a start would refuse.
dry 3 --output run --steps 10 --resume run/checkpoints/step-00000007
said "does not exist"
dry 3 --output run --steps 10 --seed 2
said "seed"
dry 2 --output run --steps 10 --resume never
dry 3 --output run --steps 10 --validate-every 1 --validation-sequences 100000
said "--validation-sequences asks for 100000"
printf 'layers = 80\nhidden = 8192\nheads = 64\nkv-heads = 64\nffn = 32768\ncontext = 64\n' >big.toml
dry 4 --output new --steps 10 --model big.toml
said "this machine has"
ln -s nowhere dangling
dry 3 --output dangling --steps 10
mkdir -p stale/checkpoints/step-00000003.partial
dry 0 --output stale --steps 10
"${base[@]}" --output held --steps 100000000 >held.log 2>&1 &
for _ in $(seq 1 200); do [ -s held/metrics.jsonl ] && break; sleep 0.05; done
expect 4 "${base[@]}" --dry-run --output held --steps 100000000
said "held is in use by process [0-9]* on $(hostname)"
passed
