#!/bin/bash
# Builds and runs what needs a GPU, and prints one summary.
#   bash tests/gpu.sh                  on a machine with a GPU, CUDA, MPI and HDF5: builds preset cuda, runs
#   bash tests/gpu.sh --bundle DIR     builds, and gathers programs, tests, benchmarks and the shared libraries they need (Open MPI's plugins too, not CUDA's) into DIR and DIR.tar.xz
#   bash tests/gpu.sh --prebuilt DIR   runs from such a folder, on a machine that has CUDA's libraries and nothing else of ours
# --jobs N runs N tests at a time (default 1); --logs DIR keeps what each one printed; --only PATTERN runs the tests whose names match; --limit N ends a test after so many seconds (default 600).
# --architectures LIST builds for these alone ("90": H100, in half the time).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage() { echo "usage: bash tests/gpu.sh [--bundle DIR | --prebuilt DIR] [--jobs N] [--logs DIR] [--only PATTERN] [--limit N] [--architectures LIST]" >&2; exit 2; }

mode=run folder= jobs=1 logs= only=. limit=600 architectures=
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --bundle | --prebuilt) mode=${1#--} folder=$2 ;;
    --jobs) jobs=$2 ;;
    --logs) logs=$2 ;;
    --only) only=$2 ;;
    --limit) limit=$2 ;;
    --architectures) architectures=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[[ $jobs =~ ^[1-9][0-9]*$ && $limit =~ ^[1-9][0-9]*$ ]] || usage

programs=(shard-data partition-model train inspect generate profile-comm)
tests=(test_kernels_gpu test_kernels_gpu_lanes test_kernels_gpu_grouped test_kernels_gpu_experts test_kernels_gpu_attention test_kernels_gpu_update test_kernels_gpu_remainder test_engine_gpu test_engine_gpu_sparse test_engine_gpu_offload test_engine_gpu_capture test_engine_gpu_mpi test_comm_nccl test_comm_gpu_share test_model test_model_finite_difference test_model_pytorch_golden test_model_sparse_attention test_model_tensor_ranks)
benches=(bench_kernels_gpu)

build() {
  cd "$here/.."
  bash slurm/install-deps.sh
  cmake --preset cuda ${architectures:+-DCMAKE_CUDA_ARCHITECTURES="$architectures"}
  cmake --build --preset cuda --target "${programs[@]}" "${tests[@]}" "${benches[@]}" trainyard_cuda
}

