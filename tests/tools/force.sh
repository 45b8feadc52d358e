#!/bin/bash
# --force replaces plans, profiles and drawings of ours, and nothing else: no thesis, no input, nothing behind a link.
# usage: force.sh BIN_FOLDER
set -u
PATH=$1:$PATH
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
ulimit -f 100000
failures=0
fail() { echo "FAIL: $*"; failures=$((failures + 1)); }
plan=(partition-model --model gpt2-nano --ranks 2)
profile=(profile-comm --backend threads --ranks 2 --max-bytes 64 --budget 1s --progress never)
refused() {  # WORDS FILE COMMAND...
  local words=$1 file=$2 code=0 before
  before=$(md5sum <"$file")
  timeout 60 "${@:3}" --force >out 2>err </dev/null || code=$?
  [ $code = 2 ] && grep -q -e "$words" err && grep -q '^  try: ' err || fail "${*:3}: exit code $code, $(cat err)"
  [ "$(md5sum <"$file")" = "$before" ] || fail "${*:3}: $file was touched"
}
echo "years of work" >thesis.tex
refused 'thesis.tex is not replaced: it is not a plan' thesis.tex "${plan[@]}" --output thesis.tex
refused 'thesis.tex is not replaced: it is not a profile' thesis.tex "${profile[@]}" --output thesis.tex
refused 'thesis.tex is not replaced: it is no drawing' thesis.tex "${profile[@]}" --plot thesis.tex
for i in 1 2; do "${plan[@]}" --output plan.json --force >/dev/null 2>err || fail "a plan over a plan: $(cat err)"; done
for i in 1 2; do timeout 60 "${profile[@]}" --output profile.json --plot profile.svg --force >/dev/null 2>err || fail "a profile over a profile: $(cat err)"; done
refused 'plan.json is not replaced: it is not a profile' plan.json "${profile[@]}" --output plan.json
refused 'profile.json is not replaced: it is not a plan' profile.json "${plan[@]}" --output profile.json
refused 'profile.json is not replaced: it is an input' profile.json profile-comm --from profile.json --output profile.json
ln -s plan.json link.json
refused 'link.json is not replaced: it is a symbolic link' plan.json "${plan[@]}" --output link.json
: >empty.json
"${plan[@]}" --output empty.json --force >/dev/null 2>err || fail "a plan over nothing: $(cat err)"
[ $failures = 0 ] && echo "all as it should be"
