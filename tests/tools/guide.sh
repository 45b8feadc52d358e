#!/bin/bash
# The commands of one page: its blocks ```sh run as they are, one after the other, in an empty folder with a text as
# book.txt.
# usage: guide.sh BIN_FOLDER PAGE
PATH=$(realpath "$1"):$PATH
page=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
time_limit=300   # of a block, on a machine with other work
export TRAINYARD_DEVICE=cpu
small_text 3000 >book.txt
awk -v folder="$folder" '
  /^```sh *$/ { ++blocks; running = 1; next }
  /^```/ { running = 0 }
  running { print >(folder "/block" blocks ".sh") }' "$page"
blocks=0
while [ -f "block$((blocks + 1)).sh" ]; do
  blocks=$((blocks + 1))
  expect 0 bash -euo pipefail "block$blocks.sh"
done
[ $blocks -gt 0 ] || fail "the page has no block of commands"
passed "$blocks blocks"