# Libraries that a file needs and a bare machine may lack: all but libc's own, the driver's and CUDA's.
needed() { { ldd "$@" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*)\.so|/lib(cuda|cudart|cupti|cublas|cublasLt|nccl|nvidia)[^/]*\.so'; }

bundle() {
  build
  local bin=build/cuda/bin plugins pmix
  rm -rf "$folder" "$folder.tar.xz"
  mkdir -p "$folder/bin" "$folder/lib/openmpi" "$folder/lib/pmix" "$folder/share"
  cp "${programs[@]/#/$bin/}" "${tests[@]/#/$bin/}" "${benches[@]/#/$bin/}" "$bin/libtrainyard_cuda.so" "$folder/bin/"
  cp "$bin/libgpu_kernel_times.so" "$folder/bin/" 2>/dev/null || true   # where the toolkit has CUPTI
  strip "$folder"/bin/*
  plugins=$(dirname "$(find /usr/lib -name mca_btl_vader.so -o -name mca_btl_self.so | head -1)")
  pmix=$(dirname "$(find /usr/lib -name 'mca_gds_hash.so' -o -name 'pmix_mca_gds_hash.so' | head -1)")
  # The launcher and the parts of Open MPI that ranks on one machine use.
  cp "$(readlink -f "$(command -v mpirun)")" "$folder/bin/orterun"
  cp "$(readlink -f "$(command -v orted)")" "$folder/bin/orted"
  cp "$plugins"/*.so "$folder/lib/openmpi/"
  cp "$pmix"/*.so "$folder/lib/pmix/" 2>/dev/null || true
  cp -r /usr/share/openmpi "$folder/share/" 2>/dev/null || true
  rm -f "$folder"/lib/openmpi/mca_{btl_uct,btl_openib,pml_ucx,osc_ucx,atomic_ucx,spml_ucx,mtl_ofi,btl_ofi,mtl_psm,mtl_psm2,coll_hcoll,oob_ud,rml_ofi,ess_slurm,plm_slurm,ras_slurm}.so   # networks and launchers of clusters
  rm -f "$folder"/lib/openmpi/mca_{spml,scoll,sshmem,memheap,atomic,osc,io,fs,fcoll,fbtl,sharedfp,vprotocol}_*.so   # OpenSHMEM, one-sided and file calls, which nothing here makes
  needed "$folder"/bin/* "$folder"/lib/openmpi/*.so "$folder"/lib/pmix/*.so | xargs -I{} cp -L {} "$folder/lib/"
  strip --strip-unneeded "$folder"/lib/*.so* "$folder"/lib/*/*.so 2>/dev/null || true
  mkdir -p "$folder/tests" "$folder/bench"
  cp -r "$here/golden" "$folder/tests/"
  cp "$here/gpu.sh" "$here/gpu_prebuilt.sh" "$folder/tests/"
  cp "$here/../bench/gpu.sh" "$here/../bench/compare_pytorch.py" "$folder/bench/"
  tar -C "$folder" -c . | xz -T0 -3 >"$folder.tar.xz"   # which travels better
  du -sh "$folder" "$folder.tar.xz"
}

# run NAME COMMAND...: begins one line of the summary, in the background where several may run at a time.
names=()
run() {
  local name=$1 number=${#names[@]}
  shift
  [[ $name =~ $only ]] || return 0
  names+=("$name")
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  (
    code=0
    timeout -k 5 "$limit" bash -c '"$@"' _ "$@" </dev/null >"$logs/$number.log" 2>&1 || code=$?
    echo "$code" >"$logs/$number.code"
    echo "== $name: exit $code"
  ) &
}

summary() {
  wait
  local i code passed=0 failed=() skipped=()
  for i in "${!names[@]}"; do
    read -r code <"$logs/$i.code"
    mv "$logs/$i.log" "$logs/$i-${names[$i]//[^A-Za-z0-9]/-}.log"
    case $code in
      0) passed=$((passed + 1)) ;;
      77) skipped+=("${names[$i]}") ;;
      124 | 137) failed+=("${names[$i]} (ended after $limit s)") ;;
      *) failed+=("${names[$i]} (exit $code)") ;;
    esac
    [ "$code" = 0 ] || [ "$code" = 77 ] || { echo; echo "== ${names[$i]}"; tail -c 6000 "$logs/$i"-*.log; }
  done
  echo
  echo "GPU suite: $passed passed, ${#failed[@]} failed, ${#skipped[@]} skipped"
  for name in "${failed[@]}"; do echo "  failed: $name"; done
  for name in "${skipped[@]}"; do echo "  skipped: $name"; done
  [ ${#failed[@]} = 0 ]
}

shards() {  # LINES: a set `data` of so many
  local i
  for ((i = 0; i < $1; ++i)); do echo "line $i of a text about trains, yards and the $((i * i % 97)) signals between them"; done >text.txt
  shard-data --input text.txt --split lines --output data --validation 0 >/dev/null 2>&1
}
# What a run has learnt, to the bit, without how fast it was.
learnt() { sed 's/"tokens_per_second.*//' "$1/metrics.jsonl"; }

smoke() {
  local place=$1
  mkdir "$place/smoke"
  cd "$place/smoke"
  shards 3000
  local settings=(--model gpt2-micro --data data --steps 20 --global-batch 8 --micro-batch 4 --progress never --learning-rate 0.003)
  train "${settings[@]}" --device cuda --output gpu --memory-report || return 1
  train "${settings[@]}" --device cuda --output again --dtype f32 >/dev/null || return 1
  cmp <(learnt gpu) <(learnt again) || { echo "two runs differ"; return 1; }
  train "${settings[@]}" --device cuda --output long --steps 500 >/dev/null & train "${settings[@]}" --device cuda --output long-again --steps 500 >/dev/null || { wait; return 1; }
  wait $! || return 1
  cmp <(learnt long) <(learnt long-again) || { echo "two runs of 500 steps beside each other differ"; return 1; }
  train "${settings[@]}" --device cpu --output cpu >/dev/null || return 1
  train "${settings[@]}" --device cuda --output narrow --dtype bf16 >/dev/null || return 1
  echo "last losses: GPU $(tail -1 gpu/metrics.jsonl | grep -o '"loss":[0-9.]*'), CPU $(tail -1 cpu/metrics.jsonl | grep -o '"loss":[0-9.]*'), GPU bf16 $(tail -1 narrow/metrics.jsonl | grep -o '"loss":[0-9.]*')"
  train "${settings[@]}" --device cpu --output gpu --steps 30 --change steps >/dev/null || return 1   # a GPU's checkpoint goes on on the CPU
}

# The same losses with and without the attention kernels of Hopper, up to rounding; a device of another kind has none.
hopper() {
  local place=$1 way run=0
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader | grep -q '^9[.]0' || return 77
  mkdir "$place/hopper"
  cd "$place/hopper"
  shards 20000
  for way in off on on; do
    TRAINYARD_HOPPER=$way train --model gpt2 --data data --output $way-$((++run)) --steps 8 --global-batch 4 --micro-batch 4 --dtype bf16 --device cuda --progress never --learning-rate 0.0003 >/dev/null || return 1
  done
  cmp <(learnt on-2) <(learnt on-3) || { echo "two runs with Hopper's kernels differ"; return 1; }
  ! cmp -s <(learnt off-1) <(learnt on-2) || { echo "the kernels for Hopper did not run: were they built?"; return 1; }
  paste <(grep -o '"loss":[0-9.]*' off-1/metrics.jsonl | cut -d: -f2) <(grep -o '"loss":[0-9.]*' on-2/metrics.jsonl | cut -d: -f2) | awk '{ d = $1 - $2; if (d < 0) d = -d; print; if (NF != 2 || d > 0.02 * $1) bad = 1 } END { exit bad || NR != 8 }'
}

links() {
  local output=$1
  shift
  timeout 120 "$@" --budget 30s --confidence 10% --operations all_reduce,all_to_all --max-bytes 1MiB --factor 32 --output "$output" --progress never || return 1
}

suite() {
  local launch=(mpirun --oversubscribe --bind-to none) place
  place=$(mktemp -d)
  [ -n "$logs" ] || logs=$place/logs
  mkdir -p "$logs"
  export -f shards learnt smoke hopper links
  run "kernels against the CPU" test_kernels_gpu
  run "products in lanes" test_kernels_gpu_lanes
  run "products in groups" test_kernels_gpu_grouped
  run "experts" test_kernels_gpu_experts
  run "attention with blocks" test_kernels_gpu_attention
  run "updates of optimizers" test_kernels_gpu_update
  run "masters with remainders" test_kernels_gpu_remainder
  run "blocks in models" env TRAINYARD_TEST_DEVICE=cuda test_model_sparse_attention --gtest_filter='SparseAttention.ATokenReaches*'
  run "gradients against finite differences" env TRAINYARD_TEST_DEVICE=cuda test_model_finite_difference
  run "parity with PyTorch" env TRAINYARD_TEST_DEVICE=cuda test_model_pytorch_golden
  run "two ranks that share layers have the bits of one" env TRAINYARD_TEST_DEVICE=cuda test_model_tensor_ranks --gtest_filter=TensorRanks.Small   # more than is promised: the library has to choose alike
  run "whole runs" test_engine_gpu
  run "whole runs, with blocks and masks" test_engine_gpu_sparse
  run "whole runs, with states on the host and on disk" test_engine_gpu_offload
  run "a step as a CUDA graph" test_engine_gpu_capture
  run "NCCL and staged contract, one rank" "${launch[@]}" -n 1 "$(command -v test_comm_nccl)"
  run "NCCL and staged contract, two ranks sharing the GPU" timeout 300 "${launch[@]}" -n 2 bash -c 'NCCL_HOSTID=rank-$OMPI_COMM_WORLD_RANK exec "$0"' "$(command -v test_comm_nccl)"
  # NCCL takes ranks that share a GPU for what it refuses, unless each says that it is a host of its own.
  for n in 2 4; do
    run "$n ranks sharing the GPU, staged" "${launch[@]}" -n $n "$(command -v test_engine_gpu_mpi)"
    run "$n ranks sharing the GPU, NCCL" timeout 300 "${launch[@]}" -n $n bash -c 'NCCL_HOSTID=rank-$OMPI_COMM_WORLD_RANK exec "$0"' "$(command -v test_engine_gpu_mpi)"
  done
  run "a GPU for each rank, or not" "${launch[@]}" -n 2 "$(command -v test_comm_gpu_share)"
  run "links, NCCL, two ranks sharing the GPU" links "$place/nccl.json" "${launch[@]}" -n 2 bash -c 'NCCL_HOSTID=rank-$OMPI_COMM_WORLD_RANK exec profile-comm "$@"' profile-comm --backend nccl
  run "links, staged, two ranks sharing the GPU" links "$place/staged.json" "${launch[@]}" -n 2 profile-comm --backend mpi --device cuda
  run "the GPU's own ceilings" timeout 120 profile-comm --device cuda --model gpt2 --dtype bf16 --budget 30s --disk "$place" --output "$place/local.json" --progress never
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
  if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck initcheck synccheck; do
      run "kernels under compute-sanitizer $tool" "$sanitizer" --tool $tool --error-exitcode 1 test_kernels_gpu --gtest_filter=-*ManyRuns*
      # cuBLASLt's kernels for Hopper write through the bulk copy engine, which initcheck does not see.
      [ $tool = initcheck ] || run "products in lanes under compute-sanitizer $tool" "$sanitizer" --tool $tool --error-exitcode 1 test_kernels_gpu_lanes
    done
    for tool in memcheck racecheck; do
      run "attention of Hopper under compute-sanitizer $tool" "$sanitizer" --tool $tool --error-exitcode 1 test_kernels_gpu_attention --gtest_filter=*OfHopper*
    done
  else
    run "compute-sanitizer (not installed)" bash -c 'exit 77'
  fi
  run "training, GPU and CPU" smoke "$place"
  run "training with the attention kernels of Hopper" hopper "$place"
  local code=0
  summary || code=1
  rm -rf "$place"
  return $code
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive
case $mode in
  bundle)
    folder=$(mkdir -p "$folder" && cd "$folder" && pwd)
    bundle
    ;;
  prebuilt)
    folder=$(cd "$folder" && pwd)
    . "$here/gpu_prebuilt.sh"
    suite
    ;;
  run)
    build
    export PATH=$PWD/build/cuda/bin:$PATH
    suite
    ;;
esac
