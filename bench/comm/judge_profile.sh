#!/bin/bash
# How well a profile predicts another run: three runs of profile-comm with the same settings. Each fit is judged by the
# later runs (error, noise, coverage: bench/README.md).
# usage: bash bench/comm/judge_profile.sh RANKS [profile-comm options]
set -euo pipefail
ranks=${1:?usage: judge_profile.sh RANKS [profile-comm options]}
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in 1 2 3; do mpirun -n "$ranks" --bind-to core profile-comm --max-bytes 16MiB --budget 60s "$@" --output "$folder/$run.json" --progress never >/dev/null; done
for pair in "1 2" "1 3" "2 3"; do
  read -r first second <<<"$pair"
  echo "== run $first judged on run $second"
  { profile-comm --compare "$folder/$first.json" "$folder/$second.json" --max-regress 10% || true; } | sed -n '/^[0-9]* of /p;/^fits/,$p'
done
