#!/bin/bash
# The speed of reshard-checkpoint beside a copy of the same bytes, in turns in one run. The copy is `cp -r`, without and
# with the sync that makes it as durable as a checkpoint. First the source is in memory (warm), then it comes from the
# disk (cold).
# usage: reshard.sh BIN_FOLDER [ROUNDS] [SOURCE]     (SOURCE: a checkpoint; without one a run of one step makes one of some 900 MB)
PATH=$(realpath "$1"):$PATH
rounds=${2:-5} source=${3:+$(realpath "$3")}
. "$(dirname "$0")/../../tests/script.sh"
set -e
end_at_first_failure
if [ -z "$source" ]; then
  small_text 400 >text
  shard-data --input text --split paragraphs --output data >/dev/null 2>&1
  printf 'layers = 6\nhidden = 1024\nheads = 8\nkv-heads = 8\nffn = 4096\ncontext = 64\n' >model.toml
  train --device cpu --model model.toml --data data --output run --steps 1 --global-batch 2 --sequence 16 --progress never >/dev/null 2>log || { cat log; exit 1; }
  source=run/checkpoints/step-00000001
fi
ranks=$(inspect "$source" --json | jq .ranks)
reshard-checkpoint "$source" four --data-parallel 4 >/dev/null 2>&1

# Asks the system to drop the files from its page cache.
forget() { for file in "$@"; do dd if="$file" iflag=nocache count=0 status=none; done; }

# timed NAME COMMAND...: adds a line "NAME seconds" to `times`. What the command made is removed, and the disk is idle
# before the next.
timed() {
  local name=$1 from till
  shift
  sync
  [ $state = warm ] || forget "$source"/* four/*
  from=$(date +%s.%N)
  "$@" >/dev/null 2>&1
  till=$(date +%s.%N)
  echo "$state $name $(jq -n "$till - $from")" >>times
  rm -rf made
}
copied_durably() { cp -r "$1" made && sync made/* made; }
for state in warm cold; do
  cat "$source"/* four/* >/dev/null
  for ((i = 0; i < rounds; ++i)); do
    timed cp cp -r "$source" made
    timed cp+sync copied_durably "$source"
    timed "$ranks->4" reshard-checkpoint "$source" made --data-parallel 4
    timed "4->1" reshard-checkpoint four made --consolidate
  done
done
bytes=$(du -sb "$source" | cut -f1)
echo "$bytes bytes, $rounds rounds, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg); median seconds, GB/s, and speed as a share of cp and of cp+sync"
middle() { grep "^$1 " times | cut -d' ' -f3 | sort -g | sed -n "$(((rounds + 1) / 2))p"; }
for state in warm cold; do
  for name in cp cp+sync "$ranks->4" "4->1"; do
    jq -nr --arg n "$state $name" --argjson s "$(middle "$state $name")" --argjson b "$bytes" --argjson c "$(middle "$state cp")" --argjson d "$(middle "$state cp+sync")" \
      '[$n, ($s * 1000 | round / 1000), ($b / $s / 1e7 | round / 100), ($c / $s * 100 | round / 100), ($d / $s * 100 | round / 100)] | @tsv'
  done
done
passed
