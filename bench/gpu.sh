#!/bin/bash
# Figures of a GPU: products and attention compared with the measured ceiling, memory-bound kernels, and training
# throughput. Prints a table; --record appends it to bench/RESULTS.md.
# usage: bash bench/gpu.sh [--prebuilt DIR] [--record] [--models "gpt2 gpt2-xl llama-1b"] [--micro-batches "4 8 16 32"] [--parts "kernels models peer"] [--kernels MODEL:MICRO-BATCH]
# --parts: kernels beside ceilings, training throughput, PyTorch beside it; without the flag all of them.
# --kernels prints where the GPU's time goes in a run of that model, and nothing else.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
record=no models="gpt2 gpt2-xl llama-1b" micro_batches="4 8 16 32" parts="kernels models peer" kernels=
while [ $# -gt 0 ]; do
  case $1 in
    --record) record=yes ;;
    --prebuilt) folder=$(cd "$2" && pwd); . "$here/../tests/gpu_prebuilt.sh"; shift ;;
    --models) models=$2; shift ;;
    --micro-batches) micro_batches=$2; shift ;;
    --parts)
      parts=$2
      for part in $parts; do [[ $part =~ ^(kernels|models|peer)$ ]] || { echo "bench/gpu.sh: --parts $part: there are kernels, models and peer" >&2; exit 2; }; done
      shift ;;
    --kernels) kernels=$2; shift ;;
    *) sed -n 's/^# usage/usage/p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ -n "${folder:-}" ] || export PATH=$here/../build/cuda/bin:$PATH
command -v bench_kernels_gpu train shard-data >/dev/null || { echo "bench/gpu.sh: build preset cuda first, or name a bundle with --prebuilt" >&2; exit 4; }

# One line of the table. The run is started with more steps than are wanted and killed, so that nothing is saved:
# writing a large model takes longer than training it so far.
throughput() {
  local model=$1 micro=$2 run=$place/run steps=${3:-14} process
  train --model "$model" --data "$place/data" --output "$run" --device cuda --dtype bf16 --steps 100000 --global-batch "$micro" --micro-batch "$micro" --sequence 1024 --progress never >"$place/said" 2>&1 &
  process=$!
  while kill -0 $process 2>/dev/null && [ "$(cat "$run/metrics.jsonl" 2>/dev/null | wc -l)" -lt $steps ]; do sleep 0.1; done
  kill -KILL $process 2>/dev/null || true
  wait $process 2>/dev/null || true
  if [ "$(cat "$run/metrics.jsonl" 2>/dev/null | wc -l)" -ge $steps ]; then
    sed -n "5,${steps}p" "$run/metrics.jsonl" | awk -v m="$model" -v b="$micro" -F'[:,]' '{for (i = 1; i < NF; ++i) {if ($i ~ /"tokens_per_second"/) t += $(i + 1); if ($i ~ /"model_flops_per_second"/) f += $(i + 1)}} END {printf "| %s | %d | %.0f | %.1f %% |\n", m, b, t / NR, 100 * f / NR / 989.4e12}'
  else
    echo "| $model | $micro | $(tail -1 "$place/said" | cut -c1-160) | |"
  fi
  rm -rf "$run"
}

prepare() {
  for ((i = 0; i < 60000; ++i)); do echo "line $i of a text that is long enough to train on, with the number $((i * i % 997)) in it"; done >"$place/text.txt"
  shard-data --input "$place/text.txt" --split lines --output "$place/data" --validation 0 >/dev/null 2>&1
}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if [ -n "$kernels" ]; then
  prepare
  library=$(dirname "$(command -v train)")/libgpu_kernel_times.so
  [ -e "$library" ] || { echo "bench/gpu.sh: there is no $library: the toolkit that this was built with has no CUPTI" >&2; exit 4; }
  CUDA_INJECTION64_PATH=$library GPU_KERNEL_TIMES=$place/times GPU_KERNEL_TIMES_AFTER=1 throughput "${kernels%:*}" "${kernels#*:}" 40
  head -45 "$place/times"
  exit
fi
{
  echo "### $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || echo 'a GPU'), $(date +%F)"
  echo
  echo "    bash bench/gpu.sh --parts '$parts' --models '$models' --micro-batches '$micro_batches'"
  echo
  if [[ $parts = *kernels* ]]; then
    echo '```'
    profile-comm --device cuda --model gpt2 --micro-batch 8 --dtype bf16 --budget 90s --disk-bytes 0 --output "$place/profile.json" --progress never 2>/dev/null
    echo
    TRAINYARD_PROFILE=$place/profile.json bench_kernels_gpu --benchmark_counters_tabular=true --benchmark_color=false 2>/dev/null
    echo '```'
    echo
  fi
  prepare
  if [[ $parts = *models* ]]; then
    echo "| model | micro-batch | tokens/s | share of 989.4 TFLOP/s |"
    echo "|---|---|---|---|"
    for model in $models; do
      for micro in $micro_batches; do throughput $model $micro; done
    done
    echo
  fi
  if [[ $parts = *peer* ]] && LD_LIBRARY_PATH=${PEER_LIBRARY_PATH-${LD_LIBRARY_PATH:-}} python3 -c 'import torch' 2>/dev/null; then
    echo '```'
    python3 "$here/compare_pytorch.py" --train "$(command -v train)" --data "$place/data" --device cuda --kernels "$(command -v bench_kernels_gpu)" --micro-batches "${micro_batches// /,}"
    echo '```'
  fi
} | tee "$place/table"
if [ $record = yes ]; then { echo; cat "$place/table"; } >>"$here/RESULTS.md"; fi
