#!/bin/bash
# Under srun without --kill-on-bad-exit: a killed rank, a hanging rank and a failing rank each end the whole step within
# seconds. The message names the rank and its node.
bin=$(realpath "$1")
export PATH=$bin:$PATH TRAINYARD_DEVICE=cpu
. "$(dirname "$0")/cluster.sh"

small_text 400 >text
shard-data --input text --split paragraphs --output data --validation 0 2>/dev/null
tiny_model >tiny.toml
settings=(--model tiny.toml --data data --global-batch 4 --micro-batch 1 --steps 10000000 --progress never --threads 1)

# lose RANKS RANK SIGNAL RUN FLAG...: starts ranks on two nodes and sends the signal to one of them after some steps.
# Sets code, which is the guard's if the step does not end by itself.
lose() {
  local ranks=$1 rank=$2 signal=$3 run=$4 pid
  shift 4
  srun --kill-on-bad-exit=0 -N2 -n"$ranks" --mpi=pmix train "${settings[@]}" --output "$run" "$@" >out 2>&1 &
  local launcher=$!
  for _ in $(seq 1 300); do [ "$(wc -l 2>/dev/null <"$run/metrics.jsonl" || echo 0)" -gt 3 ] && break; sleep 0.1; done
  pid=$(for p in $(pgrep -x train); do tr '\0' '\n' 2>/dev/null <"/proc/$p/environ" | grep -qx "SLURM_PROCID=$rank" && tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- "--output $run " && echo "$p"; done | head -1) || true
  [ -n "$pid" ] || fail "no rank $rank to lose"
  kill -"$signal" "$pid"
  (sleep 60; kill -INT "$launcher"; sleep 1; kill -KILL "$launcher") 2>/dev/null &
  local guard=$!
  code=0
  wait "$launcher" || code=$?
  kill "$guard" 2>/dev/null || true
}

# The rank is the only one of its node, so Slurm's PMIx reports its end to no rank.
for rank in 1 0; do
  node=n$((rank + 1))
  lose 2 $rank KILL "killed-$rank"
  [ "$code" = 6 ] || fail "exit $code after rank $rank was killed, expected 6"
  grep -q "^watchdog: rank $rank on $node has ended without a word" out || fail "nobody says that rank $rank on $node is lost"
  grep -q "rank $rank on $node" killed-"$rank"/exit/rank-0000$((1 - rank)).json || fail "no reason after rank $rank was killed"
done
for rank in 3 0; do
  node=n$((rank / 2 + 1))
  lose 4 $rank STOP "hung-$rank" --hang-timeout 3
  [ "$code" = 6 ] || fail "exit $code after rank $rank hung, expected 6"
  grep -q "^watchdog: .*rank $rank on $node is silent" out || fail "nobody says that rank $rank on $node is silent"
  jq -e '.exit_code == 6 and (.job | length > 0)' "$(ls hung-"$rank"/exit/rank-*.json | head -1)" >/dev/null || fail "no reason after rank $rank hung"
done

# One rank reads a damaged block: srun has its exit code.
cp -r data torn
printf 'X' | dd of="torn/$(jq -r ".train[0].file" torn/index.json)" bs=1 seek=$(($(jq '.train[0].payload_offset' torn/index.json) + 100)) conv=notrunc status=none
printf '0,1 train %s --data data --output alone\n2 train %s --data torn --output alone\n' "${settings[*]}" "${settings[*]}" >programs
for kill in 0 1; do
  code=0
  timeout 60 srun --kill-on-bad-exit=$kill -N2 -n3 --mpi=pmix --multi-prog programs >out 2>&1 || code=$?
  [ "$code" = 3 ] || fail "exit $code after one rank read a damaged shard, expected 3 (--kill-on-bad-exit=$kill)"
  grep -q "train: rank 2 on n[12]: shard torn/" out || fail "the rank does not say what it met"
done

# A stop on request gives 75, also with --kill-on-bad-exit.
srun --kill-on-bad-exit=1 -N2 -n4 --mpi=pmix --job-name=stopped train "${settings[@]}" --output stopped >out 2>&1 &
launcher=$!
for _ in $(seq 1 300); do [ "$(wc -l 2>/dev/null <stopped/metrics.jsonl || echo 0)" -gt 3 ] && break; sleep 0.1; done
scancel --signal=USR1 "$(squeue -h -n stopped -o %i | head -1).0"
code=0
wait "$launcher" || code=$?
[ "$code" = 75 ] || fail "exit $code after USR1, expected 75"
grep -q "to go on: TRAINYARD_DEVICE=cpu srun --mpi=pmix --kill-on-bad-exit=1 -n 4 [^ ]*train " out || fail "the way on is not said"
passed
