#!/bin/bash
# The sources of one room under the checks of .clang-tidy, each compiled as the build compiles it.
# usage: tidy.sh ROOT BUILD ROOM
set -euo pipefail
root=$1 build=$2 room=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# One entry a source: kernels are compiled for several instruction sets.
jq --arg room "$root/$room/" '[.[] | select(.file | startswith($room) and endswith(".cpp")) | .command |= sub("^\\S*ccache\\s+"; "")] | unique_by(.file)' \
  "$build/compile_commands.json" >"$folder/compile_commands.json"
sources=$(jq length "$folder/compile_commands.json")
[ "$sources" -gt 0 ] || { echo "$room has no source in $build/compile_commands.json"; exit 1; }
jq -j '.[].file + "\u0000"' "$folder/compile_commands.json" | xargs -0 -n 1 clang-tidy --quiet --config-file="$root/.clang-tidy" -p "$folder" 2>"$folder/counts" || {
  grep -v 'warnings\? generated' "$folder/counts" >&2
  exit 1
}
echo "$sources sources of $room"
