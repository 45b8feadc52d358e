#!/bin/bash
# The example files of tools/train/examples. Each says what it is for. Models of a trainable size are trained for two
# steps, large ones are planned. Run files are started by the command in their second line, for three steps of a tiny
# model. The README lists all of them.
# usage: example_files.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
source=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu
cp -r "$source/tools/train/examples" examples

for help in --help --help-model; do
  for place in tools/train/examples share/trainyard; do
    expect 0 train $help
    said $place
  done
done
small_text 300 >text
expect 0 shard-data --input text --split paragraphs --output data --validation 0.2

for file in examples/models/*.toml examples/runs/*.toml; do
  head -1 "$file" | grep -Eq '^# .{40,}[.]$' || fail "$file does not say in its first line what it is for"
  grep -qF "\`${file#examples/}\`" examples/README.md || fail "$file is not in the README"
done
for name in $(grep -o '`\(models\|runs\)/[^`]\+`' examples/README.md | tr -d '`'); do [ -f "examples/$name" ] || fail "the README lists $name, which is not there"; done

planned=0
for file in examples/models/*.toml; do
  name=$(basename "$file" .toml)
  expect 0 partition-model --model "$file" --vocabulary 32000 --json
  [ "$(jq -r .model.name out)" = "$name" ] || fail "$file does not call itself $name"
  if ! jq -e '.predicted.parameters < 50e6' out >/dev/null; then
    planned=$((planned + 1))
    continue
  fi
  expect 0 train --model "$file" --data data --output "of-$name" --steps 2 --global-batch 2 --micro-batch 1 --sequence 16 --progress never
  [ "$(wc -l <"of-$name/metrics.jsonl")" = 2 ] || fail "$file was not trained"
done
[ $planned = 1 ] || fail "$planned models were only planned"
expect 0 bash -c "$(sed -n '/^    partition-model /,/^$/p' examples/README.md)"
said '64 ranks, ZeRO 3, bf16'

tiny_model 16 | sed 's/^ffn = 16$/ffn = 32/' >tiny.toml   # has two lanes
tiny=(--model tiny.toml --steps 3 --warmup-steps 1 --sequence 16 --global-batch 4 --micro-batch 2 --validation-sequences 4 --validate-every 2 --threads 1 --progress never)
expect 0 train "${tiny[@]}" --data data --output base
for file in examples/runs/*.toml; do
  read -ra words < <(sed -n '2s/^# //p' "$file")
  [[ " ${words[*]} " == *" --config $file "* ]] || { fail "$file does not say in its second line how it is started"; continue; }
  launch=()
  [ "${words[0]}" = train ] || launch=(mpirun --bind-to none -n 2)   # replaces a cluster's own launcher
  while [ "${words[0]}" != train ]; do words=("${words[@]:1}"); done
  given=() short=("${tiny[@]}")
  ! grep -q '^decay-steps' "$file" || short+=(--decay-steps 1)
  for ((w = 1; w < ${#words[@]}; ++w)); do
    case ${words[w]} in
      --model) w=$((w + 1)); [ -f "${words[w]}" ] || fail "$file names ${words[w]}, which is not there" ;;
      --init-from) given+=(--init-from "$(ls -d base/checkpoints/step-*)"); w=$((w + 1)) ;;
      --output) w=$((w + 1)) ;;
      *) given+=("${words[w]}") ;;
    esac
  done
  output=with-$(basename "$file" .toml)
  expect 0 "${launch[@]}" train "${given[@]}" "${short[@]}" --output "$output"
  [ "$(wc -l <"$output/metrics.jsonl")" = 3 ] || fail "$file: not three steps"
  expect 0 train "${given[@]}" --model tiny.toml --output "$output" --print-config
  for key in $(sed -n 's/^\([a-z0-9-]*\) = .*/\1/p' "$file"); do grep -Eq "^$key = .*# $file" out || fail "$file: what it says of $key is not what counts: $(grep "^$key = " out)"; done
done
passed
