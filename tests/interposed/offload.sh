#!/bin/bash
# Runs whose states lie on a disk that fails, is full, lies, or goes away: a sentence that names folder and state, the
# exit code of the environment, nothing left behind, and the last checkpoint goes on.
# usage: offload.sh BIN_FOLDER LIBRARY (interposed.c)
PATH=$(realpath "$1"):$PATH
library=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
mkdir bin
PATH=$PWD/bin:$PATH
cat >bin/on <<END
#!/bin/bash
# on KINDS COMMAND...: the command on another system
kinds=\$1
shift
LD_PRELOAD=$library INTERPOSED=\$kinds INTERPOSED_NAME=/tier exec "\$@"
END
chmod +x bin/on
nothing_in() { [ -z "$(ls -A "$1")" ] || fail "files stay in $1: $(ls -A "$1")"; }
small_text 200 >text
tiny_model >model.toml
expect 0 shard-data --input text --split paragraphs --validation 0 --output data
run=(--model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never --steps 4 --save-every 2)
disk=(--zero 3 --offload optimizer=disk,parameters=disk,gradients=disk --accumulation-order breadth --offload-dir "$folder/tier")
mkdir tier other
fingerprints() { inspect --json "$1/checkpoints/step-00000004" | jq -c '[.tensors[] | [.path, .fingerprint]]'; }
expect 0 train "${run[@]}" --output plain

# On every system the bits of a run in memory, and nothing stays.
for kinds in none no-uring no-uring,short no-direct no-nameless,no-uring no-reserve; do
  name=run-${kinds//,/-}
  expect 0 on "$kinds" train "${run[@]}" "${disk[@]}" --output "$name" --memory-report
  said 'read in steps .* 0$'
  case $kinds in *no-uring*) said 'io_uring' ;; esac
  [ "$(fingerprints "$name")" = "$(fingerprints plain)" ] || fail "other weights with $kinds"
  nothing_in tier
done
expect 0 train "${run[@]}" "${disk[@]}" --offload-dir "$folder/tier,$folder/other" --output run-two
[ "$(fingerprints run-two)" = "$(fingerprints plain)" ] || fail "other weights in two folders"

# Two runs in one folder.
train "${run[@]}" "${disk[@]}" --output first >first.out 2>&1 &
expect 0 train "${run[@]}" "${disk[@]}" --output second
wait $! || fail "the first of two runs in one folder: $(cat first.out)"
[ "$(fingerprints first)" = "$(fingerprints second)" ] || fail "two runs in one folder differ"

# Faults. A run stopped after its first checkpoint goes on from there.
expect 75 train "${run[@]}" --output begun --stop-after 2
fault() {  # KINDS CODE WORDS
  rm -rf broken && cp -r begun broken
  expect "$2" on "$1" train "${run[@]}" "${disk[@]}" --output broken
  said "$3"
  nothing_in tier
  expect 0 inspect --verify broken/checkpoints/step-00000002
  expect 0 train "${run[@]}" "${disk[@]}" --output broken
  [ "$(fingerprints broken)" = "$(fingerprints plain)" ] || fail "other weights after $1"
}
fault no-room 4 "$folder/tier"
fault no-uring,io:pread 4 "$folder/tier.*Input/output error"
fault no-uring,io:pwrite 4 "$folder/tier.*Input/output error"
fault no-uring,flip:9 4 "other bytes than were written"
fault no-uring,full:300000 4 "$folder/tier.*No space left"
expect 4 train "${run[@]}" "${disk[@]}" --offload-dir "$folder/missing" --output nowhere
said "$folder/missing"

# Killed in the middle.
train "${run[@]}" "${disk[@]}" --steps 100000 --save-every 0 --output killed >killed.out 2>&1 &
for _ in $(seq 100); do [ -s killed/metrics.jsonl ] && break; sleep 0.1; done
nothing_in tier
kill -KILL $!
wait $! 2>/dev/null
nothing_in tier

# The folder goes away while the run has its files.
train "${run[@]}" "${disk[@]}" --output gone >gone.out 2>&1 &
sleep 0.3
rmdir tier 2>/dev/null
wait $! || grep -q "$folder/tier" gone.out || fail "the folder went away: $(cat gone.out)"
passed
