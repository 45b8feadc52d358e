#!/bin/bash
#SBATCH --job-name=trainyard-quickstart
#SBATCH --ntasks=4
#SBATCH --time=00:30:00
# From a text to a trained model in five minutes, after a first build of a few more on two cores. Makes shards, plans,
# measures, trains, stops half-way, resumes on other ranks, writes a sample.
#
#   bash slurm/quickstart.sh [OPTIONS]      on Debian 12, as root or with sudo
#   sbatch slurm/quickstart.sh [OPTIONS]    on a cluster: installs nothing, ranks come from the allocation
#
#   --text FILE      what to learn from, UTF-8 (default: 8 MB of a free English dictionary)
#   --work DIR       where everything goes (default: build/quickstart)
#   --seconds N      how long it may take after the build (default: 240)
#   --steps N        training steps, instead of as many as fit into that time
#   --cores N        cores to use (default: all)
#   --build-dir DIR  take the programs in DIR/bin, build nothing
#   --help           this text
#
# Ctrl-C finishes the step, saves, and ends with 75 (130 if nothing was trained yet); the same command goes on from
# there.
# Another command, or the same one after the end, begins anew: it sets an existing run aside, and touches nothing that
# quickstart did not make.
set -euo pipefail
[ -z "${LC_ALL:-}" ] || export LANG=$LC_ALL   # figures have decimal points everywhere
unset LC_ALL
export LC_NUMERIC=C

say() { printf '\n== %s\n' "$1"; [ $# -lt 2 ] || printf '%s\n' "$2" | fmt -w 100; }
refuse() { # CODE WHAT TRY
  printf 'quickstart: %s\n  try: %s\n' "$2" "$3" >&2
  exit "$1"
}
number() { [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || refuse 2 "$1 '$2' is not a number from 1 to 999999" "$1 100"; }
span() { if [ "$1" -lt 60 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi; }

# ---- what was asked for
in_slurm=${SLURM_JOB_ID:+yes}
if [ -n "$in_slurm" ] && [ -n "${SLURM_SUBMIT_DIR:-}" ]; then home=$SLURM_SUBMIT_DIR; else home=$(cd "$(dirname "$0")/.." && pwd); fi
[ -f "$home/slurm/install-deps.sh" ] || home=$(dirname "$home")
if [ -n "$in_slurm" ]; then command=(sbatch slurm/quickstart.sh "$@"); else command=(bash "$0" "$@"); fi
text='' work='' seconds=240 steps='' cores='' programs=''
while [ $# -gt 0 ]; do
  case $1 in
    --help|-h) sed -n '5,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --text|--work|--seconds|--steps|--cores|--build-dir) [ -n "${2:-}" ] || refuse 2 "$1 needs a value" "bash slurm/quickstart.sh --help" ;;&
    --text) text=$2 ;;
    --work) work=$2 ;;
    --seconds) seconds=$2; number "$1" "$2" ;;
    --steps) steps=$2; number "$1" "$2" ;;
    --cores) cores=$2; number "$1" "$2" ;;
    --build-dir) programs=$2/bin ;;
    *) refuse 2 "$1 is not known" "bash slurm/quickstart.sh --help" ;;
  esac
  shift 2
done
[ -f "$home/slurm/install-deps.sh" ] || refuse 4 "$home is not the folder of the repository" "submit it from there"
if [ -n "$text" ]; then
  [ -f "$text" ] && [ -r "$text" ] || refuse 3 "$text is not a file that can be read" "check the path"
  text=$(realpath "$text")
fi
if [ -n "$programs" ]; then
  [ -x "$programs/train" ] || refuse 2 "there is no program train in $programs" "leave --build-dir out, and they are built"
  programs=$(realpath "$programs")
fi
mkdir -p "${work:=$home/build/quickstart}" || refuse 4 "$work cannot be made" "--work DIR"
work=$(realpath "$work")
again="$(printf '%q ' "${command[@]}")"
exec 9>>"$work/.quickstart"
flock -n 9 || refuse 4 "another quickstart works in $work" "wait for it, or --work another folder"

# Only the processor, so that prediction and measurement are about the same machine everywhere.
export TRAINYARD_DEVICE=cpu OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMP_WAIT_POLICY=passive
cd "$home"

