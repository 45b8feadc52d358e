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
for dry in '' --dry-run; do
  expect 4 train "${run[@]}" "${disk[@]}" --offload-dir "$folder/missing" --output nowhere $dry
  said "$folder/missing"
  said 'name other folders with --offload-dir'
done
# A flag that would do nothing is refused. Where a file or the environment has it, for other runs, that is said.
refused 2 'stays empty: --offload none' train "${run[@]}" --offload-dir tier --output nowhere --dry-run
TRAINYARD_OFFLOAD_DIR=tier TRAINYARD_HOST_MEMORY=1GB expect 0 train "${run[@]}" --output nowhere --dry-run
said 'stays empty: --offload none'
said 'host-memory 1GB limits nothing'

# Killed in the middle; and the folder goes away while a run has its files, which have no names.
steps_of() { [ -s "$1/metrics.jsonl" ] && wc -l <"$1/metrics.jsonl" || echo 0; }
begin() {  # OUTPUT: a long run, once it has done steps
  train "${run[@]}" "${disk[@]}" --steps 100000 --save-every 0 --output "$1" >"$1.out" 2>&1 &
  for _ in $(seq 100); do [ "$(steps_of "$1")" -gt 0 ] && break; sleep 0.1; done
  [ "$(steps_of "$1")" -gt 0 ] || fail "no step: $(cat "$1.out")"
}
end() { kill -KILL $!; wait $! 2>/dev/null; }
begin killed
nothing_in tier
end
nothing_in tier
begin gone
rmdir tier || fail "the folder of the run is not empty"
before=$(steps_of gone)
for _ in $(seq 100); do [ "$(steps_of gone)" -gt "$before" ] && break; sleep 0.1; done
[ "$(steps_of gone)" -gt "$before" ] || fail "no step without the folder: $(cat gone.out)"
end
passed
