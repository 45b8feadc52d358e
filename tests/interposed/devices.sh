#!/bin/bash
# Failing devices and file servers, and other processes that interfere. What cannot be read is not taken for damaged, a
# failure is named, and nothing of the run is lost.
# usage: devices.sh BIN_FOLDER LIBRARY (devices.c)
PATH=$(realpath "$1"):$PATH
library=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
set -o pipefail
export TRAINYARD_DEVICE=cpu
EIO=5 EINTR=4 ESTALE=116
# failing "CALL:ERROR..." NAME COMMAND...: calls fail on files whose path contains NAME.
# meanwhile COMMAND NAME PROGRAM...: runs COMMAND before such a file is opened.
failing() { env LD_PRELOAD="$library" FAILING="$1" FAILING_NAME="$2" timeout -s KILL 30 "${@:3}"; }
meanwhile() { env LD_PRELOAD="$library" MEANWHILE="$1" MEANWHILE_NAME="$2" timeout -s KILL 30 "${@:3}"; }
export -f failing meanwhile
export library
small_text 200 >text
tiny_model >model.toml
data=(shard-data --input text --split paragraphs --validation 0)
run=(--model model.toml --data data --global-batch 2 --micro-batch 1 --threads 1 --progress never --steps 4 --save-every 2)
expect 0 "${data[@]}" --output data
expect 0 train "${run[@]}" --output run
# refuses CODE "CALL:ERROR..." NAME COMMAND...
refuses() { local code=$1; shift; expect "$code" bash -c 'failing "$@"' _ "$@"; }
during() { local code=$1; shift; expect "$code" bash -c 'meanwhile "$@"' _ "$@"; }

# Errors of a device have the exit code for the environment, whatever was read, and are reported as they are.
for program in "train ${run[*]} --output failing" "inspect --verify data"; do
  refuses 4 "pread:$EIO,read:$EIO" shard-00000 $program
  said "Input/output error"
  unsaid "token shard\|damaged"
done
cp -r data foreign
rm foreign/index.json
refuses 4 "pread:$EIO,read:$EIO" shard-00000 train "${run[@]}" --data foreign --output failing
said "Input/output error"
refuses 4 "pread:$EIO" rank-00000.h5 generate --checkpoint run --tokens 1
said "Input/output error"
unsaid "no whole checkpoint\|damaged"
for place in run run/checkpoints run/checkpoints/step-00000004; do
  refuses 4 "pread:$EIO" rank-00000.h5 inspect --verify "$place"
  said "Input/output error"
done
refuses 0 "open:$EIO,stat:$EIO" step-00000004/manifest.json inspect run/checkpoints
said "cannot be read"
unsaid "damaged"

# Metrics are truncated where a checkpoint ends, not where a device fails.
cp run/metrics.jsonl before
for calls in "pread:$EIO" "read:$EIO" "stat:$EIO:1" "stat:$EIO:2" "stat:$EIO:3" "stat:$EIO:4"; do
  cp -r run again
  code=0
  failing "$calls" metrics.jsonl train "${run[@]}" --output again --steps 6 --change steps >out 2>err || code=$?
  [ "$code" = 0 ] || [ "$code" = 4 ] || fail "exit code $code with $calls"
  [ "$(head -c "$(wc -c <before)" again/metrics.jsonl | cmp - before 2>&1)" = "" ] || fail "metrics are lost with $calls"
  rm -rf again
done

# The message names the rank whose disk fails.
for i in 1 2 3 4; do
  expect 4 mpirun -q --bind-to none -n 1 train "${run[@]}" --output "rank-$i" : -n 1 env LD_PRELOAD="$library" FAILING=fsync:$EIO FAILING_NAME=rank-00001 train "${run[@]}" --output "rank-$i"
  said "rank 1: .*Input/output error"
  absent "rank-$i/checkpoints/step-00000002.partial"
done

# A device that answers with EINTR for ever ends a writer and a reader. Single signals do not.
refuses 4 pwrite:$EINTR rank-00000.h5 train "${run[@]}" --output interrupted
said "Interrupted system call"
refuses 4 pread:$EINTR shard-00000 train "${run[@]}" --output interrupted
said "Interrupted system call"
for calls in pwrite:$EINTR:50 pread:$EINTR:50 write:$EINTR:50 read:$EINTR:50; do
  rm -rf interrupted
  refuses 0 "$calls" / train "${run[@]}" --output interrupted
done
expect 0 inspect --verify interrupted/checkpoints/step-00000004

# A lock is taken although a signal interrupts the call. A lock that a file server refuses is an error, and does not
# mean a folder without locks.
refuses 0 lock:$EINTR:3 /lock train "${run[@]}" --output locked
unsaid "has no locks"
for number in $EIO $ESTALE $EINTR; do
  refuses 4 "lock:$number" /lock train "${run[@]}" --output "locked-$number"
  said "cannot lock"
