#!/bin/bash
# reshard-checkpoint from the command line: the layouts, a resume on the result, --average, --diff, --verify, exit
# codes, JSON, signals.
# usage: command_line.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export OMP_NUM_THREADS=1

small_text 200 >text
tiny_model 16 >tiny.toml
shard-data --input text --split paragraphs --output data >/dev/null 2>&1 || fail "no shards"
train=(train --model tiny.toml --data data --steps 6 --global-batch 4 --sequence 16 --threads 1 --progress never)
"${train[@]}" --output run --save-every 2 >/dev/null 2>&1 || fail "no run"
newest=run/checkpoints/step-00000006

# A run means its newest checkpoint. The program prints the path of what it made.
expect 0 reshard-checkpoint run four --data-parallel 4 --zero 3
[ "$(cat out)" = four ] || fail "stdout: $(cat out)"
said 'step 6 of 1 rank on 4 ranks'
[ "$(ls four | grep -c '^rank-.*h5$')" = 4 ] || fail "files: $(ls four)"
[ "$(inspect four --json | jq '.plan.zero, .plan.ranks' | xargs)" = "3 4" ] || fail "the plan does not say the layout"
expect 0 inspect --verify four
expect 0 reshard-checkpoint four one --consolidate --threads 2 --memory 8MiB --json
jq -e '.output == "one" and .source_ranks == 4 and .ranks == 1 and .step == 6 and .kept_rank_files == 0 and .bytes_written > 0' out >/dev/null || fail "JSON: $(cat out)"
same one/rank-00000.h5 $newest/rank-00000.h5 "there and back"
same one/checkpoint.h5 $newest/checkpoint.h5 "there and back"
expect 0 reshard-checkpoint one narrow --dtype bfloat16
expect 0 reshard-checkpoint narrow wide --dtype float32
same wide/rank-00000.h5 $newest/rank-00000.h5 "by way of bf16"

# To tensor-parallel ranks and back. What no flag sets stays as it is.
expect 0 reshard-checkpoint run shared --data-parallel 3 --tensor-parallel 2 --json
jq -e '.ranks == 6 and .tensor == 2' out >/dev/null || fail "JSON: $(cat out)"
[ "$(inspect shared --json | jq -c '[.plan.topology[].size], .plan.ranks' | xargs)" = "[3,2] 6" ] || fail "the plan does not say the layout"
expect 0 inspect --verify shared
expect 0 generate --checkpoint shared --tokens 3 --threads 1
expect 0 reshard-checkpoint shared narrower --data-parallel 1
said 'of 6 ranks on 2 ranks (1 x 2 tensor)'
expect 0 reshard-checkpoint --average shared narrower mean-of-both --tensor-parallel 1
expect 0 reshard-checkpoint --diff run mean-of-both
expect 0 reshard-checkpoint narrower whole --consolidate
same whole/rank-00000.h5 $newest/rank-00000.h5 "from tensor ranks and back"

