#!/bin/bash
# A folder whose name is not UTF-8 and holds what a terminal obeys: shards, training, saving, resuming on other ranks, looking and generating work, and the name reaches no
# terminal as it is.
set -uo pipefail
export TRAINYARD_DEVICE=cpu PATH=$(realpath "$1"):$PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "FAILED: $*"; cat -v out err | tail -20; exit 1; }
# expect CODE COMMAND...: runs it; nothing on stderr may be obeyed by a terminal
expect() {
  local want=$1 code=0
  shift
  timeout 60 "$@" >out 2>err </dev/null || code=$?
  [ "$code" = "$want" ] || fail "exit $code, expected $want: $*"
  ! LC_ALL=C grep -q $'\e\|\xff' err || fail "raw bytes of a name on stderr: $*"
}

place=$folder/$'odd\xff\e[31m'
mkdir "$place"
for i in $(seq 1 100); do printf 'line %d of a small text about trains and yards\n\n' "$i"; done >"$place/text"
printf 'layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 16\ncontext = 16\n' >"$place/model.toml"
expect 0 shard-data --input "$place/text" --split paragraphs --output "$place/data" --validation 0.1
run=(train --model "$place/model.toml" --data "$place/data" --output "$place/run" --global-batch 4 --micro-batch 1 --threads 1 --progress always --save-every 2 --steps 8)
expect 75 "${run[@]}" --stop-after 4
[ "$(cat out)" = "$place/run/checkpoints/step-00000004" ] || fail "the product is not the path, byte by byte"
expect 0 mpirun -q --bind-to none -n 2 "${run[@]}" --stop-after 0
grep -q 'resuming from .*odd\\xff\\x1b' err || fail "the resume does not say from where"
[ "$(wc -l <"$place/run/metrics.jsonl")" = 8 ] || fail "the resumed run has not all its metrics"
expect 0 inspect "$place/run"
! LC_ALL=C grep -q $'\e\|\xff' out || fail "inspect prints the name as it is"
expect 0 inspect --verify "$place/run/checkpoints/step-00000008"
! LC_ALL=C grep -q $'\e\|\xff' out || fail "inspect prints the name as it is"
for what in run run/checkpoints run/checkpoints/step-00000008; do
  expect 0 inspect --json "$place/$what"
  jq -e .kind out >/dev/null || fail "inspect --json $what is no JSON"
done
jq -e '.provenance.data | startswith("percent:") and endswith("/odd%FF%1B[31m/data")' out >/dev/null || fail "the folder of the data is lost: $(jq -c .provenance out)"
expect 0 generate --checkpoint "$place/run" --prompt 'line' --tokens 4 --threads 1
expect 3 train --model "$place/absent.toml" --data "$place/data" --output "$place/run"
expect 3 generate --checkpoint "$place/absent" --prompt x
# On a terminal the product is printable too.
if command -v script >/dev/null; then
  script -qec "train --model '$place/model.toml' --data '$place/data' --output '$place/run' --global-batch 4 --micro-batch 1 --steps 8 --save-every 2 2>/dev/null" /dev/null >out </dev/null
  grep -q 'odd\\xff\\x1b' out || fail "nothing printable was printed on a terminal"
  ! LC_ALL=C grep -q $'\e\|\xff' out || fail "raw bytes reach the terminal"
fi
echo passed