# ---- stopping: the working command has a process group of its own, so Ctrl-C reaches only this script. The script asks
# the command for an orderly end, and at the second Ctrl-C for a quick one.
child='' gentle=TERM stopping='' interrupted=''
stop() {
  interrupted=yes
  if [ -z "$child" ]; then stopping=yes; stopped; fi
  if [ -n "$stopping" ] || [ "$gentle" = TERM ]; then
    kill -TERM -- "-$child" 2>/dev/null || true
  else
    kill -USR1 "$child" 2>/dev/null || true
    printf '\nquickstart: stopping: the step is finished and saved (once more: at once)\n' >&2 || true   # the terminal may be closed
  fi
  stopping=yes
}
trap stop INT TERM HUP
newest() { { find "$work/run/checkpoints" -maxdepth 1 -name 'step-????????' 2>/dev/null || true; } | sort | tail -1; }   # empty if nothing was trained
stopped() {
  local last
  last=$(newest)
  if [ -n "$last" ]; then
    printf 'quickstart: stopped; step %d is saved. The same command goes on from there:\n  %s\n' "$((10#${last##*-}))" "$again" >&2 || true
    exit 75
  fi
  printf 'quickstart: stopped; nothing is broken. The same command goes on:\n  %s\n' "$again" >&2 || true
  exit 130
}
# attended SIGNAL COMMAND...: runs the command; its exit code is in $code. After a stop this never returns.
attended() {
  local now
  gentle=$1
  shift
  set -m
  "$@" </dev/null 9>&- &
  child=$!
  set +m
  code=0
  while :; do
    interrupted='' now=0
    wait "$child" || now=$?
    [ $now = 127 ] || code=$now      # 127: the signal came after wait had already reported the end
    [ -n "$interrupted" ] && [ $now != 127 ] || break
  done
  child=''
  [ -z "$stopping" ] || stopped
}
must() { # TERM COMMAND...: like attended; a failure ends the script
  attended "$@"
  [ "$code" = 0 ] || refuse "$code" "$2 ended with exit code $code" "read what it says above, then the same command again: what is done stays done"
}
launch() { # RANKS COMMAND...: sets $launched
  local n=$1
  shift
  if [ -n "$in_slurm" ]; then launched=(srun --mpi=pmix --kill-on-bad-exit=1 -n "$n" "$@")
  elif [ "$n" = 1 ]; then launched=("$@")
  else launched=(mpirun -q --bind-to none -n "$n" "$@"); fi
}

# ---- build
log=$home/build/quickstart-build.log
# Reads the output of ninja. Prints one line that changes on a terminal, else one line every ten seconds.
follow_build() {
  local line finished total begun=$SECONDS shown=-10 estimate cores said
  cores=$(nproc)
  while IFS= read -r line; do
    printf '%s\n' "$line" >&3
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    finished=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
    if [ "$finished" -lt 12 ]; then estimate=$(((total - finished) * 3 / cores)); else estimate=$(((SECONDS - begun) * (total - finished) / finished)); fi
    said="build: $finished of $total files, $(span $((SECONDS - begun))), about $(span $estimate) left"
    if [ -t 1 ]; then printf '\r\033[K%s' "$said"
    elif [ $((SECONDS - shown)) -ge 10 ]; then printf '%s\n' "$said"; shown=$SECONDS; fi
  done 3>"$log"
  if [ -t 1 ]; then printf '\r\033[K'; fi
}
build() {
  local options=()
  [ -f build/release/CMakeCache.txt ] || options=(-DTRAINYARD_TESTS=OFF -DTRAINYARD_BENCH=OFF)   # an existing build folder keeps its own
  mkdir -p build
  cmake --preset release "${options[@]}" >"$log" 2>&1 && NINJA_STATUS='[%f/%t] ' cmake --build --preset release --target programs 2>&1 | follow_build && return
  grep -E 'error|FAILED' "$log" | head -5 >&2 || tail -5 "$log" >&2
  echo "quickstart: the build failed; all it said is in $log" >&2
  return 4
}
if [ -z "$programs" ]; then
  programs=$home/build/release/bin
  say "build" "Compiles the programs: some minutes on two cores the first time, less on more cores, and no time if they are compiled already."
  if [ -z "$in_slurm" ]; then must TERM bash slurm/install-deps.sh; fi
  if [ -z "$in_slurm" ] || [ ! -x "$programs/train" ]; then must TERM build; fi
  echo "build: the programs are in $programs"