# To pipeline stages and back. Each stage has the items that --partition gives, which the plan records. What no flag
# sets stays as it is, boundaries too.
expect 0 reshard-checkpoint run staged --data-parallel 2 --pipeline-parallel 2 --tensor-parallel 2 --partition 0,2 --json
jq -e '.ranks == 8 and .tensor == 2 and .pipeline == 2' out >/dev/null || fail "JSON: $(cat out)"
plan_of() { inspect "$1" --json | jq -c '[.axes[].axis], .plan.pipeline, .plan.stage_boundaries' | xargs; }
[ "$(plan_of staged)" = "[pipe,data,tensor] 2 [0,2,3]" ] || fail "the plan does not say the layout: $(plan_of staged)"
expect 0 inspect staged
said 'written by  8 ranks (pipe 2 x data 2 x tensor 2)'
expect 0 inspect --verify staged
expect 0 generate --checkpoint staged --tokens 3 --threads 1
expect 0 reshard-checkpoint staged restaged --data-parallel 1 --tensor-parallel 1
said 'of 8 ranks on 2 ranks (2 stages x 1)'
[ "$(plan_of restaged)" = "[pipe,data] 2 [0,2,3]" ] || fail "the boundaries did not stay: $(plan_of restaged)"
expect 0 reshard-checkpoint restaged other-stages --partition uniform --tensor-parallel 2
said '(2 stages x 1 x 2 tensor)'
expect 0 reshard-checkpoint --diff staged other-stages
expect 0 reshard-checkpoint other-stages three --pipeline-parallel 3
[ "$(plan_of three)" = "[pipe,data,tensor] 3 [0,1,2,3]" ] || fail "the plan does not say the layout: $(plan_of three)"
expect 0 reshard-checkpoint --average staged three mean-of-stages --pipeline-parallel 1
expect 0 reshard-checkpoint --diff run mean-of-stages
[ "$(plan_of mean-of-stages)" = "[data,tensor] null [0,3]" ] || fail "the plan speaks of stages: $(plan_of mean-of-stages)"
partition-model --model tiny.toml --data data --sequence 16 --ranks 4 --pipeline-parallel 2 --partition 0,1 --zero 1 --global-batch 12 --output piped.json >/dev/null || fail "no plan"
expect 0 reshard-checkpoint three by-plan --plan piped.json
[ "$(plan_of by-plan)" = "[pipe,data] 2 [0,1,3]" ] || fail "not what the plan says: $(plan_of by-plan)"
expect 0 reshard-checkpoint three by-words --data-parallel 2 --tensor-parallel 1 --pipeline-parallel 2 --partition 0,1
for file in rank-0000{0,1,2,3}.h5 ranks.index checkpoint.h5; do same by-plan/$file by-words/$file "by plan and by words"; done
expect 0 mpirun -n 2 "${train[@]}" --output piped --pipeline-parallel 2 --partition 0,2
expect 0 reshard-checkpoint --diff run piped
expect 0 reshard-checkpoint run as-piped --data-parallel 1 --pipeline-parallel 2 --partition 0,2
for file in rank-0000{0,1}.h5 ranks.index checkpoint.h5; do same as-piped/$file piped/checkpoints/step-00000006/$file "a save of stages"; done
expect 0 reshard-checkpoint three unstaged --consolidate
same unstaged/rank-00000.h5 $newest/rank-00000.h5 "from stages and back"

