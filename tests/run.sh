#!/bin/bash
# Installs what is missing, builds the release preset with warnings as errors, runs the tests. --nightly runs the slow ones too.
set -euo pipefail
cd "$(dirname "$0")/.."

selection=(-LE nightly)
for argument in "$@"; do
  case $argument in
    --nightly) selection=() ;;
    *) echo "usage: bash tests/run.sh [--nightly]" >&2; exit 2 ;;
  esac
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
# Teams of several tests share the cores: waiting threads must not spin.
export OMP_WAIT_POLICY=passive

bash slurm/install-deps.sh
cmake --preset release -DTRAINYARD_WERROR=ON
cmake --build --preset release
ctest --test-dir build/release --output-on-failure -j "$(nproc)" --no-tests=error "${selection[@]}" </dev/null
