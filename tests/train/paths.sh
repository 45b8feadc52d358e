#!/bin/bash
# A folder whose name is not UTF-8 and contains control sequences of terminals. Sharding, training, saving, resuming on
# other ranks, inspecting and generating work. The name reaches no terminal as it is.
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
end_at_first_failure
export TRAINYARD_DEVICE=cpu
# printable CODE COMMAND...: like expect, and stderr has nothing that a terminal would obey
printable() {
  expect "$@"
  ! LC_ALL=C grep -q $'\e\|\xff' err || fail "raw bytes of a name on stderr: ${*:2}"
}

place=$folder/$'odd\xff\e[31m'
mkdir "$place"
small_text 100 >"$place/text"
tiny_model 16 >"$place/model.toml"
printable 0 shard-data --input "$place/text" --split paragraphs --output "$place/data" --validation 0.1
run=(train --model "$place/model.toml" --data "$place/data" --output "$place/run" --global-batch 4 --micro-batch 1 --threads 1 --progress always --save-every 2 --steps 8)
printable 75 "${run[@]}" --stop-after 4
[ "$(cat out)" = "$place/run/checkpoints/step-00000004" ] || fail "the product is not the path, byte by byte"
printable 0 mpirun -q --bind-to none -n 2 "${run[@]}" --stop-after 0
grep -q 'resuming from .*odd\\xff\\x1b' err || fail "the resume does not say from where"
[ "$(wc -l <"$place/run/metrics.jsonl")" = 8 ] || fail "the resumed run has not all its metrics"
printable 0 inspect "$place/run"
! LC_ALL=C grep -q $'\e\|\xff' out || fail "inspect prints the name as it is"
printable 0 inspect --verify "$place/run/checkpoints/step-00000008"
! LC_ALL=C grep -q $'\e\|\xff' out || fail "inspect prints the name as it is"
for what in run run/checkpoints run/checkpoints/step-00000008; do
  printable 0 inspect --json "$place/$what"
  jq -e .kind out >/dev/null || fail "inspect --json $what is no JSON"
done
jq -e '.provenance.data | startswith("percent:") and endswith("/odd%FF%1B[31m/data")' out >/dev/null || fail "the folder of the data is lost: $(jq -c .provenance out)"
printable 0 generate --checkpoint "$place/run" --prompt 'line' --tokens 4 --threads 1
printable 3 train --model "$place/absent.toml" --data "$place/data" --output "$place/run"
printable 3 generate --checkpoint "$place/absent" --prompt x
# On a terminal the program's output is printable too.
if command -v script >/dev/null; then
  script -qec "train --model '$place/model.toml' --data '$place/data' --output '$place/run' --global-batch 4 --micro-batch 1 --steps 8 --save-every 2 2>/dev/null" /dev/null >out </dev/null
  grep -q 'odd\\xff\\x1b' out || fail "nothing printable was printed on a terminal"
  ! LC_ALL=C grep -q $'\e\|\xff' out || fail "raw bytes reach the terminal"
fi
passed
