#!/bin/bash
# inspect --follow on runs that fail: its exit code is the run's, whatever the lines of metrics contain, and the next
# start removes a reason. Also flags that would do nothing.
# usage: command_line.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
end_at_first_failure
export TRAINYARD_DEVICE=cpu
small_text 200 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0
tiny_model >model.toml
base=(train --model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never --steps 4)

# There is no room for the last checkpoint, after all steps are done and their lines are written.
expect 4 bash -c 'ulimit -f 8; exec "$@"' limited "${base[@]}" --output full
[ "$(wc -l <full/metrics.jsonl)" = 4 ] || fail "not all steps were done: this is another failure than the one that was wanted"
expect 4 inspect full --follow --wait
said 'full: ended at step 4 of 4 with exit code 4: rank 0 on .* says: .*File too large'
expect 0 inspect full
once '^  ended with exit code 4: rank 0 on .* says: .*File too large'; once 'in full/exit/rank-\*.json, until the next start$'
expect 0 inspect full --json
jq -e '.exit | length == 1 and .[0].rank == 0 and .[0].exit_code == 4' out >/dev/null || fail "JSON: $(cat out)"
for rank in 1 2 3 4 5; do sed "s/\"rank\": *0/\"rank\": $rank/" full/exit/rank-00000.json >full/exit/rank-0000$rank.json; done
expect 0 inspect full
[ "$(grep -c '^  ended with exit code 4: rank [0-3] on' out)" = 4 ] || fail "not the first four ranks"
said '^  and 2 more: in full/exit/'
expect 0 "${base[@]}" --output full
[ ! -e full/exit ] || fail "the reason of an earlier start is still there"
expect 0 inspect full --follow
said 'all 4 steps are done'

# A run that fails between two steps. A stop is no failure, and leaves no reason.
expect 5 "${base[@]}" --output wild --learning-rate 1e30 --clip 0
expect 5 inspect wild --follow --wait
said 'with exit code 5: .*is not finite'
expect 75 "${base[@]}" --output stopped --stop-after 2
[ ! -e stopped/exit ] || fail "a stop left a reason"
expect 75 inspect stopped --follow
said 'stopped at step 2 of 4: .*goes on from its newest checkpoint'
# A refused start does not end a run.
expect 3 "${base[@]}" --output stopped --seed 7
[ ! -e stopped/exit ] || fail "a start that was refused left a reason"

# The parallel layout is shown beside the ranks.
expect 0 mpirun -q --bind-to none -n 4 "${base[@]}" --global-batch 4 --output shared --lanes 2 --tensor-parallel 2 --zero 1
expect 0 inspect shared; said '^ *step  *tokens seen  *ranks  *layout '; said ' 4  *2 x 2 tensor, ZeRO 1, 2 lanes  *f32 '
expect 0 inspect shared --json
jq -e '[.. | objects | select(has("layout"))] | length > 0 and all(.layout == .cut and (.layout | test("2 x 2 tensor")))' out >/dev/null || fail "the layout in JSON, and its former name: $(cat out)"
expect 0 inspect full shared; said '^  layout: full has 1 rank, ZeRO 0, 1 lane; shared has 4 ranks, 2 x 2 tensor, ZeRO 1, 2 lanes$'; said '^  global_batch: full has 2, shared 4$'; said '^  model.lanes: full has 1, shared 2$'
expect 0 mpirun -q --bind-to none -n 4 "${base[@]}" --global-batch 4 --output staged --pipeline-parallel 2
expect 0 inspect staged; said ' 4  *2 stages (1f1b) x 2 data, ZeRO 0, 1 lane  *f32 '
expect 0 inspect shared staged; said '^  layout: shared has 4 ranks, 2 x 2 tensor, ZeRO 1, 2 lanes; staged has 4 ranks, 2 stages (1f1b) x 2 data, ZeRO 0, 1 lane$'
expect 0 partition-model --model gpt2-nano --ranks 4 --pipeline-parallel 2 --sequence 16 --global-batch 8 --output stages.json
expect 0 inspect stages.json --verify; said '^  stage  items '; said '^  stage 1  2  *3$'; said '^  idle [0-9]* % of a step'; said '^verified'

# Flags that would change nothing, or whose effect could not be seen, are refused before anything is written.
refused 2 'one run' inspect full --json --over time
expect 0 inspect full --json --over time --svg one.svg
expect 0 inspect full stopped --json --over time
refused 2 'cannot be told apart' inspect full full full full full full full full full --svg nine.svg
absent nine.svg
expect 0 inspect full full full full full full full full full

# The name of a drawing decides its kind: PNG needs rsvg-convert, and is refused at once where PATH has none. Other
# kinds are refused.
mkdir empty with
inspect=$(command -v inspect)
refused 4 'svg run.png: a PNG is made by rsvg-convert, and no folder of PATH has it' env PATH="$folder/empty" "$inspect" full --svg run.png; said 'install librsvg2-bin'
refused 4 'rsvg-convert' env PATH="$folder/empty" "$inspect" no/such/run --svg run.png
refused 2 'svg: a drawing is SVG or PNG, and run.pdf ends in .pdf' inspect full --svg run.pdf
absent run.png run.pdf
printf '#!/bin/sh\nexec >&1; cat >got.svg; printf "\\211PNG\\r\\n\\032\\n%%025d" 0\n' >with/rsvg-convert
chmod +x with/rsvg-convert
for time in 1 2; do expect 0 env PATH="$folder/with:/usr/bin:/bin" "$inspect" full --svg run.png; done
expect 0 inspect full --svg run.svg
same run.svg got.svg 'what was converted'
[ "$(head -c 4 run.png | tail -c 3)" = PNG ] || fail "no PNG: $(head -c 20 run.png | cat -v)"
if command -v rsvg-convert >/dev/null; then
  rm run.png
  expect 0 inspect full --svg run.png
  [ "$(wc -c <run.png)" -gt 5000 ] || fail "a small PNG"
fi

# Lanes of a model whose vocabulary comes from the shards are checked when it is known, other widths at once.
printf 'layers = 1\nhidden = 50\nheads = 5\nffn = 100\nlanes = 5\n' >five.toml
expect 0 inspect five.toml
said '^lanes  *5$'; said 'parameters with byte tokens'
sed 's/100/102/' five.toml >six.toml
expect 3 inspect six.toml; said 'ffn 102 is not a multiple of lanes 5'
# Each error of a model has a line. Settings of a run are no model, whatever keys they have.
sed 's/100/102/; s/heads = 5/heads = 7/' five.toml >seven.toml
expect 3 inspect seven.toml; said 'seven.toml describes no model that can be built:$'; said '^  hidden 50 is not a multiple of heads 7$'; said '^  ffn 102 is not a multiple of lanes 5$'
printf 'data = "data"\nsteps = 4\nglobal-batch = 2\n' >run.toml
expect 3 inspect run.toml; said 'run.toml is not the description of a model: '; said 'settings of a run are for train --config'
echo 'steps = 4' >run.toml
expect 3 inspect run.toml; said 'run.toml is not the description of a model: .*steps'; said 'settings of a run are for train --config'
printf 'layers = 1\nhiden = 64\n' >typo.toml
expect 3 inspect typo.toml; said "did you mean 'hidden'"
passed
