# What the scripts that test programs share: sourced, as `. "$(dirname "$0")/../script.sh"`, once a script has read its arguments (paths with realpath: the folder changes here).
# From there on the script is in an empty folder of its own, $folder, which goes when it ends, as its background jobs do; stdin is empty; MPI runs as root and without spinning.
#
#   expect CODE COMMAND...         runs it for at most $time_limit seconds, stdout to `out`, stderr to `err`, and wants this exit code (an input of its own: expect 0 cat <file)
#   refused CODE WORDS COMMAND...  as expect; also nothing on stdout, one line `program: ...WORDS...` (a program of ours) on stderr, and something to try
#   said WORDS, once WORDS, unsaid WORDS   `out` or `err` has WORDS, a pattern of grep; in one line; in none
#   same A B NAME                  two files or folders, byte for byte
#   same_tokens A B NAME           two shard sets, whatever they were made from
#   absent PATH...                 nothing is there
#   fail WORDS                     a failure, also from a subshell; shows what the files $shown end with
#   skipped WORDS                  the test cannot run here
#   passed [WORDS]                 the last line of every script: one that ends without it has failed
#   small_text LINES, tiny_model [CONTEXT]   a text and a model file, to stdout, for what is not about text or models
#
# Failures are counted and the script goes on, or ends at the first after `end_at_first_failure`. A script that starts what is no job of its own defines clean_up.
# tests/structure/script.sh is the test.
set -u
exec </dev/null
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMP_WAIT_POLICY=passive
time_limit=60 shown='out err' first_ends=no
folder=$(mktemp -d) && cd "$folder" || exit 1
readonly own_folder=$folder   # what is removed at the end, whatever a script makes of the name

at_exit() {
  local code=$? running failures
  [ "$BASHPID" = "$$" ] || return   # a background job that is ended before it has put the trap aside
  trap - EXIT
  set +e
  first_ends=no
  running=$(jobs -pr)
  [ -z "$running" ] || { kill $running; sleep 0.5; kill -KILL $running; } 2>/dev/null
  ! declare -F clean_up >/dev/null || clean_up
  case $code in
    0) [ -e "$own_folder.passed" ] || fail "the script ended before its last line" ;;
    77) ;;
    *) [ -e "$own_folder.failures" ] || fail "the script ended with exit code $code" ;;
  esac
  failures=$(cat "$own_folder.failures" 2>/dev/null | wc -l)
  [ "$failures" = 0 ] || { echo "$failures failures"; code=1; }
  cd /
  rm -rf "$own_folder" "$own_folder.failures" "$own_folder.passed"
  exit "$code"
}
trap at_exit EXIT

end_at_first_failure() { first_ends=yes; }
fail() {
  echo "FAIL: $*"
  echo "$*" | head -1 >>"$own_folder.failures"
  tail -n 20 -v $shown 2>/dev/null | cat -v | cut -c 1-2000
  [ $first_ends = no ] || exit 1
}
skipped() { echo "skipped: $*"; exit 77; }
passed() {
  : >"$own_folder.passed"
  [ -e "$own_folder.failures" ] || echo "${*:-all as it should be}"
  exit 0
}

# kept COMMAND...: its exit code in `code`, its output in `out` and `err`.
kept() { code=0; timeout "$time_limit" "$@" >out 2>err || code=$?; }
expect() {
  local want=$1 code
  shift
  kept "$@"
  [ "$code" = "$want" ] || fail "exit code $code, not $want: $*"
}
refused() {
  local want=$1 words=$2 code
  shift 2
  kept "$@"
  [ "$code" = "$want" ] || fail "exit code $code, not $want: $*"
  [ ! -s out ] || fail "writes to stdout: $*"
  [ "$(grep -c "^\(shard-data\|partition-model\|train\|inspect\|generate\|score\|profile-comm\|reshard-checkpoint\|convert-checkpoint\): .*\($words\)" err)" = 1 ] || fail "does not say '$words' once: $*"
  grep -q '^  try: ' err || fail "nothing to try: $*"
  [ "$(wc -c <err)" -lt 2000 ] || fail "a message of $(wc -c <err) bytes: $*"
}
said() { grep -q -e "$1" out err 2>/dev/null || fail "'$1' is not said"; }
unsaid() { ! grep -q -e "$1" out err 2>/dev/null || fail "'$1' is said"; }
once() {
  local times
  times=$(cat out err 2>/dev/null | grep -c -e "$1" || true)
  [ "$times" = 1 ] || fail "'$1' is said $times times, not once"
}
same() { diff -r "$1" "$2" >/dev/null || fail "$3: $1 and $2 differ: $(diff -ra "$1" "$2" 2>&1 | head -c 300 | cat -v)"; }
same_tokens() {
  local content='[.train, .validation] | map(map([.file, .tokens, .documents, .tokens_crc32c]))'
  [ "$(jq -c "$content" "$1/index.json")" = "$(jq -c "$content" "$2/index.json")" ] || fail "$3: $1 and $2 have other tokens"
  [ "$(jq '.train | length' "$1/index.json")" -ge 1 ] || fail "$3: nothing to compare"
}
absent() {
  local path
  for path in "$@"; do [ ! -e "$path" ] || fail "$path is there"; done
}

small_text() { for i in $(seq 1 "$1"); do printf 'line %d of a small text about trains and yards\n\n' "$i"; done; }
tiny_model() { printf 'layers = 1\nhidden = 16\nheads = 2\nkv-heads = 2\nffn = 16\ncontext = %d\n' "${1:-8}"; }
