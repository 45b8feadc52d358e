#!/bin/bash
# The speed of convert-checkpoint beside a copy of the same bytes, in turns in one run. The copy is `cp -r` of the
# model, without and with the sync that makes it as durable as the written checkpoint.
# usage: convert.sh BIN_FOLDER [ROUNDS]     (a GPT-2 of 124 M parameters: 498 MB in f32, whose matrices are transposed; a Llama of as many, whose are not)
PATH=$(realpath "$1"):$PATH
rounds=${2:-5}
. "$(dirname "$0")/../../tests/script.sh"
set -e
end_at_first_failure
small_text 400 >text
shard-data --input text --split paragraphs --output data >/dev/null 2>&1
printf 'layers = 12\nhidden = 768\nheads = 12\nffn = 3072\nvocabulary = 50257\ncontext = 1024\n' >gpt2.toml
printf 'layers = 14\nhidden = 768\nheads = 12\nkv-heads = 4\nffn = 2048\nvocabulary = 50257\ncontext = 1024\nnorm = "rms"\npositions = "rotary"\nactivation = "swiglu"\nbiases = "off"\n' >llama.toml

# timed NAME COMMAND...: adds a line "NAME seconds" to `times`. What the command made is removed, and the disk is idle
# before the next.
timed() {
  local name=$1 from till
  shift
  sync
  from=$(date +%s.%N)
  "$@" >/dev/null 2>&1
  till=$(date +%s.%N)
  echo "$name $(jq -n "$till - $from")" >>times
  rm -rf made
}
copied_durably() { cp -r "$1" made && sync made/* made; }
for model in gpt2 llama; do
  train --device cpu --model $model.toml --data data --output run --steps 1 --global-batch 1 --sequence 16 --progress never >/dev/null 2>log || { cat log; exit 1; }
  reshard-checkpoint run weights --only model >/dev/null 2>&1
  rm -rf run
  convert-checkpoint weights out --to safetensors >/dev/null 2>&1
  for ((i = 0; i < rounds; ++i)); do
    timed $model.cp cp -r out made
    timed $model.cp+sync copied_durably out
    timed $model.out convert-checkpoint weights made --to safetensors
    timed $model.in convert-checkpoint out made --from safetensors
  done
  du -sb out >$model.bytes
  rm -rf weights out
done
echo "$rounds rounds, $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg); median seconds, GB/s, and speed as a share of cp and of cp+sync"
middle() { grep "^$1 " times | cut -d' ' -f2 | sort -g | sed -n "$(((rounds + 1) / 2))p"; }
for model in gpt2 llama; do
  for name in cp cp+sync out in; do
    jq -nr --arg n "$model $name" --argjson s "$(middle $model.$name)" --argjson b "$(cut -f1 $model.bytes)" --argjson c "$(middle $model.cp)" --argjson d "$(middle $model.cp+sync)" \
      '[$n, ($s * 1000 | round / 1000), ($b / $s / 1e7 | round / 100), ($c / $s * 100 | round / 100), ($d / $s * 100 | round / 100)] | @tsv'
  done
done
passed
