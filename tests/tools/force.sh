#!/bin/bash
# --force replaces only plans, profiles and drawings of ours: no thesis, no input, nothing behind a link. Drawings of
# partition-model do so without --force.
# usage: force.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
ulimit -f 100000
plan=(partition-model --model gpt2-nano --ranks 2)
profile=(profile-comm --backend threads --ranks 2 --max-bytes 64 --budget 10min --spread 0 --confidence 90% --progress never)   # 20 passes, however long they take
spared() {  # WORDS FILE COMMAND...: refused, and the file is unchanged
  local before
  before=$(md5sum <"$2")
  refused 2 "$1" "${@:3}" --force
  [ "$(md5sum <"$2")" = "$before" ] || fail "${*:3}: $2 was touched"
}
echo "years of work" >thesis.tex
spared 'thesis.tex is not replaced: it is not a plan' thesis.tex "${plan[@]}" --output thesis.tex
spared 'thesis.tex is not replaced: it is not a profile' thesis.tex "${profile[@]}" --output thesis.tex
spared 'plot: a drawing is SVG or PNG, and thesis.tex ends in .tex' thesis.tex "${profile[@]}" --plot thesis.tex
cp thesis.tex thesis
spared 'thesis is not replaced: it is no drawing' thesis "${profile[@]}" --plot thesis
for i in 1 2; do "${plan[@]}" --output plan.json --force >/dev/null 2>err || fail "a plan over a plan: $(cat err)"; done
for i in 1 2; do timeout 60 "${profile[@]}" --output profile.json --plot profile.svg --force >/dev/null 2>err || fail "a profile over a profile: $(cat err)"; done
spared 'plan.json is not replaced: it is not a profile' plan.json "${profile[@]}" --output plan.json
spared 'profile.json is not replaced: it is not a plan' profile.json "${plan[@]}" --output profile.json
spared 'profile.json is not replaced: it is an input' profile.json profile-comm --from profile.json --output profile.json
ln -s plan.json link.json
spared 'link.json is not replaced: it is a symbolic link' plan.json "${plan[@]}" --output link.json
: >empty.json
"${plan[@]}" --output empty.json --force >/dev/null 2>err || fail "a plan over nothing: $(cat err)"
planner=(partition-model --model gpt2-nano --machine dgx-a100-80 --global-batch 64)
spared 'thesis is not replaced: it is no drawing' thesis "${planner[@]}" --draw thesis
spared 'thesis is not replaced: it is no drawing' thesis "${planner[@]}" --frontier thesis
spared 'thesis is not replaced: it is no drawing' thesis "${planner[@]}" --scale nodes=1:2 --svg thesis
for i in 1 2; do "${planner[@]}" --draw step.svg >out 2>err && grep -q '<svg ' step.svg && grep -q ' of all ranks' out || fail "a step over a step: $(cat err)"; done
"${planner[@]}" --scale nodes=1:2 --svg scale.svg >out 2>err && grep -q '<svg ' scale.svg && grep -q '^ *2  *16 ' out || fail "scaling: $(cat out err)"
"${planner[@]}" --frontier - >out 2>err && grep -q 'memory of a rank' out || fail "a frontier: $(cat err)"
# What cannot be written is refused before a search.
refused 4 'cannot create none/best.json' "${planner[@]}" --nodes 1 --search --output none/best.json
unsaid 'layouts searched'
refused 4 'cannot create none/step.svg' "${planner[@]}" --nodes 1 --search --draw none/step.svg
unsaid 'layouts searched'
refused 2 'given twice' "${planner[@]}" --nodes 1 --search --output step.svg --draw step.svg --force
refused 2 '--show-machine and --search are two questions' "${planner[@]}" --nodes 1 --search --show-machine
# A machine may come through a pipe, and a pipe that nobody writes is none.
expect 0 partition-model --machine dgx-a100-80 --show-machine
mv out machine.toml
expect 0 partition-model --model gpt2-nano --machine <(cat machine.toml) --global-batch 64
said 'a step on '
mkfifo pipe.toml
refused 3 'pipe.toml' timeout 20 partition-model --model gpt2-nano --machine pipe.toml --global-batch 64
refused 2 '--scale needs a machine' partition-model --model gpt2-nano --scale nodes=1:2
refused 2 '--draw needs a machine' partition-model --model gpt2-nano --draw step.svg
refused 2 'numbers that ascend' "${planner[@]}" --scale nodes=2:1
refused 2 '--svg is the picture of --scale' "${planner[@]}" --svg scale.svg
refused 2 '--scale varies the nodes, and --nodes sets them' "${planner[@]}" --scale nodes=1:2 --nodes 2
refused 2 '--scale and --frontier are two questions' "${planner[@]}" --scale nodes=1:2 --frontier frontier.svg
refused 2 '--draw is about one layout' "${planner[@]}" --scale nodes=1:2 --draw step.svg
refused 3 '--scale nodes=1:2: nothing fits' "${planner[@]}" --scale nodes=1:2 --device-memory 1MB
passed