# To expert-parallel ranks and back. A degree that no flag sets stays where the new ranks can have it.
{ tiny_model 16; printf 'experts-count = 6\n'; } | sed 's/layers = 1/layers = 2/' >moe.toml
of_experts=(train --model moe.toml --data data --steps 2 --global-batch 4 --sequence 16 --threads 1 --progress never)
expect 0 "${of_experts[@]}" --output moe
expect 0 reshard-checkpoint moe dealt --data-parallel 6 --expert-parallel 3 --json
jq -e '.ranks == 6 and .tensor == 1 and .expert_parallel == 3' out >/dev/null || fail "JSON: $(cat out)"
dealt_of() { inspect "$1" --json | jq -c '[.axes[].axis], .plan.expert_parallel, .plan.ranks' | xargs; }
[ "$(dealt_of dealt)" = "[data] 3 6" ] || fail "the plan does not say the layout: $(dealt_of dealt)"
expect 0 inspect dealt
said 'written by  6 ranks (data 6, experts over 3)'
expect 0 inspect --verify dealt
expect 0 generate --checkpoint dealt --tokens 3 --threads 1
expect 0 train --evaluate dealt --data data --evaluate-split train --threads 1
expect 0 "${of_experts[@]}" --output dealt-onward --resume dealt --steps 3 --change steps
expect 0 reshard-checkpoint dealt fewer --data-parallel 3
said 'of 6 ranks on 3 ranks (3, experts over 3)'
expect 0 reshard-checkpoint dealt four-of-all --data-parallel 4
unsaid 'experts over'
[ "$(dealt_of four-of-all)" = "[data] null 4" ] || fail "the plan speaks of experts: $(dealt_of four-of-all)"
expect 0 reshard-checkpoint fewer dealt-stages --data-parallel 2 --pipeline-parallel 2 --expert-parallel 2
said '(2 stages x 2, experts over 2)'
expect 0 reshard-checkpoint --diff moe dealt-stages
expect 0 reshard-checkpoint --average dealt dealt-stages mean-of-dealt
said '(2 stages x 2, experts over 2)'
expect 0 reshard-checkpoint --diff moe mean-of-dealt
expect 0 reshard-checkpoint dealt-stages gathered --consolidate
same gathered/rank-00000.h5 moe/checkpoints/step-00000002/rank-00000.h5 "from shared experts and back"
expect 0 mpirun -n 4 "${of_experts[@]}" --output dealt-run --expert-parallel 2
expect 0 reshard-checkpoint --diff moe dealt-run
expect 0 reshard-checkpoint moe as-dealt --data-parallel 4 --expert-parallel 2
for file in rank-0000{0,1,2,3}.h5 ranks.index checkpoint.h5; do same as-dealt/$file dealt-run/checkpoints/step-00000002/$file "a save of ranks that share experts"; done
expect 0 reshard-checkpoint dealt-run dealt-again
said 'on 4 ranks (4, experts over 2)'
expect 0 mpirun -n 2 "${of_experts[@]}" --output two-onward --resume as-dealt --steps 3 --change steps --expert-parallel 2
expect 0 reshard-checkpoint --diff dealt-onward two-onward
partition-model --model moe.toml --data data --sequence 16 --ranks 6 --expert-parallel 3 --global-batch 12 --output dealt.json >/dev/null || fail "no plan"
expect 0 reshard-checkpoint dealt-run by-dealt-plan --plan dealt.json
for file in rank-0000{0,1,2,3,4,5}.h5 ranks.index checkpoint.h5; do same by-dealt-plan/$file dealt/$file "by plan and by words"; done
[ "$(dealt_of by-dealt-plan)" = "[data] 3 6" ] || fail "not what the plan says: $(dealt_of by-dealt-plan)"
refused 2 'expert-parallel 4 does not divide 6 data-parallel ranks' reshard-checkpoint moe nope --data-parallel 6 --expert-parallel 4
grep -q 'try: --expert-parallel 3 or --expert-parallel 6$' err || fail "no way out: $(cat err)"
refused 2 'expert-parallel 4 does not divide the 6 experts of a layer' reshard-checkpoint moe nope --data-parallel 8 --expert-parallel 4
grep -q 'try: --expert-parallel 2$' err || fail "no way out: $(cat err)"
refused 2 'expert-parallel 2 needs experts, and the model has none' reshard-checkpoint run nope --data-parallel 2 --expert-parallel 2
refused 2 'does not divide the 3 experts of a layer that a tensor rank has' reshard-checkpoint moe nope --data-parallel 2 --tensor-parallel 2 --expert-parallel 2
refused 2 'expert-parallel' reshard-checkpoint moe nope --expert-parallel 0
refused 2 'consolidate and --expert-parallel do not' reshard-checkpoint moe nope --consolidate --expert-parallel 1
refused 2 'diff and --expert-parallel do not' reshard-checkpoint --diff moe dealt --expert-parallel 1

# A likely mistake causes a warning; beyond any sensible limit it is refused.
unsaid warning
expect 0 reshard-checkpoint run sparse --data-parallel 100
said 'warning: [0-9]* of 100 ranks hold nothing: the model is too small for so many'
expect 0 inspect --verify sparse
expect 0 reshard-checkpoint --diff run sparse
refused 2 '8,000 ranks are more than the [0-9,]* weights of the model: most would hold nothing' reshard-checkpoint run nope --data-parallel 4000 --tensor-parallel 2
grep -q 'try: --data-parallel [0-9]* at most$' err || fail "no way out: $(cat err)"
refused 2 'more than 1048576' reshard-checkpoint run nope --data-parallel 600000 --tensor-parallel 2
refused 2 'weights of the model: most would hold nothing' reshard-checkpoint --average run whole nope --data-parallel 9000

# Tensor-parallel ranks that the lanes do not allow: the files are read on any layout, and train takes them as the
# warning says.
lanes=(train --model tiny.toml --data data --steps 3 --global-batch 4 --sequence 16 --threads 1 --progress never)
expect 75 "${lanes[@]}" --output one-lane --lanes 1 --stop-after 2
expect 0 reshard-checkpoint one-lane uneven --tensor-parallel 2
said "warning: 2 tensor ranks do not divide the 1 lane of the checkpoint's model: train goes on from it with --tensor-parallel 1, on GPUs as it is, or as another run with --lanes 2 --change model"
expect 0 generate --checkpoint uneven --tokens 3 --threads 1
expect 0 "${lanes[@]}" --output again --resume uneven
refused 2 'tensor-parallel 2 does not divide lanes 1' mpirun -n 2 "${lanes[@]}" --output nope --resume uneven --tensor-parallel 2
expect 0 mpirun -n 2 "${lanes[@]}" --output another --resume uneven --tensor-parallel 2 --lanes 2 --change model
expect 0 reshard-checkpoint one-lane uneven-weights --only model --tensor-parallel 2
said 'train --init-from takes it with --tensor-parallel 1, on GPUs as it is, or with --lanes 2'
expect 0 "${lanes[@]}" --output tuned-uneven --init-from uneven-weights --lanes 2
expect 0 reshard-checkpoint another even --tensor-parallel 2
unsaid warning

