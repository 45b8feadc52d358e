#!/bin/bash
# Installs what is missing, builds the release preset with warnings as errors, runs the tests: those whose names match PATTERN with -R, the slow ones too with --nightly. --sanitize builds with the
# address and undefined-behaviour sanitizers, then with clang's thread sanitizer, and runs the tests under them.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { echo "usage: bash tests/run.sh [--nightly] [-R PATTERN] | --sanitize" >&2; exit 2; }
slow=(-LE nightly) part=()
if [ "$*" = --sanitize ]; then
  bash slurm/install-deps.sh clang libomp-14-dev libclang-rt-14-dev
  exec bash tests/sanitizers/run.sh
fi
while [ $# -gt 0 ]; do
  case $1 in
    --nightly) slow=() ;;
    -R) [ -n "${2:-}" ] || usage; part=(-R "$2"); shift ;;
    *) usage ;;
  esac
  shift
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
# Teams of several tests share the cores: waiting threads must not spin.
export OMP_WAIT_POLICY=passive

# A month of nights has all of the products (tests/README.md).
if [ ${#slow[@]} = 0 ] && [ -z "${TRAINYARD_TEST_SHARE:-}" ]; then
  export TRAINYARD_TEST_SHARE=$((10#$(date +%j) % 30))/30
  echo "TRAINYARD_TEST_SHARE=$TRAINYARD_TEST_SHARE: the thirtieth of the products that belongs to this day"
fi

# The nightly alone has clang-tidy, benchmarks, and machine code for a GPU that is not there: by day nvcc stops at PTX in
# a new build folder and optimizes little, which takes a third of its time. Some packages are compiled so, too.
checkers=(clang-format) build=(-DTRAINYARD_WERROR=ON -DTRAINYARD_TESTS=ON) cache=build/release/CMakeCache.txt
if [ ${#slow[@]} = 0 ]; then
  checkers+=(clang-tidy) build+=(-DTRAINYARD_BENCH=ON -DTRAINYARD_FAST_COMPILE=OFF)
  ! grep -qs '^CMAKE_CUDA_ARCHITECTURES:.*=90-virtual$' "$cache" || build+=(-DCMAKE_CUDA_ARCHITECTURES=90 -DTRAINYARD_CUDA_FAST_COMPILE=OFF)
elif [ ! -e "$cache" ]; then
  build+=(-DTRAINYARD_BENCH=OFF -DTRAINYARD_FAST_COMPILE=ON)
  nvidia-smi -L >/dev/null 2>&1 || build+=(-DCMAKE_CUDA_ARCHITECTURES=90-virtual -DTRAINYARD_CUDA_FAST_COMPILE=ON)
fi
bash slurm/install-deps.sh "${checkers[@]}"
# quickstart.sh leaves the tests out of a new build folder.
cmake --preset release "${build[@]}"
cmake --build --preset release
# Many tests wait more than they compute, and those of several ranks take as many places: four for each core.
ctest --test-dir build/release --output-on-failure -j "$(($(nproc) * 4))" --no-tests=error "${slow[@]}" "${part[@]}" </dev/null
