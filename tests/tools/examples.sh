#!/bin/bash
# The examples of every program's --help, run as they are written. The folder is empty except for the texts and the
# tokenizer that they name. The machine has two cores, where Open MPI starts no third rank.
# usage: examples.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
golden=$(realpath "$(dirname "$0")/../golden/tokenizers/llama3.json")
. "$(dirname "$0")/../script.sh"
ulimit -f 4000000
unset OMPI_MCA_rmaps_base_oversubscribe
echo 'localhost slots=2' >hosts
export OMPI_MCA_orte_default_hostfile=$folder/hosts

# The one thing that a newcomer brings: a text of many paragraphs.
words=(in the beginning there was a small house beside old river and many people came to see what others had done with their hands)
for ((p = 0; p < 3000; ++p)); do   # no two are alike, else all or none would be held out
  printf '%d ' "$p"
  for ((w = 0; w < 40; ++w)); do printf '%s ' "${words[(p * p + w * (p % 7 + 1) + w * w) % 24]}"; done
  printf '\n\n'
done >book.txt
mkdir llama3 && cp "$golden" llama3/tokenizer.json
jq -Rc 'select(length > 0) | {text: .}' book.txt | gzip >book.jsonl.gz

ran=()
for program in shard-data partition-model train inspect generate score profile-comm reshard-checkpoint convert-checkpoint; do
  mapfile -t examples < <("$program" --help | sed -n '/^Examples:/,/^$/p' | sed -e ':a' -e '/\\$/{N;s/ *\\\n */ /;ta' -e '}' | sed -n 's/^  //p')
  [ ${#examples[@]} -ge 2 ] || fail "$program --help has ${#examples[@]} examples"
  if [ "$program" = generate ]; then  # one of its examples has a model with an encoder
    train --model t5-nano --data data --output translator --steps 2 --global-batch 8 --sequence 32 --source-sequence 48 >out 2>err || fail "no translator"
  fi
  for example in "${examples[@]}"; do
    [[ ! " ${ran[*]-} " == *" <$example> "* ]] || continue   # train's first line is the example of shard-data
    ran+=("<$example>")
    code=0
    timeout 600 bash -o pipefail -c "$example" >out 2>err </dev/null || code=$?
    if [ $code = 0 ] && [ -s out ]; then
      echo "ok: $example"
    else
      fail "exit code $code, $(wc -c <out) bytes on stdout: $example"
    fi
  done
done
[ ${#ran[@]} -ge 14 ] || fail "only ${#ran[@]} examples ran"
passed