fi
export PATH=$programs:$PATH
begin=$SECONDS

# ---- text
say "text" "What the model learns from. It sees bytes, not words, and will know nothing but this text."
fetch_text() {
  # A free English dictionary, unpacked here from its Debian package: nothing is installed, nothing is kept in the
  # repository.
  fetched=$(mktemp -d "$work/fetched.XXXXXX")
  trap 'rm -rf "$fetched"' EXIT
  trap 'exit 143' TERM
  (cd "$fetched" && apt-get download -qq -o APT::Sandbox::User=root dict-gcide && dpkg -x dict-gcide_*.deb package) || return 4
  { zcat -f "$fetched"/package/usr/share/dictd/gcide.dict.dz | sed 's/^ *//' || true; } | head -c 8000000 >"$fetched/text.txt"   # without indentation; head ends before the writers do
  [ -s "$fetched/text.txt" ] || return 4
  mv "$fetched/text.txt" "$work/text.txt"
}
if [ -z "$text" ]; then
  text=$work/text.txt
  if [ ! -s "$text" ]; then
    attended TERM fetch_text
    [ "$code" = 0 ] || refuse 4 "the package dict-gcide could not be fetched" "--text FILE with a text of your own"
  fi
fi
# The first bytes tell whether the text is compressed, as in shard-data.
case $(head -c 4 "$text" | od -An -tx1 | tr -d ' \n') in
  1f8b*) unpack=(gzip -dc) ;;
  28b52ffd|5?2a4d18) unpack=(zstd -dcq); command -v zstd >/dev/null || refuse 4 "$text is packed with zstd, and there is no zstd here" "apt-get install zstd, or unpack it first" ;;
  *) unpack=(cat) ;;
esac
plain() { "${unpack[@]}" <"$text"; }
bytes=$(plain | wc -c) || refuse 3 "$text cannot be read to its end${unpack[1]:+ with ${unpack[0]}}" "--text with a whole file"
[ "$bytes" -ge 4000 ] || refuse 3 "$text holds $bytes bytes: too little to learn from" "--text FILE with 4 kB or more; 1 MB gives words"
echo "$text"

