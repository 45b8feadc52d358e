#!/bin/bash
# Builds with sanitizers and runs the tests: address and undefined behaviour over the whole suite, data races over everything that starts threads, on the threads communicator and
# under MPI.
# usage: run.sh [address|thread]   (both when nothing is named)
set -euo pipefail
cd "$(dirname "$0")/../.."

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/leaks.txt:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/sanitizers/races.txt:print_suppressions=0

address() {
  cmake --preset asan
  cmake --build --preset asan
  ctest --test-dir build/asan --output-on-failure -j "$(nproc)" --no-tests=error -LE nightly </dev/null
}

# One OpenMP thread a rank, whatever a test asks for: the sanitizer does not see the barriers of the OpenMP library.
thread() {
  cmake --preset tsan
  cmake --build --preset tsan
  local rooms='tensor|params|data|checkpoint|io'
  local comm='threads|neighbours|neighbours_mpi|watchdog|core_share|mpi|hung_rank'
  local engine='same_bits|same_bits_mpi|stages|slots|trace|resume|rules|settings|run_folder|ends|signals|queue|accounting|odd_shapes|evaluate|metrics|pytorch_update'
  local profile='collective|sweep|ranks|ceilings'
  local train='ends|lost_peer|paths|one_folder|same_settings|evaluate|command_line'
  OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 ctest --test-dir build/tsan --output-on-failure -j "$(nproc)" --no-tests=error -LE nightly </dev/null \
    -R "^(($rooms)/|comm/($comm)($|[.])|engine/($engine)($|[.])|profile/($profile)$|train/($train)$)"
}

case ${1:-both} in
  address) address ;;
  thread) thread ;;
  both) address; thread ;;
  *) echo "usage: bash tests/sanitizers/run.sh [address|thread]" >&2; exit 2 ;;
esac