# A resume on the result ends where a resume on the source ends, and keeps the history.
"${train[@]}" --output straight --stop-after 2 >/dev/null 2>&1
reshard-checkpoint straight two --data-parallel 2 >/dev/null 2>&1 || fail "no reshard"
[ "$(wc -l <two/history.jsonl)" = 2 ] || fail "what led there is not kept: $(ls two)"
expect 0 "${train[@]}" --output straight
expect 0 "${train[@]}" --output onward --resume two
expect 0 reshard-checkpoint --diff straight onward
said 'tensors equal, bit for bit'
[ "$(wc -l <onward/metrics.jsonl)" = 6 ] || fail "metrics: $(wc -l <onward/metrics.jsonl) lines"

# A plan sets the whole layout, for its own model only.
partition-model --model tiny.toml --data data --sequence 16 --ranks 3 --zero 2 --dtype bf16 --global-batch 12 --output plan.json >/dev/null
partition-model --model gpt2-nano --data data --sequence 16 --ranks 2 --output other.json >/dev/null
expect 0 reshard-checkpoint run planned --plan plan.json
[ "$(inspect planned --json | jq -r '.ranks, .dtype, .plan.zero' | xargs)" = "3 bf16 2" ] || fail "not what the plan says"
refused 3 'whose tensors differ from the tensors of' reshard-checkpoint run nope --plan other.json

# --diff and --verify
expect 0 reshard-checkpoint --diff run four --json
jq -e '.equal and .reasons == [] and (.tensors | length > 20) and all(.tensors[]; .equal and .different == 0)' out >/dev/null || fail "JSON: $(cat out)"
expect 0 "${lanes[@]}" --output two-lanes --lanes 2
expect 5 reshard-checkpoint --diff run two-lanes
said '^step: the first has 6, the second 3$'; said '^model.lanes: the first has 1, the second 2$'; said '^steps: the first has 6, the second 3$'
expect 5 reshard-checkpoint --diff run/checkpoints/step-00000004 run
[ "$(head -1 out)" = 'step: the first has 4, the second 6' ] && [ -z "$(sed -n 2p out)" ] || fail "it does not begin with why they differ"
said 'differ in [0-9]* of [0-9]* tensors'; said '/model/embedding.tokens.weight .* \[[0-9]*, [0-9]*\]'; said '  try: --tolerance'
expect 5 reshard-checkpoint --diff run/checkpoints/step-00000004 run --json
jq -e '(.equal | not) and .reasons == [{name: "step", first: 4, second: 6}] and (.tensors[0] | .different > 0 and .largest_absolute.value > 0 and (.largest_relative.at | length == 2) and .cosine < 1)' out >/dev/null || fail "JSON: $(cat out)"
expect 0 reshard-checkpoint --diff run/checkpoints/step-00000004 run --tolerance 2
said '; 0 differ by more than 2'
expect 0 reshard-checkpoint --diff run/checkpoints/step-00000004 run --tolerance 2 --json
jq -e '(.equal | not) and .passes' out >/dev/null || fail "what passes is called equal: $(cat out)"
expect 0 reshard-checkpoint --verify run
said 'every checksum and fingerprint is right'
expect 0 reshard-checkpoint --verify four --json
jq -e '.verified' out >/dev/null || fail "JSON: $(cat out)"

# The mean of a checkpoint with itself is the checkpoint; the mean of different ones lies between them.
expect 0 reshard-checkpoint --average run four same --data-parallel 2
expect 0 reshard-checkpoint --diff run same
expect 0 reshard-checkpoint --average run/checkpoints/step-0000000{2,4,6} mean
expect 5 reshard-checkpoint --diff run mean
unsaid '/optimizer/'
expect 0 generate --checkpoint mean --tokens 3 --threads 1
train --model gpt2-nano --data data --output nano --steps 1 --global-batch 2 --sequence 16 --threads 1 --progress never >/dev/null 2>&1
refused 3 'checkpoints of different models cannot be averaged' reshard-checkpoint --average run nano nope
# Equal shapes do not make one model.
{ cat tiny.toml; printf 'norm-epsilon = 1e-3\n'; } >near.toml
train --model near.toml --data data --output near --steps 1 --global-batch 4 --sequence 16 --threads 1 --progress never >/dev/null 2>&1
refused 3 'has norm-epsilon .*0.001.* where .* different models cannot be averaged' reshard-checkpoint --average run near nope

