#!/bin/bash
# slurm/quickstart.sh on programs that are built: small texts, many cores, Ctrl-C at every stage and the way on,
# compressed texts and inputs that are no texts, folders that are not its own.
# usage: quickstart.sh SOURCE_FOLDER BUILD_FOLDER
script=$1/slurm/quickstart.sh build=$2
. "$(dirname "$0")/../script.sh"
job='' shown=out
clean_up() { [ -z "$job" ] || kill -KILL -- "-$job" 2>/dev/null; }
ulimit -f 4000000
unset SLURM_JOB_ID
quickstart() { # CODE ARGUMENTS...: all its output in `out`
  local want=$1 code=0
  shift
  timeout "${limit:-200}" bash "$script" --build-dir "$programs" "$@" >out 2>&1 || code=$?
  [ "$code" = "$want" ] || fail "exit code $code, not $want: $*"
}

words=(in the beginning there was a small house "beside" old river and many people came to see what others had done with their hands "für" "été")
for ((p = 0; p < 150; ++p)); do
  for ((w = 0; w < 25; ++w)); do printf '%s ' "${words[(p * p + w * (p % 7 + 1) + w * w) % 26]}"; done
  printf '\n\n'
done | head -c 20000 | iconv -c -f UTF-8 -t UTF-8 >text

# The same programs, but the one that the file `instead` names runs the commands in that file. So a stop hits a known
# place on a machine of any speed.
programs=$folder/programs
mkdir -p "$programs/bin"
for name in shard-data partition-model train inspect generate profile-comm awk; do
  real=$build/bin/$name
  [ -x "$real" ] || real=$(command -v "$name")
  printf '#!/bin/bash\n[ ! -e %q ] || . %q\nexec %q "$@"\n' "$folder/instead-$name" "$folder/instead-$name" "$real" >"$programs/bin/$name"
