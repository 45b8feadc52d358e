#!/bin/bash
# 4 GB from a pipe with 1 GiB of address space: counted, and written with a bounded disk. Nightly.
# usage: large_pipe.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -e
[ "$(df --output=avail -B1 . | tail -1)" -gt 14000000000 ] || skipped "14 GB of disk are not free here"
ulimit -f 1000000   # blocks of 1 KiB: one file stays below 1 GB
bytes=4000000000
line='the quick brown fox jumps over the lazy dog and runs away into the deep green forest where nobody ever finds it again'
text() { yes "$line" | head -c $bytes; }
json() { yes "{\"text\": \"$line\"}" | head -c $bytes; }

run() {
  local name=$1 source=$2
  shift 2
  $source | ( ulimit -v 1048576; timeout 1500 shard-data --input - --output set --json "$@" ) >out 2>err || { echo "$name: exit code $?"; cat err; exit 1; }
  cat out
}

run "plain text, counted" text --dry-run
jq -e ".text_bytes == $bytes and .rejected == 0" out >/dev/null
[ ! -e set ] && [ ! -e set.partial ]
run "JSON lines, counted" json --dry-run
jq -e '.documents > 30000000 and .rejected <= 1' out >/dev/null   # the last line may be cut
run "plain text, written" text --validation 0.5
jq -e ".text_bytes == $bytes and .train.tokens + .validation.tokens == $bytes + .documents" out >/dev/null
[ "$(jq '[.train[], .validation[]] | map(.tokens) | add' set/index.json)" -eq "$(jq '.train.tokens + .validation.tokens' out)" ]
passed