# The weights alone: enough to begin from weights, and for nothing else.
expect 0 reshard-checkpoint run weights --only model --dtype bf16
said 'the weights alone of step 6'
[ "$(inspect weights --json | jq ".tensors | length")" = 20 ] || fail "not the weights alone: $(ls -l weights)"
expect 0 inspect weights
said 'the weights alone'
[ "$(inspect weights --json | jq -r .contents)" = model ] || fail "inspect does not say what it holds"
expect 0 inspect --verify weights
expect 0 generate --checkpoint weights --tokens 3 --threads 1
expect 0 train --evaluate weights --data data --evaluate-split train --threads 1
expect 0 "${train[@]}" --output tuned --init-from weights
refused 3 'weights holds the weights alone: no run can go on from it' "${train[@]}" --output nope --resume weights
expect 0 reshard-checkpoint run exact --only model --json
jq -e '.contents == "model"' out >/dev/null || fail "JSON: $(cat out)"
expect 0 reshard-checkpoint --diff run exact --only model
expect 5 reshard-checkpoint --diff run exact
said '/optimizer/m/embedding.tokens.weight: only the first has it'; said '  try: one has the weights alone'
cp -r weights run/checkpoints/step-00000008
refused 3 'holds the weights alone: no run can go on from it' "${train[@]}" --output run
said '  try: it does not belong there: move it away'
rm -r run/checkpoints/step-00000008

# Refusals, which make nothing.
refused 2 'four exists already' reshard-checkpoint run four
refused 2 'is or lies in' reshard-checkpoint four four --force
refused 2 'is or lies in' reshard-checkpoint four four/inside
for own in step-00000007 mine ../checkpoints/mine step-00000004 step-00000004/mine; do
  for force in "" --force; do refused 2 "only that run may write" reshard-checkpoint run run/checkpoints/$own $force; done