done
chmod +x "$programs"/bin/*
instead() { rm -f instead-*; [ $# = 0 ] || printf '%s\n' "$2" >"instead-$1"; } # PROGRAM COMMANDS

# interrupt SIGNAL CODE FILE ARGUMENTS...: sends the signal to the whole process group once FILE exists and has more
# than three lines; output in `out`.
interrupt() {
  local signal=$1 want=$2 file=$3 code=0
  shift 3
  rm -f reached
  env --default-signal=INT setsid bash "$script" --build-dir "$programs" "$@" >out 2>&1 </dev/null &
  job=$!
  for ((i = 0; i < 1200; ++i)); do { [ "$(wc -l <"$file")" -gt 3 ] && break; } 2>/dev/null; sleep 0.1; done
  kill "-$signal" -- "-$job"
  wait $job || code=$?
  job=''
  [ "$code" = "$want" ] || fail "$signal: exit code $code, not $want: $*: $(tail -15 out)"
  [ "$(grep -c 'quickstart: stopped' out)" = 1 ] || fail "$signal: no sentence: $(tail -5 out)"
}

# --help builds nothing and makes nothing.
(cd / && timeout 20 bash "$script" --help) >out 2>&1 </dev/null || fail "--help: exit code $?"
said '--text FILE'; said 'Ctrl-C'

# Without a text it fetches one. Here stand-ins of the package tools give a text that is larger than what is kept, so
# the reader ends before the writer.
printf '#!/bin/bash\n: >dict-gcide_1.deb\n' >"$programs/bin/apt-get"
printf '#!/bin/bash\nmkdir -p "$3/usr/share/dictd" && for ((i = 0; i < 500; ++i)); do sed "s/^/   /" %q; done | gzip -1 >"$3/usr/share/dictd/gcide.dict.dz"\n' "$folder/text" >"$programs/bin/dpkg"
chmod +x "$programs"/bin/{apt-get,dpkg}
instead shard-data 'exit 3'
quickstart 3 --work fetched --steps 40 --cores 2
[ "$(wc -c <fetched/text.txt)" = 8000000 ] && ! grep -q '^ ' fetched/text.txt || fail "the text that is fetched: $(ls -l fetched)"
ls fetched/fetched.* >/dev/null 2>&1 && fail "what was fetched is left: $(ls fetched)"
printf '#!/bin/bash\nexit 100\n' >"$programs/bin/apt-get"
quickstart 4 --work unfetched --steps 40 --cores 2
said 'could not be fetched'; said '--text FILE'
rm "$programs"/bin/{apt-get,dpkg}

# A stop before anything is trained: 130 and a message, and the same command goes on. The first stop comes while
# settings are decided.
wait_here="printf '\\n\\n\\n\\n' >$folder/reached; exec sleep 100"
instead awk "$wait_here"
interrupt INT 130 reached --text text --work t --seconds 2 --cores 2
said 'quickstart: stopped; nothing is broken'
[ ! -e t/data ] || fail "something was made before the settings"
for stage in shard-data profile-comm train; do
  instead $stage "$wait_here"
  [ $stage = train ] && signal=HUP || signal=TERM
  interrupt $signal 130 reached --text text --work t --seconds 2 --cores 2
  said 'quickstart: stopped; nothing is broken'
  [ $stage = shard-data ] || said 'going on with what was begun'
done
said '^== trial'
instead

# The trial finds how many steps fit, at least 40. Of the errors of profile-comm only too little time is tolerated.
instead profile-comm 'echo "profile-comm: --plan is not known" >&2; exit 2'
quickstart 2 --text text --work p --steps 2 --cores 2
said 'profile-comm ended with exit code 2'
instead profile-comm 'echo "profile-comm: a budget of 1 s is too short: one pass" >&2; exit 2'
echo '[[ " $* " == *" --stop-after "* ]] && exit 9' >instead-train
quickstart 9 --text text --work p --seconds 2 --cores 2
said 'too little time'; said '^[0-9]* steps$'
[ "$(sed -n 's/^\([0-9]*\) steps$/\1/p' out)" -ge 40 ] || fail "fewer than 40 steps are chosen"
instead

# In training: the step is saved, nothing else begins, exit 75.
steps=40
command=(--text text --work w --seconds 2 --steps $steps --cores 2)
interrupt INT 75 w/run/metrics.jsonl "${command[@]}"
grep -q '^== resume' out && fail "Ctrl-C in training: it went on to the next stage"
said 'quickstart: stopped; step [0-9]* is saved'
last=$(tail -1 w/run/metrics.jsonl | jq .step)
[ -d "w/run/checkpoints/step-$(printf %08d "$last")" ] && [ "$last" -lt $steps ] || fail "no checkpoint of step $last: $(ls w/run/checkpoints)"
[ -z "$(ls -d w/run/checkpoints/*.partial 2>/dev/null)" ] || fail "something unfinished is left"

# The same command goes on to the end: every step once, nothing made again, a sample of several lines, rounded figures.
before=$(stat -c %Y.%i w/data/index.json)
quickstart 0 "${command[@]}"
said 'going on with what was begun'
grep -q '^== shard-data' out && fail "it made the shards again"
[ "$(stat -c %Y.%i w/data/index.json)" = "$before" ] || fail "the shards are others"
jq -se "map(.step) == [range(1; $steps + 1)]" w/run/metrics.jsonl >/dev/null || fail "the steps are not 1 to $steps"
iconv -f UTF-8 -t UTF-8 out >/dev/null || fail "the output is not UTF-8"
[ "$(grep -c '^  | ' out)" -ge 3 ] || fail "no sample of several lines: $(grep -A9 '^sample' out)"
prompt=$(sed -n 's/^prompt:  //p' out)
[ -n "$prompt" ] && grep -qF "$prompt" text || fail "the prompt '$prompt' is not of the text"
grep -Eq '^memory +[0-9.]+ MB a rank predicted, [0-9.]+ MB measured, difference 0$' out || fail "no memory for people: $(grep ^memory out)"
grep -Eq '^learnt +40 steps: loss [0-9]\.[0-9]{3} at the first, [0-9]\.[0-9]{3} at the last; [0-9]\.[0-9]{3} on text it never saw' out || fail "no losses for people: $(grep ^learnt out)"
grep -A4 '^Try next' out | grep '^  generate' | PATH=$build/bin:$PATH bash >next 2>&1 && grep -q 'Once upon a time' next || fail "the first thing to try next fails: $(cat next)"
awk 'length($0) > 100 && /^train: step/ { print "a line of progress is long: " $0; bad = 1 } END { exit bad }' out || fail "progress does not fit"

# A thing with one of its names is not quickstart's own for that reason: a run was moved away, and another thing has its
# place. Nothing is touched before that is known.
mv w/run kept && mkdir w/run && echo thesis >w/run/thesis.txt
quickstart 2 "${command[@]}"
said 'w/run was not made by quickstart'
[ "$(cat w/run/thesis.txt)" = thesis ] && [ "$(stat -c %Y.%i w/data/index.json)" = "$before" ] && [ -e w/plan.json ] || fail "it touched what was not to be touched"
rm -r w/run && mv kept w/run
cp w/plan.json other.json && mv other.json w/plan.json
quickstart 2 "${command[@]}"
said 'w/plan.json was not made by quickstart'
rm w/plan.json

# More cores than micro-batches; a text of a single line. After a finished run the command begins anew, with other
# settings.
tr -d '\n' <text >line
quickstart 0 --text line --work w --seconds 10 --steps 2 --cores 24
said '8 ranks with 3 threads each'; said 'nothing will be tested'
[ "$(wc -l <w/run/metrics.jsonl)" = 2 ] || fail "it did not begin anew: $(wc -l <w/run/metrics.jsonl) steps"
said 'the earlier run is kept in .*w/run.1$'
[ "$(wc -l <w/run.1/metrics.jsonl)" = $steps ] || fail "the earlier run is not kept"

# Dividing a text does not take long, whatever its lines are; blank lines may contain spaces. Compressed text is known
# by its first bytes.
yes "a line of a text with no blank line, and another word" | head -c 20000000 >long
(head -c 10000000 long | tr '\n' ' '; for ((p = 0; p < 60; ++p)); do printf 'two\nlines\r\n \r\n'; done) >wide
printf 'echo "$*" >%q; exit 9\n' "$folder/asked" >instead-shard-data
for case in "long lines" "wide paragraphs"; do
  limit=30 quickstart 9 --text "${case% *}" --work c --cores 2
  grep -q -- "--split ${case#* } " asked || fail "${case% *} is not cut into ${case#* }: $(cat asked)"
done
gzip -c text >packed; zstd -q text -o text.zst; cp text plain.gz
jq -Rc 'select(length > 0) | {text: .}' text >lines.jsonl
quickstart 9 --text lines.jsonl --work c --cores 2
if grep -q -- '--split' asked; then fail "JSON lines are to be cut: $(cat asked)"; fi
for packed in packed text.zst plain.gz; do quickstart 9 --text $packed --work c --cores 2; done
instead
head -c -10 packed >cut.gz; head -c -10 text.zst >cut
for cut in cut.gz cut; do quickstart 3 --text $cut --work v; said 'cannot be read to its end'; done
quickstart 0 --text packed --work c --seconds 2 --steps 1 --cores 2
grep -qF "$(sed -n 's/^prompt:  //p' out)" text || fail "the prompt is not of the packed text: $(grep '^prompt' out)"

# Refusals, each with a message, each before anything is made or removed.
head -c 800 text >little
quickstart 3 --text little --work v
said 'holds [0-9]* bytes: too little to learn from'
quickstart 3 --text missing --work v
quickstart 2 --steps many --work v
quickstart 2 --nonsense
mkdir -p mine/run && echo thesis >mine/run/thesis.txt
quickstart 2 --text text --work mine
said 'mine/run was not made by quickstart'
[ "$(cat mine/run/thesis.txt)" = thesis ] || fail "it removed what it had not made"
[ ! -e v/data ] || fail "something was made before a refusal"

# install-deps.sh: apt-get asks no question, also under a sudo that drops the environment.
mkdir fake
printf '#!/bin/bash\necho 1000\n' >fake/id
printf '#!/bin/bash\nexec env -i PATH="$PATH" "$@"\n' >fake/sudo
printf '#!/bin/bash\necho "$1 ${DEBIAN_FRONTEND:-asks}" >>%q\n' "$folder/apt" >fake/apt-get
printf '#!/bin/bash\nexit 1\n' >fake/dpkg-query
chmod +x fake/*
PATH=$folder/fake:$PATH bash "${script%/*}/install-deps.sh" >out 2>&1 || fail "install-deps.sh: exit code $?: $(cat out)"
grep -qx 'install noninteractive' apt || fail "apt-get may ask: $(cat apt)"

passed
