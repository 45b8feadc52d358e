#!/bin/bash
# The programs on file systems that lack something: no locks, no links, no renaming flags, removed files that stay
# (NFS), slow and failing disks.
# usage: file_systems.sh BIN_FOLDER LIBRARY (interposed.c)
PATH=$(realpath "$1"):$PATH
library=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
set -o pipefail
export TRAINYARD_DEVICE=cpu
mkdir bin
PATH=$PWD/bin:$PATH
cat >bin/on <<END
#!/bin/bash
# on KINDS COMMAND...: the command on another system
kinds=\$1
shift
LD_PRELOAD=$library INTERPOSED=\$kinds exec "\$@"
END
cat >bin/two_ranks <<'END'
#!/bin/bash
# two_ranks KINDS FLAGS...: train with rank 1 on another system
exec mpirun -q --bind-to none -n 1 train "${@:2}" : -n 1 on "$1" train "${@:2}"
END
chmod +x bin/*
small_text 200 >text
tiny_model >model.toml
data=(shard-data --input text --split paragraphs --validation 0)
run=(--model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never --steps 4 --save-every 2)

expect 0 "${data[@]}" --output data
expect 0 train "${run[@]}" --output plain

# Everything is written, with the same content as elsewhere.
for kinds in no-locks no-links,no-flags silly no-locks,no-links,no-flags,silly; do
  name=${kinds//,/-}
  expect 0 on "$kinds" "${data[@]}" --output "data-$name"
  same data/index.json "data-$name/index.json" "the set made with $kinds"
  expect 0 on "$kinds" "${data[@]}" --output "data-$name" --force
  expect 0 on "$kinds" train "${run[@]}" --output "run-$name"
  expect 0 inspect --verify "run-$name/checkpoints/step-00000004"
  expect 0 on "$kinds" reshard-checkpoint "run-$name/checkpoints/step-00000004" "cut-$name" --data-parallel 2
  expect 0 on "$kinds" partition-model --model model.toml --ranks 1 --global-batch 2 --sequence 8 --vocabulary 259 --output "plan-$name.json"
  expect 2 on "$kinds" partition-model --model model.toml --ranks 1 --global-batch 2 --sequence 8 --vocabulary 259 --output "plan-$name.json"
  said "exists"
  expect 0 on "$kinds" "${data[@]}" --output "tasks-$name" --task 0/2
  expect 0 on "$kinds" "${data[@]}" --output "tasks-$name" --task 1/2
  same data/index.json "tasks-$name/index.json" "the set of tasks with $kinds"
done
left=$(find . -name '.nfs*' -o -name '*.partial*' -o -name '*.parts*' | head -3)
[ -z "$left" ] || fail "files stay: $left"

# A rank with a slow disk is waited for and does not count as missing.
expect 0 two_ranks slow-sync:2 "${run[@]}" --output slow --hang-timeout 1
expect 0 inspect --verify slow/checkpoints/step-00000004

# Rank 0 is waited for as well, also while it writes a trace. The message about a lost rank says what that rank was
# doing.
traced=(train "${run[@]}" --output slow-first --steps 1 --save-every 0 --hang-timeout 0.5 --trace slow.json)
time_limit=200
expect 0 mpirun -q --bind-to none -n 1 on slow-sync:1.5 "${traced[@]}" : -n 1 "${traced[@]}"
expect 0 inspect --timeline slow.json
time_limit=60
two_ranks slow-sync:600 "${run[@]}" --output stopped --hang-timeout 2 >stopped.out 2>&1 &
job=$!
for _ in $(seq 1 300); do [ -e stopped/checkpoints/step-00000002.partial ] && [ "$(wc -l <stopped/metrics.jsonl)" -ge 2 ] && break; sleep 0.1; done
sleep 2
kill -STOP "$(grep -lz '^INTERPOSED=slow-sync:600$' /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/\([0-9]*\)/.*|\1|' | while read -r id; do [ "$(cat "/proc/$id/comm")" = train ] && echo "$id"; done)"
code=0
wait "$job" || code=$?
cp stopped.out out
[ "$code" = 6 ] || fail "exit code $code, not 6, of a run whose rank stops while it writes"
said "rank 1 on $(hostname) is silent (writing step 2)"

# A rank's output folder of its own is reported at the start, also without locks.
mkdir n0 n1
for n in n0 n1; do cp -r data model.toml $n; done
expect 4 mpirun -q --bind-to none -n 1 --wdir "$PWD/n0" on no-locks train "${run[@]}" --output own : -n 1 --wdir "$PWD/n1" on no-locks train "${run[@]}" --output own
said "own is another folder than rank 0's"

# An error of the device is not taken for wrong content.
expect 4 env INTERPOSED_NAME=/lock LD_PRELOAD="$library" INTERPOSED=io:pread train "${run[@]}" --output failing
said "Input/output error"
unsaid "these programs wrote"

# If the file server lost the working folder, the search for a folder above it ends.
expect 4 on stale train "${run[@]}" --output a/b
said "Stale file handle"

passed
