#!/bin/bash
# Builds with sanitizers and runs the tests: address and undefined behaviour over the whole suite, data races over everything that runs on the threads communicator.
# usage: run.sh [address|thread]   (both when nothing is named)
set -euo pipefail
cd "$(dirname "$0")/../.."

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/leaks.txt:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

address() {
  cmake --preset asan
  cmake --build --preset asan
  ctest --test-dir build/asan --output-on-failure -j "$(nproc)" --no-tests=error -LE nightly </dev/null
}

# One OpenMP thread a rank, whatever a test asks for: the sanitizer does not see the barriers of the OpenMP library.
thread() {
  cmake --preset tsan
  cmake --build --preset tsan
  OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 ctest --test-dir build/tsan --output-on-failure -j "$(nproc)" --no-tests=error -LE nightly -R '^(tensor|comm/threads|comm/watchdog|engine/same_bits$|engine/resume|engine/rules|data|checkpoint|io|profile/collective|profile/sweep|profile/ranks)' </dev/null
}

case ${1:-both} in
  address) address ;;
  thread) thread ;;
  both) address; thread ;;
  *) echo "usage: bash tests/sanitizers/run.sh [address|thread]" >&2; exit 2 ;;
esac
