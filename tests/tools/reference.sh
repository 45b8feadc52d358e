#!/bin/bash
# The reference pages equal what the programs print about themselves. So do man pages and completions, which are
# installed.
# To make the pages anew: bash tests/tools/reference.sh BIN_FOLDER SOURCE_FOLDER --write
# usage: reference.sh BIN_FOLDER SOURCE_FOLDER [--write]
bin=$(realpath "$1") source=$(realpath "$2")
if [ "${3:-}" = --write ]; then
  mkdir -p "$source/tools/guide/reference"
  for main in "$source"/tools/*/main.cpp; do
    name=$(basename "$(dirname "$main")")
    "$bin/$name" --reference markdown >"$source/tools/guide/reference/$name.md" || exit 1
  done
  "$bin/train" --reference model-keys >"$source/tools/guide/reference/model-keys.md"
  exit
fi
PATH=$bin:$PATH
. "$(dirname "$0")/../script.sh"
pages=0
for main in "$source"/tools/*/main.cpp; do
  name=$(basename "$(dirname "$main")")
  pages=$((pages + 1))
  expect 0 "$name" --reference markdown
  same out "$source/tools/guide/reference/$name.md" "the page of $name (bash tests/tools/reference.sh BIN_FOLDER SOURCE_FOLDER --write makes it anew)"
  expect 0 "$name" --help
  grep -o '^  -[-a-zA-Z0-9]*\(, -[-a-zA-Z0-9]*\)*' out | tr -d ' ' | tr , '\n' | sort -u >helped
  grep -o '^| `-[^`]*`' "$source/tools/guide/reference/$name.md" | tr -d '|` ' | tr , '\n' | sort -u >paged
  same helped paged "the flags of $name --help and of its page"
  expect 0 "$name" --reference man
  if command -v man >/dev/null && command -v groff >/dev/null; then
    mv out "$name.1"
    expect 0 man --warnings -l "$name.1"
    [ ! -s err ] || fail "man complains of $name.1"
  fi
  expect 0 "$name" --reference bash
  mv out completion
  expect 0 bash -c '. ./completion; COMP_WORDS=('"$name"' --ver) COMP_CWORD=1; _trainyard_'"${name//-/_}"'; [[ " ${COMPREPLY[*]} " == *" --version "* ]]'
done
[ $pages = 9 ] || fail "$pages programs"
expect 0 train --reference model-keys
same out "$source/tools/guide/reference/model-keys.md" "the page of model keys"
refused 2 'reference pdf is not known' generate --reference pdf
passed