# ---- what is decided, what is done, and which files are quickstart's: kept in $work/.quickstart, so that the same
# command goes on
note() { printf '%s=%q\n' "$1" "$2" >&9; declare -g "$1=$2"; }
is_done() { local name=done_$1; [ -n "${!name:-}" ]; }
# A name proves nothing: quickstart replaces or moves only the very file or folder that it made. It knows that by inode
# and birth time, and for a file also by its last change.
makes=(data plan.json profile.json profile.svg run)
identity() { if [ -d "$1" ]; then stat -c '%i %w' "$1"; else stat -c '%i %w %y %s' "$1"; fi; }
owned() { local key=own_${1//./_}; printf %s "${!key:-}"; }
exists() { [ -e "$work/$1" ] || [ -L "$work/$1" ]; }
is_own() { exists "$1" && [ "$(owned "$1")" = "$(identity "$work/$1")" ]; }
making=()
claim() { # NAMES...: refuses what others made; what is made under these names from now on is quickstart's
  local name
  for name; do
    ! exists "$name" || is_own "$name" || refuse 2 "$work/$name was not made by quickstart" "--work another folder, or move it away"
  done
  making=("$@")
}
own() { # records what was made under the claimed names, however the stage ended
  local name
  for name in "${making[@]}"; do
    ! exists "$name" || note "own_${name//./_}" "$(identity "$work/$name")"
  done
  making=()
}
trap own EXIT

# ---- settings that fit the text and the cores
asked="$(printf '%q ' "$text" "$(stat -c '%s %Y' "$text")" "$seconds" "$steps" "${cores:-$(nproc)} ${SLURM_NTASKS:-} ${SLURM_CPUS_PER_TASK:-}")"
asked=${asked//$'\n'/ }
settle() {
  local paragraphs lines
  # Divides text like shard-data: a paragraph ends at a line without words. First every line becomes an x or empty,
  # because awk is slow with lines of megabytes.
  read -r paragraphs lines < <(plain | LC_ALL=C tr -d ' \t\r' | LC_ALL=C tr -cs '\n' x | awk '
    /x/ { ++lines; if (!inside) ++paragraphs }
    { inside = /x/ }
    paragraphs == 50 { exit }
    END { print paragraphs + 0, lines + 0 }')
  note split "$(if [ "$paragraphs" -ge 50 ] || [ "$paragraphs" -ge "$lines" ]; then echo paragraphs; else echo lines; fi)"
  # A step reads `batch` sequences of 256 bytes, as micro-batches for at most this many ranks.
  note batch "$(if [ "$bytes" -ge 1000000 ]; then echo 32; elif [ "$bytes" -ge 100000 ]; then echo 16; else echo 8; fi)"
  local most=8
  if [ -n "$in_slurm" ]; then
    most=$batch cores=${SLURM_NTASKS:-1}
  else
    cores=${cores:-$(nproc)}
  fi
  note ranks $((cores < most ? cores : most))
  if [ -z "$in_slurm" ] && [ "$ranks" = 1 ]; then note ranks 2; fi   # the two ranks share a core
  note other $((ranks > 1 ? ranks - 1 : 1))
  note micro $((ranks > 8 ? 1 : batch / 8))
  note threads $((cores / ranks > 1 ? cores / ranks : 1))
  note other_threads $((cores / other > 1 ? cores / other : 1))
  if [ -n "$in_slurm" ]; then note threads "${SLURM_CPUS_PER_TASK:-1}"; note other_threads "$threads"; fi
  # 64 sequences for tests, but never more than a tenth.
  note share "$(awk -v n="$bytes" 'BEGIN { s = 25000 / n; print (s < 0.02 ? 0.02 : s > 0.1 ? 0.1 : s) }')"
  if [ "$paragraphs" -lt 10 ] && [ "$lines" -lt 10 ]; then note share 0; fi
  note asked_before "$asked"   # noted last: settings that are not complete begin anew
}
# Can the same command go on? Only if everything that was done still exists.
goes_on() {
  local name
  [ "${asked_before:-}" = "$asked" ] && ! is_done all || return 1
  for name in "${makes[@]}"; do
    [ -z "$(owned "$name")" ] || exists "$name" || return 1
  done
}
set_aside() { # moves an earlier run away, if any of it was trained
  local n=1
  exists run || return 0
  ! rmdir "$work/run" 2>/dev/null || return 0
  while [ -e "$work/run.$n" ] || [ -L "$work/run.$n" ]; do n=$((n + 1)); done
  mv -T "$work/run" "$work/run.$n"
  echo "the earlier run is kept in $work/run.$n"
}
unset "${!done_@}" "${!own_@}" asked_before
. <(grep -E '^[a-z_]+=' "$work/.quickstart")
claim "${makes[@]}"
if goes_on; then
  went_on=yes
  echo "going on with what was begun in $work"
else
  set_aside
  rm -f "$work/plan.json" "$work/profile.json" "$work/profile.svg"   # shard-data itself replaces the shards
  unset "${!done_@}" asked_before
  : >"$work/.quickstart"
  own
  settle
fi
making=()
[ "$threads" = 1 ] && with_threads='' || with_threads=" with $threads threads each"

# ---- shard-data
if ! is_done data; then
  say "shard-data" "Turns the text into token shards, the files that train reads fast, and puts $(awk -v s="$share" 'BEGIN { print 100 * s }') % aside for tests: the model never learns from that part."
  claim data
  how=(--split "$split")
  [[ ! $text =~ [.](json|jsonl|ndjson)([.](gz|zst|zstd))?$ ]] || how=()   # every line is a document
  must TERM shard-data --input "$text" "${how[@]}" --output "$work/data" --validation "$share" --max-rejects 0.05 --force
  own
  held=$(inspect "$work/data" --json | jq '[.validation[].tokens] | add // 0')
  sequences=$((held > 0 ? (held - 1) / 256 : 0))
  sequences=$((sequences > 64 ? 64 : sequences))
  note sequences $((sequences / micro * micro))
  [ "$sequences" -gt 0 ] || echo "The text is too short, or is one paragraph: nothing could be put aside, so nothing will be tested."
  note done_data yes
fi

# ---- partition-model
if ! is_done plan; then
  say "partition-model" "Predicts what each rank (a process that trains together with the others) needs and sends, before anything is started: $ranks ranks$with_threads; ZeRO 3 cuts weights, gradients and optimizer into $ranks pieces."
  claim plan.json
  must TERM partition-model --model gpt2-micro --global-batch "$batch" --micro-batch "$micro" --sequence 256 --threads "$threads" --data "$work/data" --ranks "$ranks" --zero 3 --output "$work/plan.json" --force
  own
  note done_plan yes
fi

# ---- profile-comm
if ! is_done profile; then
  budget=$((seconds / 24 > 10 ? 10 : seconds / 24 < 1 ? 1 : seconds / 24))
  say "profile-comm" "Measures for $budget s how fast the ranks exchange data, in calls like those of the plan: a slow link shows here and not after a day."
  drawing=()
  [ "$ranks" = 1 ] || drawing=(--plot "$work/profile.svg")
  launch "$ranks" profile-comm --plan "$work/plan.json" --max-bytes 1MiB --factor 8 --budget "${budget}s" --output "$work/profile.json" "${drawing[@]}" --force
  claim profile.json profile.svg
  measure() { "${launched[@]}" 2>&1 | tee "$work/.quickstart-said"; }
  attended TERM measure
  own
  [ "$code" = 0 ] || grep -q 'budget of .* is too short' "$work/.quickstart-said" || refuse "$code" "profile-comm ended with exit code $code" "read what it says above"
  [ "$code" = 0 ] || echo "There is too little time to measure this many ranks. The next steps do not need the profile, so it is left out."
  rm -f "$work/.quickstart-said"
  note done_profile yes
fi

# ---- train
train_on() { # RANKS TRAIN_FLAGS...: sets $launched
  local n=$1
  shift
  launch "$n" train --data "$work/data" --learning-rate 3e-3 "$@"
}
if ! is_done trial; then
  if [ -n "$steps" ]; then
    note chosen "$steps"
  else
    say "trial" "Six steps, to see how many fit into $seconds s."
    rm -rf "${work:?}/.quickstart-trial"
    train_on "$ranks" --plan "$work/plan.json" --output "$work/.quickstart-trial" --steps 6 --progress never
    must USR1 "${launched[@]}" >/dev/null
    # The second half runs on other ranks, which may be slower. A text is read at most 40 times, or the model would
    # learn it by heart.
    note chosen "$(jq -s --argjson seconds "$seconds" --argjson bytes "$bytes" --argjson batch "$batch" --argjson groups $((batch / micro)) --argjson ranks "$ranks" \
      --argjson other "$other" --argjson threads "$threads" --argjson other_threads "$other_threads" '
        def rounds($n; $t): ($groups / $n | ceil) / $t;
        ([.[2:][].step_seconds] | sort | .[length / 2 | floor]) as $step
        | ((1 + rounds($other; $other_threads) / rounds($ranks; $threads)) / 2) as $slower
        | [600, $seconds * 0.6 / ($step * $slower), ([40, $bytes * 40 / ($batch * 256)] | max)] | min | floor | [40, . - . % 20] | max' "$work/.quickstart-trial/metrics.jsonl")"
    rm -rf "${work:?}/.quickstart-trial"
    echo "$chosen steps"
  fi
  note done_trial yes
fi
half=$((chosen > 1 ? chosen / 2 : 1))
quarter=$((chosen > 4 ? chosen / 4 : 1))
settings=(--output "$work/run" --steps "$chosen" --warmup-steps $((chosen / 20)) --save-every "$quarter")
[ "$sequences" = 0 ] || settings+=(--validate-every "$quarter" --validation-sequences "$sequences")
if ! is_done train; then
  say "train" "Learns to guess the next byte, on $ranks ranks with ZeRO 3, and stops half-way with a checkpoint. The loss falls from 5.5 (it knows nothing) towards 2, and further with more steps. Ctrl-C stops after a step and loses nothing."
  claim run
  mkdir -p "$work/run"
  own
  train_on "$ranks" --plan "$work/plan.json" "${settings[@]}" --stop-after "$half"
  attended USR1 "${launched[@]}"
  [ "$code" = 0 ] || [ "$code" = 75 ] || refuse "$code" "train ended with exit code $code" "read what it says above, then the same command again: it goes on from the newest checkpoint"
  note done_train yes
fi
[ "$other" = 1 ] && on_other="one rank" || on_other="$other ranks"
if ! is_done resume; then
  say "resume" "The same run goes on, on $on_other with ZeRO 1: another layout, the same bits. At the end it compares memory and traffic with the prediction."
  train_on "$other" --model gpt2-micro --global-batch "$batch" --micro-batch "$micro" --sequence 256 --threads "$other_threads" --zero 1 "${settings[@]}" --memory-report
  must USR1 "${launched[@]}" >"$work/.quickstart-memory"
  cat "$work/.quickstart-memory"
  note done_resume yes
fi

# ---- inspect
say "inspect" "What the run has become: how the loss fell, and the checkpoints."
must TERM inspect "$work/run"
checkpoint=$(newest)

# ---- generate
# Some neighbouring words from the middle of the text, in whole characters.
prompt=$(plain | tail -c +$((bytes / 2)) | head -c 65536 | LC_ALL=C awk 'NR > 1 && NF >= 6 { print $1, $2, $3, $4; exit }' | tr -d '[:cntrl:]' | head -c 80 | iconv -c -f UTF-8 -t UTF-8 || true)   # a reader that stops early is no failure
say "generate" "The model goes on with some words of your text. It has trained for minutes only, so expect words, not sense."
words=(generate --checkpoint "$checkpoint" --tokens 400 --temperature 0.8 --stop-at length)
[ -z "$prompt" ] || words+=("--prompt=$prompt")
printf 'prompt:  %s\nsample:\n' "${prompt:-(none)}"
for seed in 3 4 5 6; do   # a model that knows little may write only spaces
  sample=$("${words[@]}" --seed $seed)
  [ "$(tr -d '[:space:]' <<<"$sample" | wc -c)" -lt 200 ] || break
done
printf '%s\n' "$sample" | iconv -c -f UTF-8 -t UTF-8 | tr -d '\000-\010\013-\037\177' | fmt -s -w 90 | sed 's/^/  | /'

# ---- summary
say "summary"
metric() { "$1" -n 1 "$work/run/metrics.jsonl" | jq -r "$2"; }
speed=$(tail -n 20 "$work/run/metrics.jsonl" | jq -s 'map(.tokens_per_second) | add / length | floor')
printf 'took         %s after the build%s\n' "$(span $((SECONDS - begin)))" "${went_on:+, not counting what was done before}"
printf 'learnt       %d steps: loss %.3f at the first, %.3f at the last' "$chosen" "$(metric head .loss)" "$(metric tail .loss)"
[ "$sequences" = 0 ] || printf '; %.3f on text it never saw (%.2f bits a byte)' "$(metric tail .validation_loss)" "$(metric tail '.validation_loss / 0.6931471805599453')"
printf '\nspeed        %s tokens/s on %s\n' "$(sed ':a;s/\B[0-9]\{3\}\>/,&/;ta' <<<"$speed")" "$on_other"
awk '/^total in arenas/ { printf "memory       %s %s a rank predicted, %s %s measured, difference %s\n", $4, $5, $6, $7, $8 }' "$work/.quickstart-memory"
printf 'checkpoint   %s\nmetrics      %s\n' "$checkpoint" "$work/run/metrics.jsonl"
[ ! -e "$work/profile.svg" ] || printf 'links        %s\n' "$work/profile.svg"
cat <<END

Try next (first: export PATH=$programs:\$PATH):
  generate --checkpoint $(printf %q "$work/run") --prompt 'Once upon a time' --tokens 300
  inspect --verify $(printf %q "$checkpoint")
  bash slurm/quickstart.sh --text YOUR_TEXT --work build/yours
END
note done_all yes