done
# A lock file that another machine has just removed counts as missing. If the lock file cannot be read at the end of a
# complete run, the run still succeeds.
refuses 0 "lock:$ESTALE:1" /lock train "${run[@]}" --output locked-once
if strace -f -o /dev/null -e trace=none true 2>/dev/null; then
  expect 0 strace -f -qqq -o /dev/null -P "$PWD/locked-late/lock" -P locked-late/lock -e trace=newfstatat -e inject=newfstatat:error=EIO:when=4+ train "${run[@]}" --output locked-late
fi
for number in 37 95 38; do  # ENOLCK, EOPNOTSUPP, ENOSYS
  refuses 0 "lock:$number" /lock train "${run[@]}" --output "unlocked-$number"
  said "has no locks"
  expect 0 inspect --verify "unlocked-$number/checkpoints/step-00000004"
done

# A file that cannot be read is not taken for an older trace, so it is not replaced.
echo precious >mine.json
refuses 4 "pread:$EIO,read:$EIO" mine.json train "${run[@]}" --output traced --trace mine.json
[ "$(cat mine.json)" = precious ] || fail "a file that could not be read is replaced"

# A file server keeps files of a replaced set, because somebody reads them. That does not prevent the next replacement.
expect 0 "${data[@]}" --output again-and-again
for i in 1 2 3; do
  for name in again-and-again.replaced.partial again-and-again.removed.partial; do mkdir -p $name && : >$name/.nfs000000001; done
  refuses 0 unlink:16 .nfs "${data[@]}" --output again-and-again --force
done
same data/index.json again-and-again/index.json "a set that is replaced"
expect 0 inspect --verify again-and-again
expect 0 "${data[@]}" --output again-and-again --force
absent again-and-again.*

# If the working folder is gone, or the system cannot name it, it is not taken for a folder with an input.
for program in "${data[*]} --output replaced --force" "reshard-checkpoint run made --force" "train ${run[*]} --output traced --trace replaced.json"; do
  rm -rf replaced made traced replaced.json
  cp -r data replaced
  refuses 4 getcwd:$EIO / $program
  said "working folder"
  unsaid "holds the input\|which is an input\|is or holds"
done
expect 4 bash -c 'mkdir gone && cd gone && rmdir ../gone && exec shard-data --input "$0/text" --output made --split paragraphs' "$folder"
unsaid "holds the input\|which is an input"
said "working folder\|No such file"

# Foreign things under names of a run: pipes block no program, and links are not followed.
mkdir -p pipes/exit pipes/checkpoints elsewhere
echo theirs >elsewhere/file
for name in last-checkpoint.partial report.txt.partial metrics.jsonl.again exit/rank-00000.json checkpoints/latest.partial; do mkfifo "pipes/$name"; done
expect 0 train "${run[@]}" --output pipes
cp -r run links
rm -rf links/exit
for name in last-checkpoint.partial report.txt.partial abandoned-metrics-after-00000002.jsonl.partial; do ln -s ../elsewhere/file "links/$name"; done
expect 0 train "${run[@]}" --output links --resume links/checkpoints/step-00000002
echo '{"exit_code": 4}' >elsewhere/rank-00000.json
ln -s ../elsewhere links/exit
expect 0 train "${run[@]}" --output links
[ -e elsewhere/rank-00000.json ] || fail "a reason of somebody else is removed through a link"
[ "$(cat elsewhere/file)" = theirs ] || fail "something is written through a link"
mkdir with-pipe
mkfifo with-pipe/lock
expect 3 train "${run[@]}" --output with-pipe
said "is not a lock that these programs wrote"
mkdir -p empty/exit
: >empty/exit/rank-00000.json
expect 0 train "${run[@]}" --output empty
absent empty/exit

# Programs read a run that goes on: it saves another checkpoint and removes the one that is being read.
saves='mv step-00000002 step-later 2>/dev/null; rm -rf step-00000004 step-00000002; cp -r ../../later/checkpoints/step-00000006 .'
expect 0 train "${run[@]}" --output later --steps 6
live() { rm -rf live && cp -r run live; }
for program in "generate --checkpoint live --tokens 2" "reshard-checkpoint live made" "reshard-checkpoint --verify live" "reshard-checkpoint --diff later live" "convert-checkpoint live made --to safetensors" "inspect live" "inspect --verify live" "inspect live/checkpoints" "train --evaluate live --evaluate-split train" "train --model model.toml --data data --global-batch 2 --steps 1 --init-from live --output made"; do
  for file in manifest.json rank-00000.h5; do
    live
    rm -rf made
    during 0 "cd $folder/live/checkpoints && { $saves; }" "step-00000004/$file" $program
    said "looking again"
    unsaid "damaged\|skipped\|missing"
  done
done
live
during 3 "rm -rf $folder/live/checkpoints/step-00000004" step-00000004/rank-00000.h5 generate --checkpoint live/checkpoints/step-00000004 --tokens 2
said "was removed or renamed while it was read"
unsaid "damaged"
passed