done
refused 2 "only that run may write" reshard-checkpoint --average run four run/checkpoints/mean
refused 2 "only that run may write" convert-checkpoint run run/checkpoints/mine --to safetensors
[ "$(ls run/checkpoints | xargs)" = "latest step-00000002 step-00000004 step-00000006" ] || fail "made: $(ls run/checkpoints)"
refused 2 'pipeline-parallel 4 is more than the 3 items of the model: its embedding, 1 layer and its head' reshard-checkpoint run nope --pipeline-parallel 4
grep -q 'try: --pipeline-parallel 3 at most$' err || fail "no way out: $(cat err)"
refused 2 'partition unifrom is not known' reshard-checkpoint run nope --pipeline-parallel 2 --partition unifrom
refused 2 'partition 0,9: the model has items 0 to 2' reshard-checkpoint run nope --pipeline-parallel 2 --partition 0,9
refused 2 'partition 0,2: 2 numbers for 3 parts' reshard-checkpoint run nope --pipeline-parallel 3 --partition 0,2
refused 2 'partition says where pipeline stages begin, but there is only one' reshard-checkpoint run nope --partition uniform
grep -q 'try: --pipeline-parallel 2, ' err || fail "of stages: $(cat err)"
refused 2 'partition says where pipeline stages begin, but there is only one' reshard-checkpoint run nope --partition 0,1,2
grep -q 'try: --pipeline-parallel 3, ' err || fail "of three stages: $(cat err)"
refused 2 'pipeline' reshard-checkpoint run nope --pipeline-parallel 0
refused 2 '4 stages of 300000 data-parallel ranks of 1 tensor ranks are more than 1048576' reshard-checkpoint run nope --data-parallel 300000 --pipeline-parallel 4
refused 2 'consolidate and --pipeline-parallel do not' reshard-checkpoint run nope --consolidate --pipeline-parallel 2
refused 2 'plan and --partition do not' reshard-checkpoint run nope --plan plan.json --partition uniform
refused 2 'tensor-parallel 4 is more than the model.s 2 key-value heads: some ranks would have none' reshard-checkpoint run nope --tensor-parallel 4
grep -q 'try: --tensor-parallel 2$' err || fail "no way out: $(cat err)"
refused 2 'consolidate and --tensor-parallel do not' reshard-checkpoint run nope --consolidate --tensor-parallel 2
refused 2 'plan and --expert-parallel do not' reshard-checkpoint run nope --plan plan.json --expert-parallel 2
refused 2 'plan and --zero do not go together' reshard-checkpoint run nope --plan plan.json --zero 1
refused 2 'consolidate and --data-parallel do not' reshard-checkpoint run nope --consolidate --data-parallel 2
refused 2 'diff and --force do not' reshard-checkpoint --diff run four --force
refused 2 'tolerance is only for --diff' reshard-checkpoint run nope --tolerance 1
refused 2 '1 path given' reshard-checkpoint run
refused 2 '3 paths given' reshard-checkpoint run four nope
refused 2 '2 paths given' reshard-checkpoint --average run nope
refused 2 'memory' reshard-checkpoint run nope --memory 1MiB
refused 3 'no such checkpoint or run' reshard-checkpoint nothing nope
refused 3 'holds no whole checkpoint' reshard-checkpoint data nope
mkdir thesis && echo "years of work" >thesis/thesis.tex
refused 2 'thesis is not replaced' reshard-checkpoint run thesis --force
cp -r four broken
printf 'x' | dd of=broken/rank-00002.h5 bs=1 seek=9000 conv=notrunc status=none
refused 3 'rank-00002.h5 is damaged between bytes .* it holds /.* elements [0-9]* to' reshard-checkpoint broken nope --force
refused 3 'rank-00002.h5 is damaged between bytes .* elements' reshard-checkpoint --verify broken
refused 3 'rank-00002.h5 is damaged between bytes .* elements' reshard-checkpoint --diff broken run
cp -r shared lost
rm lost/rank-00001.h5
for command in "reshard-checkpoint lost nope" "reshard-checkpoint --verify lost" "generate --checkpoint lost --tokens 3" "train --evaluate lost --data data"; do
  refused 3 'rank-00001.h5 is missing' $command
done
mv lost/rank-00003.h5 lost/rank-00001.h5
mv lost/rank-00005.h5 lost/rank-00003.h5
cp lost/rank-00001.h5 lost/rank-00005.h5
refused 3 'lost/rank-0000[0-9].h5' reshard-checkpoint lost nope
rm broken/rank-00002.h5
refused 3 'rank-00002.h5 is missing' reshard-checkpoint broken nope
absent nope
expect 0 reshard-checkpoint run four --data-parallel 2 --force
[ "$(ls four | grep -c '^rank-.*h5$')" = 2 ] || fail "not replaced: $(ls four)"

# Stopped by a signal: nothing has the final name, and the same command goes on. The first command waits for its plan
# when the signal comes, and may not write a rank file then (files limited to one KiB would mean exit 4).
partition-model --model tiny.toml --data data --sequence 16 --ranks 64 --global-batch 64 --output many.json >/dev/null || fail "no plan"
watches() { [[ $(readlink /proc/$1/exe) == */reshard-checkpoint ]] && grep -q '^SigCgt:.*[4567cdef][0-9a-f]\{3\}$' /proc/$1/status; }
for work in "run stopped" "run stopped --force" "--average run four stopped" "--average run four stopped --force"; do
  ( ulimit -f 1; exec reshard-checkpoint $work --plan <(until [ -e go ]; do sleep 0.02; done; exec cat many.json) ) >out 2>err &
  pid=$!
  for i in $(seq 500); do watches $pid && break; sleep 0.02; done
  kill -TERM $pid
  touch go
  code=0
  wait $pid || code=$?
  [ $code = 143 ] || fail "exit code $code, not 143: reshard-checkpoint $work"
  said 'reshard-checkpoint: stopped by SIGTERM; '
  absent stopped stopped.partial
  rm go
done
code=0
( trap - INT; exec timeout --preserve-status -s TERM 0.03 reshard-checkpoint run many --data-parallel 64 ) >out 2>err || code=$?
if [ $code != 0 ]; then
  [ $code = 143 ] || fail "exit code $code, not 143"
  absent many
fi
expect 0 reshard-checkpoint run many --data-parallel 64 --force
absent many.partial
expect 0 reshard-checkpoint --diff run many
passed
