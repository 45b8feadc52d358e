#!/bin/bash
#SBATCH --job-name=trainyard-quickstart
#SBATCH --ntasks=4
#SBATCH --time=00:30:00
# From a text file to a trained model: install, build, shard, plan, train, stop half-way, resume on another number of ranks, inspect, generate.
#
#   bash slurm/quickstart.sh [--text FILE] [--work DIR] [--steps N]     on a fresh Debian 12, as root or with sudo
#   sbatch slurm/quickstart.sh [...]                                    on a cluster: installs nothing, ranks come from the allocation
set -euo pipefail

usage() { sed -n '5,8p' "$home/slurm/quickstart.sh" | sed 's/^# \{0,1\}//'; exit 2; }
say() { printf '\n== %s\n' "$*"; }

in_slurm=${SLURM_JOB_ID:+yes}
if [ -n "$in_slurm" ]; then home=${SLURM_SUBMIT_DIR:-$PWD}; else home=$(cd "$(dirname "$0")/.." && pwd); fi
[ -f "$home/slurm/install-deps.sh" ] || home=$(dirname "$home")
[ -f "$home/slurm/install-deps.sh" ] || { echo "quickstart: submit it from the folder of the repository" >&2; exit 4; }

text= work=$home/build/quickstart steps=600
while [ $# -gt 0 ]; do
  case $1 in
    --text) text=$(realpath "${2:?--text needs a file}"); shift 2 ;;
    --work) work=${2:?--work needs a folder}; shift 2 ;;
    --steps) steps=${2:?--steps needs a number}; shift 2 ;;
    *) usage ;;
  esac
done
[ -z "$text" ] || [ -r "$text" ] || { echo "quickstart: cannot read $text" >&2; exit 3; }

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
cd "$home"

say "build"
if [ -z "$in_slurm" ]; then bash slurm/install-deps.sh; fi
if [ -z "$in_slurm" ] || [ ! -x build/release/bin/train ]; then
  options=(-DTRAINYARD_TESTS=OFF -DTRAINYARD_BENCH=OFF)   # a build folder that is there keeps its own
  [ -f build/release/CMakeCache.txt ] && options=()
  cmake --preset release "${options[@]}" >/dev/null
  cmake --build --preset release | tail -1
fi
export PATH=$home/build/release/bin:$PATH
begin=$SECONDS

say "text"
mkdir -p "$work"
work=$(realpath "$work")
if [ -z "$text" ]; then
  text=$work/text.txt
  if [ ! -s "$text" ]; then
    # A free English dictionary, from its Debian package, unpacked here: nothing is installed, nothing is kept in the repository.
    (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root dict-gcide && dpkg -x dict-gcide_*.deb package)
    { zcat -f "$work"/package/usr/share/dictd/gcide.dict.dz || true; } | head -c 8000000 >"$text.partial"
    mv "$text.partial" "$text"
    rm -rf "$work"/package "$work"/dict-gcide_*.deb
  fi
fi
ls -l "$text"

ranks=${SLURM_NTASKS:-$(nproc)}
other=$((ranks > 1 ? ranks - 1 : 1))
launch() {
  local n=$1
  shift
  if [ -n "$in_slurm" ]; then srun --mpi=pmix -n "$n" "$@"
  elif [ "$n" = 1 ]; then "$@"
  else mpirun -q --bind-to none -n "$n" "$@"; fi
}
threads=1
data=$work/data run=$work/run
settings=(--data "$data" --output "$run" --steps "$steps" --learning-rate 3e-3 --warmup-steps $((steps / 20)) --save-every $((steps / 4))
          --validate-every $((steps / 4)) --validation-sequences 64)
cut=(--model gpt2-micro --global-batch 32 --micro-batch 4 --sequence 256 --threads "$threads")

say "shard-data"
shard-data --input "$text" --split paragraphs --output "$data" --validation 0.02 --max-rejects 0.05 --force

say "partition-model: $ranks ranks, ZeRO 3"
partition-model "${cut[@]}" --vocabulary 257 --ranks "$ranks" --zero 3 --output "$work/plan.json" --force

say "profile-comm: what the links of this plan can do"
drawing=()
[ "$ranks" = 1 ] || drawing=(--plot "$work/profile.svg")
launch "$ranks" profile-comm --plan "$work/plan.json" --max-bytes 1MiB --factor 8 --budget 10s --output "$work/profile.json" "${drawing[@]}" --force

say "train on $ranks ranks with ZeRO 3, stop half-way"
rm -rf "$run"
code=0
launch "$ranks" train --plan "$work/plan.json" "${settings[@]}" --stop-after $((steps / 2)) || code=$?
[ -d "$run/checkpoints" ] || { echo "quickstart: training failed (exit $code)" >&2; exit "${code:-1}"; }

say "resume on $other rank(s) with ZeRO 1"
launch "$other" train "${cut[@]}" --zero 1 "${settings[@]}" --memory-report

say "inspect"
inspect "$run"
checkpoint=$(ls -d "$run"/checkpoints/step-* | tail -1)

say "generate"
generate --checkpoint "$checkpoint" --prompt "The train " --tokens 300 --temperature 0.7 --seed 3
echo

say "summary"
speed=$(tail -n 20 "$run/metrics.jsonl" | jq -s 'map(.tokens_per_second) | add / length | floor')
echo "took:        $((SECONDS - begin)) s after the build"
echo "loss:        $(head -1 "$run/metrics.jsonl" | jq .loss) at step 1, $(tail -1 "$run/metrics.jsonl" | jq .loss) at step $steps; validation $(tail -1 "$run/metrics.jsonl" | jq .validation_loss)"
echo "speed:       $speed tokens/s on $other rank(s)"
echo "memory:      $(awk '/^total in arenas/ {print $4 " bytes predicted, " $5 " measured on rank 0"}' "$run/report.txt")"
echo "plan:        $work/plan.json"
echo "profile:     $work/profile.json   (inspect $work/profile.json)"
echo "checkpoint:  $checkpoint   (h5ls -r $checkpoint/checkpoint.h5)"
echo "metrics:     $run/metrics.jsonl"
echo "next:        shard-data on your own text with a SentencePiece model, train --model gpt2, more ranks, --dtype bf16"
