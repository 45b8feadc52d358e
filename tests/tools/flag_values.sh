#!/bin/bash
# Every flag of every program, from --help, with nonsense values: never a signal, a hang or exit 1. Values that can be
# neither number nor text are refused with the flag's name.
# usage: flag_values.sh BIN_FOLDER quick|all [SANITIZERS]     (quick: of the values that must be refused at once, half
# of them for a flag, and the other half for the next)
PATH=$(realpath "$1"):$PATH
selection=$2
. "$(dirname "$0")/../script.sh"
export TRAINYARD_DEVICE=cpu OMP_NUM_THREADS=1
ulimit -f 200000
[ -n "${3:-}" ] || ulimit -v 16000000   # sanitizers reserve more address space
runs=0 turn=0

for i in $(seq 1 60); do printf 'line %d of a small text about trains and yards, longer than a window of tokens\n\n' "$i"; done >text
shard-data --input text --split paragraphs --output data --validation 0.2 >out 2>err || { fail "no shards: $(cat err)"; exit 1; }
train --model gpt2-nano --data data --output run --steps 1 --global-batch 2 --sequence 16 --threads 1 --progress never >out 2>err || { fail "no run: $(cat err)"; exit 1; }

echo '{"context": "a", "endings": ["b", "c"], "answer": 0}' >questions.jsonl

# A correct command, to which a flag is added. With a program that has --dry-run, it writes and measures nothing.
command_of() {
  case $1 in
    shard-data) echo "shard-data --input text --output out-data --dry-run" ;;
    partition-model) echo "partition-model --model gpt2-nano" ;;
    train) echo "train --model gpt2-nano --data data --output out-run --sequence 16 --global-batch 2 --threads 1 --dry-run" ;;
    inspect) echo "inspect run" ;;
    generate) echo "generate --checkpoint run --tokens 2 --threads 1" ;;
    score) echo "score --checkpoint run --input questions.jsonl --threads 1" ;;
    profile-comm) echo "profile-comm --dry-run" ;;
    reshard-checkpoint) [ "$2" = --tolerance ] && echo "reshard-checkpoint --diff run run" || echo "reshard-checkpoint run made --force" ;;
    convert-checkpoint) case $2 in --to | --from) echo "convert-checkpoint run model --force" ;; *) echo "convert-checkpoint run model --force --to safetensors" ;; esac ;;
  esac
}

# One line for each flag that takes a value: its name and the kind of value. Kinds are N (a whole number), X (a number),
# BYTES and others.
flags_of() { "$1" --help | grep -oE '^  (-[a-z], )?(--[a-z0-9-]+, )*--[a-z0-9-]+ [A-Z]+([^A-Za-z]|$)' | awk '{ gsub(/[^A-Z]/, "", $NF); sub(/,$/, "", $1); print $1, ($NF == "N" ? "integer" : $NF == "X" ? "number" : $NF == "BYTES" ? "bytes" : "text") }'; }

# FLAG KIND VALUE: must this be refused, with the flag's name?
never_legal() {
  [ -z "$3" ] && return 0
  [ "$2" = text ] && return 1
  case $3 in nan | -nan | inf | -inf | 1e999 | abc | -1 | -99999999999999999999 | '1 2' | 0x10) return 0 ;; esac
  [ "$2" = integer ] && [ "$3" = 99999999999999999999 ] && return 0
  return 1
}

values=("" nan 1e999 -1)
[ "$selection" = all ] && values+=(-nan inf -inf abc -99999999999999999999 99999999999999999999 9223372036854775807 4294967296 0 1 0x10 '1 2' 1e-320 -0 '%s%n' '../..' "$(head -c 3000 /dev/zero | tr '\0' x)" $'a\nb' $'\xff\xfe')

for program in shard-data partition-model train inspect generate score profile-comm reshard-checkpoint convert-checkpoint; do
  flags=$(flags_of "$program")
  [ "$(wc -l <<<"$flags")" -ge 1 ] && [ -n "$flags" ] || fail "$program --help shows no flags"
  while read -r flag kind; do
    [[ $flag = --compare ]] && continue   # takes two
    of_flag=("${values[@]}")
    [ "$selection" = all ] || of_flag=("${values[turn]}" "${values[turn + 2]}")
    turn=$((1 - turn))
    for value in "${of_flag[@]}"; do
      code=0
      # shellcheck disable=SC2046
      timeout 20 $(command_of "$program" "$flag") "$flag" "$value" >out 2>err </dev/null || code=$?
      runs=$((runs + 1))
      shown=$(head -c 40 <<<"$value" | tr '\n\0' '  ')
      case $code in
        0 | 2 | 3 | 4 | 5 | 75) ;;
        124) fail "$program $flag '$shown' hangs" ;;
        *) fail "$program $flag '$shown': exit code $code: $(head -c 300 err)" ;;
      esac
      if never_legal "$flag" "$kind" "$value"; then
        [ $code = 2 ] || fail "$program $flag '$shown': exit code $code, not 2: $(head -c 300 err)"
        grep -q -e "$flag" err || fail "$program $flag '$shown': the message does not name it: $(head -c 300 err)"
      fi
    done
  done <<<"$flags"
done
[ ! -e out-run ] && [ ! -e out-data ] || fail "something was made: $(ls)"
[ $runs -ge 300 ] || fail "only $runs commands were run"
passed "$runs commands, all as it should be"
