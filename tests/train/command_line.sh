#!/bin/bash
# train under mpirun: equal losses, a stop by a signal to one rank, resumes, damaged checkpoints, refusals, a full disk,
# and a loss that is not finite.
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
time_limit=100
last_loss() { tail -1 "$1/metrics.jsonl" | sed 's/.*"loss":\([^,]*\),.*/\1/'; }
last_step() { tail -1 "$1/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/'; }

small_text 400 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
base=(train --model gpt2-nano --data data --global-batch 6 --micro-batch 1 --progress never --threads 1)

expect 0 "${base[@]}" --steps 30 --output one
once '^train: 30 steps, 11,520 tokens in [0-9.]* m\?s ([0-9,]* tokens/s); checkpoint: one/checkpoints/step-00000030 (saved in [0-9.]* m\?s)$'
expect 0 mpirun -q --bind-to none -n 3 "${base[@]}" --steps 30 --output three --zero 3
[ "$(last_loss one)" = "$(last_loss three)" ] || fail "losses of 1 and 3 ranks differ: $(last_loss one) $(last_loss three)"
expect 0 "${base[@]}" --steps 30 --output one
said "all 30 steps are done already$"
expect 0 "${base[@]}" --steps 30 --resume one/checkpoints/step-00000030 --output other
said 'all 30 steps are done already; nothing is written to other: a higher --steps goes on from one/checkpoints/step-00000030'
absent other

# A group that shares a folder: what the umask allows the group, every file of a run allows it.
umask 002
expect 0 "${base[@]}" --steps 3 --output shared
[ -z "$(find shared ! -perm -g=w)" ] || fail "the group cannot write $(find shared ! -perm -g=w)"
umask 022

# A signal to one rank: all ranks save and end with 75, and the run goes on where it stopped.
for signal in USR1 TERM; do
  run=signal-$signal
  mpirun -q --bind-to none -n 3 "${base[@]}" --steps 100000 --output "$run" --zero 2 >out-$signal 2>&1 &
  launcher=$!
  for _ in $(seq 1 300); do [ "$(wc -l 2>/dev/null <"$run/metrics.jsonl" || echo 0)" -gt 20 ] && break; sleep 0.1; done
  rank=$(pgrep -P "$launcher" -x train | tail -1)
  [ -n "$rank" ] || fail "no rank to signal"
  kill -"$signal" "$rank"
  code=0; wait "$launcher" || code=$?
  [ "$code" = 75 ] || { cat out-$signal; fail "exit $code after $signal to one rank, expected 75"; }
  stopped=$(last_step "$run")
  [ -d "$run/checkpoints/step-$(printf %08d "$stopped")" ] || fail "no checkpoint of step $stopped after $signal"
done
expect 75 "${base[@]}" --steps 100000 --output signal-USR1 --stop-after $(($(last_step signal-USR1) + 10))
said "resuming with ranks 1"

# Damage: a damaged newest checkpoint is skipped with a warning. Named by its path it is refused.
expect 0 "${base[@]}" --steps 30 --output damaged --save-every 10
newest=damaged/checkpoints/step-00000030
printf 'X' | dd of="$newest/rank-00000.h5" bs=1 seek=200000 conv=notrunc status=none
expect 3 "${base[@]}" --steps 30 --output other --resume "$newest"
expect 0 "${base[@]}" --steps 30 --output damaged --save-every 10
said "step-00000020"
[ "$(last_loss damaged)" = "$(last_loss one)" ] || fail "the run over the damaged checkpoint ended at another loss"

# Refusals.
expect 3 "${base[@]}" --steps 30 --output one --seed 9 --stop-after 40 --resume one/checkpoints/step-00000030
said "--seed: the checkpoint has 1, this run 9"
expect 2 "${base[@]}" --steps 0 --output x --zero 5 --dtype f64
said "--dtype f64"; said "--zero 5"; said "--steps 0"
expect 2 "${base[@]}" --no-such-flag
expect 2 "${base[@]}" --device gpu --output x
said "--device gpu is not known; use auto, cpu, cuda"
if ! nvidia-smi >/dev/null 2>&1; then
  expect 4 "${base[@]}" --device cuda --output x
  said "CUDA"; said "--device cpu"
  expect 4 mpirun -q -n 2 "${base[@]}" --device cuda --output x
  [ ! -e x ] || fail "--device cuda without a GPU made something"
fi
expect 3 train --model gpt2-nano --data nowhere --output x
expect 3 mpirun -q -n 2 "${base[@]}" --steps 5 --output big --model gpt2-micro --sequence 32 --memory-limit 440MB --zero 0
said "too much"; said "--zero 3 would need"
[ ! -e big/checkpoints ] || fail "something was made before the refusal"
expect 0 mpirun -q -n 2 "${base[@]}" --steps 2 --output big --model gpt2-micro --sequence 32 --memory-limit 440MB --zero 3
expect 0 "${base[@]}" --steps 5 --output dry --dry-run
[ ! -e dry ] || fail "--dry-run wrote something"
expect 0 "${base[@]}" --print-config
said 'global-batch = 6 .*# flag'

# Closed standard streams: output goes nowhere, and not into the run's own files.
code=0
"${base[@]}" --steps 6 --save-every 2 --output closed <&- >&- 2>&- || code=$?
[ "$code" = 0 ] || [ "$code" = 4 ] || fail "exit $code with closed streams"    # 4: the summary cannot be written
inspect --verify closed >out 2>&1 || fail "closed streams: $(cat out)"
[ "$(jq -s 'map(.step) == [range(1; 7)]' closed/metrics.jsonl)" = true ] || fail "closed streams: $(cat closed/metrics.jsonl)"
expect 0 bash -c '"$@" 2>&-' - "${base[@]}" --steps 6 --output closed-2
for closed in '<&-' '<&- >/dev/null' '<&- 2>&-'; do
  code=0
  bash -c "shard-data --input - --output no-input $closed" >out 2>err || code=$?
  [ "$code" = 3 ] || [ "$code" = 4 ] || fail "exit $code where standard input is closed"
  [ ! -e no-input ] || fail "a set of no input"
done

# Not finite: exit 5, the message names the tensor, the good checkpoint stays.
expect 5 "${base[@]}" --steps 30 --output wild --save-every 1 --learning-rate 1e30 --clip 0
said "is not finite"; said "micro-batch"
inspect --verify "$(ls -d wild/checkpoints/step-* | tail -1)" >out 2>&1 || fail "the checkpoint before the failure is not whole"
expect 5 train --evaluate wild --evaluate-split train --threads 1 --progress never
said 'is not finite: nan$'   # whatever sign the processor gives it

# No space: exit 4, older checkpoints stay. The thread sanitizer maps a file of its own in TMPDIR, if it can, which the
# limit would cut off.
code=0
(ulimit -f 300; TMPDIR=/proc timeout 60 "${base[@]}" --steps 30 --output full --model gpt2-micro --sequence 32 --save-every 10) >out 2>&1 || code=$?
[ "$code" = 4 ] || fail "exit $code on a full disk, expected 4"
[ -z "$(ls full/checkpoints 2>/dev/null)" ] || fail "a partial checkpoint was left: $(ls full/checkpoints)"
passed
