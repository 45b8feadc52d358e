#!/bin/bash
# --force replaces only plans, profiles and drawings of ours: no thesis, no input, nothing behind a link.
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
passed
