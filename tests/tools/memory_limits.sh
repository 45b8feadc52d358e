#!/bin/bash
# The programs with too little address space, from just above their start to enough: exit 4 and a message, or the work
# is done. Never a signal, exit 1, another message or a hang.
# usage: memory_limits.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
time_limit=30 coarse=2   # by day limits are twice as far apart, and half the counts are asked for
[ -z "${TRAINYARD_TEST_SHARE:-}" ] || coarse=1
mkdir bin
PATH=$PWD/bin:$PATH
cat >bin/below <<'END_OF_BELOW'
#!/bin/bash
# below KIB COMMAND...: the command with so much address space
ulimit -v "$1" || exit 99
exec "${@:2}"
END_OF_BELOW
chmod +x bin/below
small_text 300 >text
tiny_model 16 >model.toml
run="train --model model.toml --data data --global-batch 2 --micro-batch 1 --steps 4 --save-every 2 --progress never"
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
expect 75 $run --output run --threads 2 --stop-after 2

# judge KIB COMMAND...: judges the exit code of the last command. If the program was not loaded yet, the loader of
# libraries ended it.
judge() {
  case $code in
    0) done_in_a_row=$((done_in_a_row + 1)) ;;
    4)
      done_in_a_row=0 refusals=$((refusals + 1))
      grep -q '^\(shard-data\|train\|inspect\|generate\|reshard-checkpoint\|convert-checkpoint\): .' err || fail "no sentence with $*"
      ! grep -q 'damaged\|please report' err || fail "blames something else with $*"
      ;;
    127) grep -q 'shared librar\|shared object\|for initial thread\|^out of memory$' err || fail "exit code 127 with $*" ;;
    *) fail "exit code $code with $*" ;;
  esac
}
# sweep OUTPUT COMMAND...: OUTPUT is missing or whole; `-` if nothing is written.
sweep() {
  local output=$1 kib step=500
  shift
  done_in_a_row=0 refusals=0
  for ((kib = 20000; kib < 600000 && done_in_a_row < 6 / coarse; kib += step)); do
    [ "$output" = - ] || rm -rf "$output"
    kept below $kib "$@"
    judge "$kib KiB: $*"
    [ "$code" = 127 ] && continue
    [ "$code" = 0 ] || [ "$output" = - ] || absent "$output" "$output/checkpoints/step-00000004"
    step=$((coarse * (kib < 50000 ? 700 : kib / 16)))
  done
  [ $refusals -ge $((4 / coarse)) ] || fail "only $refusals refusals of $*"
  [ $done_in_a_row = $((6 / coarse)) ] || fail "never enough for $*"
}
sweep set shard-data --input text --split paragraphs --output set
sweep - inspect --verify run
sweep cut reshard-checkpoint run cut --data-parallel 2
sweep - generate --checkpoint run --prompt line --tokens 3 --threads 2
sweep model convert-checkpoint run model --to safetensors --threads 2

# A start, which may have begun its folder, and a start that goes on: what was saved stays.
for command in "$run --output new --threads 2" "$run --output run-again --threads 2"; do
  done_in_a_row=0 refusals=0
  for ((kib = 30000; kib < 600000 && done_in_a_row < 4 / coarse; kib += coarse * (kib < 60000 ? 1500 : kib / 16))); do
    rm -rf new run-again
    cp -r run run-again
    # shellcheck disable=SC2086
    kept below $kib $command
    judge "$kib KiB: $command"
    [ "$code" = 127 ] || expect 0 inspect --verify run-again/checkpoints/step-00000002
  done
  [ $refusals -ge $((4 / coarse)) ] || fail "only $refusals refusals of $command"
  [ $done_in_a_row = $((4 / coarse)) ] || fail "never enough for $command"
done

# Too few processes and threads; root may have any number of them.
other=(setpriv --reuid 65533 --regid 65533 --clear-groups)
chmod 755 . bin
if [ "$(id -u)" = 0 ] && "${other[@]}" inspect --version >/dev/null 2>&1 && chmod -R a+rX data model.toml && mkdir -m 777 made; then
  refusals=0 done_in_a_row=0
  for ((processes = 1; processes <= 8; ++processes)); do
    kept "${other[@]}" bash -c "ulimit -u $processes; exec $run --threads 4 --output made/run-$processes"
    judge "at most $processes threads"
  done
  [ $refusals -ge 3 ] || fail "only $refusals refusals of threads"
fi

# One of two ranks has too little: the job ends at once with 4. Below what MPI itself needs to start, further codes are
# possible.
time_limit=60 refusals=0 done_in_a_row=0
for ((kib = 100000; kib < 1000000 && done_in_a_row < 1; kib += coarse * kib / 12)); do
  rm -rf two
  kept mpirun -q --bind-to none -n 1 $run --output two --threads 1 : -n 1 below $kib $run --output two --threads 1
  judge "$kib KiB of rank 1"
done
[ $refusals -ge $((4 / coarse)) ] || fail "only $refusals refusals of rank 1"
[ $done_in_a_row = 1 ] || fail "never enough for rank 1"
passed
