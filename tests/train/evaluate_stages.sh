#!/bin/bash
# train --evaluate with pipeline stages: the JSON of one rank, also by a plan and for a checkpoint that stages wrote;
# refusals; the message names a stage that hangs.
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
time_limit=100
ranks() { local n=$1; shift; echo mpirun -q --bind-to none -n "$n" "$@"; }

small_text 300 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
printf 'layers = 4\nhidden = 32\nheads = 2\nkv-heads = 2\nffn = 64\ncontext = 64\n' >model.toml
train=(train --data data --model model.toml --global-batch 4 --micro-batch 1 --learning-rate 0.01 --progress never --threads 1 --steps 4)
expect 0 "${train[@]}" --output run
expect 0 $(ranks 4 "${train[@]}" --output staged --pipeline-parallel 2 --zero 1)
flags=(--threads 1 --progress never --json --evaluate-split train --evaluate-sequences 27 --micro-batch 2)
evaluate=(train --evaluate run "${flags[@]}")

expect 0 "${evaluate[@]}"
mv out one
as_one() { cmp out one || fail "$1 says something else than one rank"; }
for cut in '2 --pipeline-parallel 2' '4 --pipeline-parallel 2 --zero 3' '4 --pipeline-parallel 2 --tensor-parallel 2 --sequence-parallel' '4 --pipeline-parallel 4 --pipeline-schedule naive --partition 0,1,2,4' \
  '2 --pipeline-parallel 2 --pipeline-schedule interleaved --virtual-stages 3'; do
  expect 0 $(ranks ${cut%% *} "${evaluate[@]}" ${cut#* })
  as_one "$cut"
done

# Any layout reads the checkpoints of any other.
expect 0 train --evaluate staged "${flags[@]}"
mv out of-stages
expect 0 $(ranks 3 train --evaluate staged "${flags[@]}" --pipeline-parallel 3)
cmp out of-stages || fail "3 stages say something else about a checkpoint of 2"

# A plan's stages are also those of its evaluation. Flags take precedence.
expect 0 partition-model --model model.toml --data data --ranks 2 --pipeline-parallel 2 --partition 0,1 --recompute full --global-batch 4 --output plan.json
expect 0 $(ranks 2 "${evaluate[@]}" --plan plan.json)
as_one 'a plan'
expect 3 $(ranks 2 "${evaluate[@]}" --plan plan.json --memory-limit 100MB)
mv err of-plan
expect 3 $(ranks 2 "${evaluate[@]}" --pipeline-parallel 2 --partition 0,1 --memory-limit 100MB)
cmp err of-plan || fail 'a plan is evaluated with other stages than its own'
expect 3 $(ranks 2 "${evaluate[@]}" --plan plan.json --partition 0,5 --memory-limit 100MB)
! cmp -s err of-plan || fail 'a flag does not go before a plan'
refused 2 'plan.json is for 2 ranks' "${evaluate[@]}" --plan plan.json

# Refusals.
refused 2 '--pipeline-parallel 2 does not divide 1 rank' "${evaluate[@]}" --pipeline-parallel 2
refused 2 '--pipeline-parallel 2 does not divide 3 ranks' $(ranks 3 "${evaluate[@]}" --pipeline-parallel 2)
refused 2 '--tensor-parallel 2 does not divide the 1 rank of a stage' $(ranks 2 "${evaluate[@]}" --pipeline-parallel 2 --tensor-parallel 2)
refused 2 '--pipeline-parallel 7: more stages than the model has items, 6' $(ranks 7 "${evaluate[@]}" --pipeline-parallel 7)
refused 2 '--virtual-stages 2 needs --pipeline-schedule interleaved' $(ranks 2 "${evaluate[@]}" --pipeline-parallel 2 --virtual-stages 2)
refused 2 '--pipeline-schedule interleaved needs stages' "${evaluate[@]}" --pipeline-schedule interleaved
refused 2 'more virtual stages than the model has items, 6' $(ranks 2 "${evaluate[@]}" --pipeline-parallel 2 --pipeline-schedule interleaved --virtual-stages 4)
refused 2 '--partition' $(ranks 2 "${evaluate[@]}" --pipeline-parallel 2 --partition 0,1,2)
refused 2 '--partition flop is not known' $(ranks 2 "${evaluate[@]}" --pipeline-parallel 2 --partition flop)
refused 2 '--local-accumulation, --recompute are for training' $(ranks 2 "${evaluate[@]}" --pipeline-parallel 2 --local-accumulation 2 --recompute full)
refused 3 'too many' $(ranks 2 "${evaluate[@]}" --memory-limit 419500000)
said 'with --pipeline-parallel'
refused 2 'rank 1: --partition is flops, on rank 0 uniform' mpirun -q --bind-to none -n 1 "${evaluate[@]}" --pipeline-parallel 2 --partition uniform : -n 1 "${evaluate[@]}" --pipeline-parallel 2
refused 2 'rank 1: --pipeline-parallel is 1, on rank 0 2' mpirun -q --bind-to none -n 1 "${evaluate[@]}" --pipeline-parallel 2 : -n 1 "${evaluate[@]}"

# A stage that hangs ends the evaluation. The message names the stage and its action, once it has reported any work to
# other ranks.
small_text 4000 >text
expect 0 shard-data --input text --split paragraphs --output long --validation 0
mpirun -q --bind-to none -n 3 train --evaluate run --data long --threads 1 --progress always --evaluate-split train --sequence 4 --micro-batch 1 --pipeline-parallel 3 --hang-timeout 3 >hangs.out 2>&1 & launcher=$!
shown=hangs.out
for _ in $(seq 1 600); do grep -q 'loss so far' hangs.out && break; sleep 0.1; done
sleep 1.5
rank=$(pgrep -P "$launcher" -x train | sed -n 2p)
[ -n "$rank" ] || fail 'no stage to stop'
kill -STOP "$rank"
code=0; wait "$launcher" || code=$?
[ "$code" = 6 ] || fail "exit $code after a stage hung, expected 6"
grep -Eq "rank 1 on $(hostname) is silent.*\(stage 1, ([a-z ]+ of micro-batch [0-9]|gathering losses)" hangs.out || fail 'the sentence names no stage, micro-batch or action'
passed
