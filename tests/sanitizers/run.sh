#!/bin/bash
# Builds with sanitizers and runs the tests. Address and undefined behaviour: the whole suite. Data races: everything
# that starts threads, on the threads communicator and under MPI.
# usage: run.sh [address|thread]   (both when nothing is named)
set -euo pipefail
cd "$(dirname "$0")/../.."

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1
export LSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/leaks.txt:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1:second_deadlock_stack=1:suppressions=$PWD/tests/sanitizers/races.txt:print_suppressions=0

address() {
  cmake --preset asan
  cmake --build --preset asan
  ctest --test-dir build/asan --output-on-failure -j "$(nproc)" --no-tests=error -LE nightly </dev/null
}

# Each rank has one OpenMP thread, whatever a test asks for, because the sanitizer does not see barriers of the OpenMP
# library.
# Builds only the programs and what the tests below run.
thread() {
  local packages='tensor|params|data|checkpoint|io'
  local base='trace|thread|last_resort|folder_lock|descriptor'
  local comm='threads|neighbours|neighbours_mpi|node_memory|node_memory_mpi|node_hops|world|clock_offsets|watchdog|core_share|mpi|serialized_mpi|hung_rank'
  local model='tensor_ranks|shared_experts'
  local engine='same_bits|same_bits_mpi|same_bits_tensor|same_bits_stages|same_bits_experts|same_bits_shared_experts|same_bits_masked|tensor_ranks|stages|slots|segments|overlap|saver|read_sums|trace'
  engine+='|resume|rules|settings|run_folder|ends|signals|queue|accounting|odd_shapes|evaluate|metrics|pytorch_update'
  local profile='collective|sweep|ranks|ceilings'
  local train='ends|lost_peer|paths|run_folder_lock|settings_differ|evaluate|node_memory|command_line'
  local which="^($packages)/|^base/($base)$|^comm/($comm)($|[.])|^model/($model)$|^engine/($engine)($|[.])|^profile/($profile)$|^train/($train)$"
  cmake --preset tsan
  local targets   # of the tests, but for those that only run programs
  mapfile -t targets < <(comm -12 <(ctest --test-dir build/tsan -N -LE nightly -R "$which" | sed -n 's,.*: \([a-z]*\)/\([a-z0-9_]*\).*,test_\1_\2,p' | sort -u) \
    <(cmake --build build/tsan --target help | sed -n 's/^\(test_[a-z0-9_]*\):.*/\1/p' | sort -u))
  cmake --build build/tsan --target programs comm_hung_rank "${targets[@]}"
  OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 ctest --test-dir build/tsan --output-on-failure -j "$(nproc)" --no-tests=error -LE nightly -R "$which" </dev/null
}

case ${1:-both} in
  address) address ;;
  thread) thread ;;
  both) address; thread ;;
  *) echo "usage: bash tests/sanitizers/run.sh [address|thread]" >&2; exit 2 ;;
esac
