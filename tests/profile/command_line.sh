#!/bin/bash
# profile-comm from the command line: what goes to stdout, stderr and files, every backend, comparisons, and every refusal.
# usage: command_line.sh BIN_FOLDER EMULATED_GPU_MODULE STAND_IN_NCCL
PATH=$(realpath "$1"):$PATH
emulated=$2 nccl=$3
. "$(dirname "$0")/../script.sh"
ulimit -f 4000000
export TRAINYARD_GPU_MODULE=none
mpi() { timeout 100 mpirun --bind-to none -n "$@"; }
quick=(--max-bytes 64KiB --factor 16 --budget 10min --spread 0 --confidence 90%)   # 20 passes, however long they take

# Two ranks of MPI: a table on stdout, only progress on stderr, a profile that jq can read, a drawing.
mpi 2 profile-comm "${quick[@]}" --operations all_reduce,all_gather --output p.json --plot p.svg >table 2>err || fail "exit code $?: $(cat err)"
grep -Eq '^ +32 KiB +8192 +f32 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[01] +[0-9]+% +0$' table || fail "no line of 32 KiB: $(cat table)"
grep -q '^# fit: from 0 B' table || fail "no fit"
if grep -q wrong: err; then fail "$(cat err)"; fi
jq -e '.format == "trainyard.profile/1" and .backend == "mpi" and .ranks == 2 and (.nodes | length) == 1 and (.communication | length) == 2 and .local == [] and
       (.communication | all(.group == "world" and .groups == 1 and (.sizes | length) == 4 and (.fit.segments | length) >= 1 and .noise_floor >= 0)) and
       ([.communication[].sizes[]] | all(.wrong == 0 and .time_us > 0 and .p99_us >= .p95_us and (.repeats_us | length) >= 6 and .calls >= 18)) and
       (.communication[1].sizes[0] | (.bytes / 1e3 / .time_us - .algbw_gb_s | fabs) < 1e-4 * .algbw_gb_s and (.busbw_gb_s / .algbw_gb_s - 0.5 | fabs) < 1e-4)' p.json >/dev/null || fail "p.json: $(head -c 2000 p.json)"
[ "$(grep -c '<circle' p.svg)" = 8 ] || fail "p.svg"
if command -v xmllint >/dev/null; then xmllint --noout p.svg || fail "p.svg is no XML"; fi
[ -z "$(ls | grep partial)" ] || fail "left behind: $(ls)"

# A rank that only prints the help ends the others, too, and all ranks print it once.
for ranks in "1 profile-comm --help : -n 1 profile-comm ${quick[*]}" "1 profile-comm ${quick[*]} : -n 1 profile-comm --help"; do
  code=0
  # shellcheck disable=SC2086
  timeout 60 mpirun -q --bind-to none -n $ranks >out 2>err || code=$?
  [ "$code" = 2 ] || fail "exit code $code of $ranks"
  [ "$(grep -c '^profile-comm: some ranks were asked for --help, and others measure$' err)" = 1 ] || fail "$ranks: $(cat err)"
  [ ! -s out ] || fail "$ranks prints: $(head -c 200 out)"
done
mpi 2 profile-comm --help >out 2>err || fail "exit code $?: $(cat err)"
profile-comm --help | cmp -s out - || fail "--help of two ranks is another text"

# The same profile again, in other forms.
profile-comm --from p.json >again && cmp -s table again || fail "--from prints another table"
[ "$(profile-comm --from p.json --bytes | grep -Ec '^ +32768 +8192 +f32')" = 1 ] || fail "--bytes does not show them"
profile-comm --from p.json --json | profile-comm --from - --json | cmp -s p.json - || fail "--json is not the file"
profile-comm --from p.json --output - | cmp -s p.json - || fail "--output - is not the file"
[ "$(profile-comm --from p.json --csv | awk -F, 'NF != 19 { print NR }' | wc -l)" = 0 ] || fail "--csv has ragged lines"
[ "$(profile-comm --from p.json --csv | wc -l)" = 9 ] || fail "--csv"
LC_ALL=C COLUMNS=70 profile-comm --from p.json --chart | awk 'length($0) > 70 && /\|/ { bad = 1 } /busbw in GB/ { n++ } END { exit bad || n != 2 }' || fail "--chart"
LC_ALL=C.UTF-8 profile-comm --from p.json --chart | grep -q '●' || fail "--chart in UTF-8"
inspect p.json | grep -q 'all_gather f32 on world' || fail "inspect"
inspect p.json --json | jq -e '.kind == "profile"' >/dev/null || fail "inspect --json"

# Comparisons: equal exits 0; slower exits 5 and names the place; a threshold above it exits 0; incomparable profiles exit 3.
profile-comm --compare p.json p.json >out || fail "a profile against itself: exit code $?"
grep -q '^0 of 8 figures are slower' out || fail "$(cat out)"
jq '.communication[].sizes[] |= (.repeats_us = [.time_us * 0.99, .time_us, .time_us * 1.01])' p.json >calm.json
jq '(.communication[1].sizes[2] | .time_us, .repeats_us[], .time_us_95[], .p95_us, .p99_us) *= 3' calm.json >slow.json
code=0
profile-comm --compare calm.json slow.json --max-regress 5% >out 2>err || code=$?
[ $code = 5 ] && grep -q '^slower   world all_gather f32 2048 B .* +200.0 %' out && grep -q '^1 of 8' out || fail "exit code $code: $(cat out err)"
profile-comm --compare slow.json calm.json >out || fail "faster is no regression"
profile-comm --compare calm.json slow.json --max-regress 0.5 >out && fail "3 times is more than 50 %"
jq '(.communication[1].sizes[2] | .time_us, .time_us_95[]) *= 3' calm.json >inside.json    # repeats do not bear it out
profile-comm --compare calm.json inside.json >out || fail "inside the interval is no regression: $(cat out)"
jq '.ranks = 3' p.json >other.json
refused 3 'the number of ranks was 2 and is 3' profile-comm --compare p.json other.json
refused 3 'nothing in common' profile-comm --compare p.json <(jq '.communication[].group = "x"' p.json)
refused 3 'none.json' profile-comm --compare p.json none.json
head -c 500 p.json >cut.json
refused 3 'cut.json' profile-comm --from cut.json
refused 3 'format is .trainyard.profile/2' profile-comm --from <(sed 's,profile/1,profile/2,' p.json)
printf '{"format":"trainyard.plan/1"}' >plan.json
refused 3 'format is .trainyard.plan/1., expected trainyard.profile/1' profile-comm --from plan.json
refused 2 'p.json exists' mpirun -n 2 profile-comm "${quick[@]}" --output p.json
refused 2 'p.svg exists' profile-comm --from p.json --plot p.svg

# Groups, dtypes, three ranks, threads; ranks that wait outside of groups.
mpi 3 profile-comm "${quick[@]}" --groups 'pair:0,2;all:all' --operations ordered_reduce_scatter,exchange,all_reduce --dtype float32,bfloat16 --json >three.json 2>err || fail "exit code $?: $(cat err)"
jq -e '[.communication[] | [.group, .ranks, .operation, .type]] == [["pair",2,"ordered_reduce_scatter","f32"],["pair",2,"exchange","f32"],["pair",2,"all_reduce","f32"],["pair",2,"all_reduce","bf16"],
       ["all",3,"ordered_reduce_scatter","f32"],["all",3,"exchange","f32"],["all",3,"all_reduce","f32"],["all",3,"all_reduce","bf16"]] and ([.communication[].sizes[].wrong] | add) == 0' three.json >/dev/null || fail "three.json"
grep -q 'ordered_reduce_scatter adds f32 only: not measured in bf16' err || fail "no note: $(cat err)"
timeout 60 profile-comm --backend threads --ranks 3 "${quick[@]}" --json >threads.json || fail "threads: exit code $?"
jq -e '.backend == "threads" and .ranks == 3 and (.communication | length) == 7' threads.json >/dev/null || fail "threads.json"

# A plan gives the groups, the operations and the number of ranks.
partition-model --model gpt2-nano --ranks 2 --zero 3 --output plan2.json >/dev/null
mpi 2 profile-comm "${quick[@]}" --plan plan2.json --json >planned.json 2>err || fail "--plan: $(cat err)"
jq -e '[.communication[] | [.group, .operation]] == [["data","all_gather"],["data","ordered_reduce_scatter"]]' planned.json >/dev/null || fail "planned.json: $(jq -c '[.communication[] | [.group, .operation]]' planned.json)"
# The other direction: the plan asks the profile how long its collectives take.
mpi 2 profile-comm "${quick[@]}" --plan plan2.json --output links.json >/dev/null 2>err || fail "--plan --output: $(cat err)"
partition-model --model gpt2-nano --ranks 2 --zero 3 --profile links.json >out || fail "partition-model --profile: exit code $?"
grep -Eq '^  data ordered_reduce_scatter +[0-9]+ +[0-9.]+ (us|ms|s)' out && grep -Eq '^  all +[0-9.]+ (us|ms|s)' out || fail "partition-model --profile: $(tail -5 out)"
code=0
partition-model --model gpt2-nano --ranks 2 --zero 3 --profile links.json --output - >out 2>err || code=$?
[ "$code" = 2 ] && grep -q "does not belong in a plan" err || fail "partition-model --profile --output -: exit code $code, $(cat err)"
partition-model --model gpt2-nano --ranks 2 --zero 3 --profile links.json --json >out 2>err && jq -e '.collectives | .seconds > 0 and ((.calls | map(.seconds) | add) - .seconds | fabs) < 1e-9 and ([.calls[].operation] | index("all_gather")) != null' out >/dev/null || fail "partition-model --profile --json: $(cat out err)"
code=0
partition-model --model gpt2-nano --ranks 4 --zero 3 --profile links.json >out 2>err || code=$?
[ $code = 3 ] && grep -q 'no ordered_reduce_scatter f32 over a data group of 4 ranks' err || fail "a profile of other ranks: exit code $code, $(cat err)"
# Replicas of tensor-parallel ranks: each group is measured over its own links.
partition-model --model gpt2-nano --ranks 4 --tensor-parallel 2 --output plan4.json >/dev/null
mpi 4 profile-comm --plan plan4.json --dry-run >out 2>err && grep -q 'data  *2 groups of 2 ranks' out && grep -q 'tensor  *2 groups of 2 ranks' out || fail "--dry-run of tensor ranks: $(cat out err)"
[ "$(sed -n 's/^\(data\|tensor\) .* ranks *\([a-z_]*\) .*/\1 \2/p' out | sort | xargs)" = "data all_gather data ordered_reduce_scatter tensor all_gather tensor all_reduce tensor all_to_all" ] || fail "each group has its own operations: $(cat out)"
mpi 2 profile-comm --blocks 'micro-batch=1 tensor-parallel=2' --model gpt2-nano --threads 1 --dry-run >out 2>err && grep -q 'block.layers.step  *b1 s64 t2 e1 f32' out && grep -q 'block.layers.step  *b1 s64 t2 e1 calls f32' out || fail "--dry-run of blocks with their calls: $(cat out err)"
# The other direction, also for collectives that sequence parallelism adds.
for rows in '' --sequence-parallel; do
  # shellcheck disable=SC2086
  partition-model --model gpt2-nano --ranks 2 --tensor-parallel 2 --micro-batch 2 $rows --output shared.json --force >/dev/null
  mpi 2 profile-comm "${quick[@]}" --plan shared.json --output shared-links.json --force >/dev/null 2>err || fail "--plan of tensor ranks $rows: $(cat err)"
  # shellcheck disable=SC2086
  partition-model --model gpt2-nano --ranks 2 --tensor-parallel 2 --micro-batch 2 $rows --profile shared-links.json >out 2>err || fail "--profile of tensor ranks $rows: $(cat err)"
  for operation in all_to_all all_gather "$([ -n "$rows" ] && echo reduce_scatter || echo all_reduce)"; do
    grep -Eq "^  tensor $operation +[0-9]+ +[0-9.]+ (us|ms|s)" out || fail "--profile of tensor ranks $rows: no $operation in $(cat out)"
  done
done
refused 3 'plan2.json is for 2 ranks, 3 were started' mpirun --bind-to none -n 3 profile-comm "${quick[@]}" --plan plan2.json
refused 3 'plan2.json is for 2 ranks, 1 were started' profile-comm "${quick[@]}" --plan plan2.json; said '--local'
mpi 2 profile-comm --plan plan2.json --dry-run --local >out 2>err && grep -q 'data .* all_gather .* 24 sizes from 8 to' out && grep -q 'gemm.attention.qkv.forward' out || fail "--dry-run: $(cat out err)"

# A rank's own ceilings are measured for its part of the layers.
mpi 2 profile-comm --plan shared.json --dry-run --local --operations all_gather >out 2>err && grep -q 'gemm.attention.qkv.forward .*x48x32 ' out && grep -q 'gemm.ffn.out.forward .*x32x64 ' out && grep -q 'attention.forward .* h2 kv2 ' out || fail "--local of tensor ranks: $(cat out err)"

# One process reports that it has no links, and measures itself.
mkdir disk1 && profile-comm --model gpt2-nano --sequence 16 --budget 1min --confidence 50% --disk-bytes 600KiB --storage .,disk1 --threads 1 --json >alone.json 2>err || fail "alone: exit code $?"
grep -q 'one process without ranks has no links' err || fail "it does not say that it is alone: $(cat err)"
jq -e '.ranks == 1 and .communication == [] and ([.local[].name] | contains(["memory.copy", "arithmetic.f32", "gemm.ffn.in.forward", "attention.backward", "adamw", "disk.write", "disk.read"])) and (.local | all(.value > 0))' alone.json >/dev/null ||
  fail "alone.json: $(head -c 1000 alone.json)"
jq -e '[.local[] | select(.name | startswith("storage.")) | .name[8:] + " " + .shape] == ["write .", "read .", "update .", "write disk1", "read disk1", "update disk1", "write ., disk1", "read ., disk1", "update ., disk1"]' alone.json >/dev/null ||
  fail "--storage: $(jq -c '[.local[] | [.name, .shape]]' alone.json)"
[ -z "$(ls -A disk1)" ] || fail "--storage left $(ls -A disk1)"
profile-comm --from alone.json | grep -q '^ *storage[.]update  *[.], disk1 .* [GM]B/s' || fail "no rate of --storage in the table: $(profile-comm --from alone.json)"
# What an offload costs at these rates: one folder, whose bytes are read and written back; both; with shares by speed.
disk=(--model gpt2-nano --ranks 1 --zero 1 --sequence 16 --offload optimizer=disk)
partition-model "${disk[@]}" --profile alone.json --offload-dir ./ --json >out 2>err || fail "partition-model --offload-dir: $(cat err)"
jq -e --slurpfile p alone.json 'def equal(x; y): (x / y - 1) | fabs < 1e-9;
  ($p[0].local[] | select(.name == "storage.update" and .shape == ".").value) as $rate | .predicted.rank_disk.space as $space |
  .disk_work | .folders[0].space == $space and .hides_from_tokens >= 16 and equal(.disk_seconds; 2 * $space / $rate) and
  equal(.folders[0].written_a_day; $space * 86400 / ([.disk_seconds, .compute_seconds] | max))' out >/dev/null || fail "disk_work: $(jq -c .disk_work out)"
partition-model "${disk[@]}" --profile alone.json >out 2>err && grep -q '^  in disk1  *[0-9.]* [kM]B  (.* read, .* written, .* both)$' out && grep -q '^  hides from .* tokens a step ' out || fail "partition-model --profile with folders: $(tail out)"
shares=$(sed -n 's/^  shares by speed: --offload-dir //p' out)
case $shares in .:1,disk1:* | .:*,disk1:1) ;; *) fail "shares by speed: $shares" ;; esac
partition-model "${disk[@]}" --profile alone.json --offload-dir "$shares" >/dev/null 2>err || fail "--offload-dir $shares: $(cat err)"
refused 3 'no rates of the folder elsewhere, only of [.], disk1' partition-model "${disk[@]}" --profile alone.json --offload-dir elsewhere
refused 2 'this plan has nothing on disk' partition-model --model gpt2-nano --offload-dir .
jq '.local |= map(select(.name | startswith("storage.") | not))' alone.json >older.json   # as profiles were before --storage
partition-model "${disk[@]}" --profile older.json >out 2>err && grep -q 'has no rates of folders' err && grep -q '^  written in 1,000 steps' out && ! grep -q ' a day' out || fail "a profile without rates of folders: $(cat err; tail -4 out)"
profile-comm --compare older.json alone.json >out || fail "a profile without --storage is not compared: $(cat out)"
profile-comm --compare alone.json alone.json >out || fail "local ceilings against themselves"
jq '.local[] |= (.repeats = [.value * 0.99, .value, .value * 1.01])' alone.json >calm.json
jq '(.local[] | select(.name == "adamw") | .value, .repeats[]) /= 2' calm.json >half.json
code=0
profile-comm --compare calm.json half.json >out || code=$?
[ $code = 5 ] && grep -q '^slower   adamw .* +100.0 %' out || fail "half the rate: exit code $code, $(cat out)"
mpi 2 profile-comm "${quick[@]}" --operations broadcast --local --model gpt2-nano --sequence 16 --disk-bytes 0 --json 2>err | jq -e '(.communication | length) == 1 and (.local | length) > 15 and ([.local[].name] | index("disk.write")) == null' >/dev/null || fail "--local with ranks: $(cat err)"

# A GPU and NCCL, as far as possible without them: the emulator and the stand-in.
export TRAINYARD_GPU_MODULE=$emulated TRAINYARD_NCCL_LIBRARY=$nccl TRAINYARD_EMULATED_GPUS=2
mpi 2 profile-comm --backend nccl --max-bytes 4KiB --factor 32 --budget 10min --spread 0 --confidence 90% --json >nccl.json 2>err || fail "nccl: exit code $?, $(cat err)"
jq -e '.backend == "nccl" and (.library | startswith("NCCL")) and (.communication | length) == 7 and ([.communication[].sizes[].wrong] | add) == 0' nccl.json >/dev/null || fail "nccl.json"
TRAINYARD_EMULATED_GPUS=3 mpi 3 profile-comm --backend nccl --groups 'pair:0,2;all:all' --operations all_reduce,all_to_all --max-bytes 4KiB --factor 512 --budget 10min --spread 0 --confidence 90% --json >parts.json 2>err ||
  fail "nccl in groups: exit code $?, $(cat err)"
jq -e '[.communication[].ranks] == [2, 2, 3, 3] and ([.communication[].sizes[].wrong] | add) == 0' parts.json >/dev/null || fail "parts.json"
mpi 2 profile-comm --backend mpi --device cuda --max-bytes 4KiB --factor 32 --budget 10min --spread 0 --confidence 90% --json >staged.json 2>err || fail "staged: exit code $?, $(cat err)"
jq -e '.backend == "mpi" and .device != "cpu" and ([.communication[].sizes[].wrong] | add) == 0' staged.json >/dev/null || fail "staged.json"
export TRAINYARD_GPU_MODULE=none TRAINYARD_NCCL_LIBRARY=none
refused 4 'CUDA\|NCCL' mpirun --bind-to none -n 2 profile-comm --backend nccl

# Refusals, each reported once.
refused 2 "'all_reduced' is not known" profile-comm --operations all_reduced
refused 2 'names all_reduce twice' profile-comm --operations all_reduce,all_reduce
refused 2 "unequal sizes" mpirun --bind-to none -n 3 profile-comm --groups a:stride2
refused 2 "no rank 5 in a world of 2" mpirun --bind-to none -n 2 profile-comm --groups a:0-5
refused 2 "max-bytes 8 is below" profile-comm --min-bytes 1k --max-bytes 8
refused 2 "'huge' is not a size" profile-comm --max-bytes huge
refused 2 "dtype 'f64' is not measured" profile-comm --dtype f64
refused 2 "'ten' is not understood" profile-comm --budget ten
refused 2 "confidence '0' is not understood" profile-comm --confidence 0
refused 2 "not below 100" profile-comm --confidence 300%
refused 2 'budget of 0.001 s is too short' profile-comm --backend threads --budget 0.001s
refused 2 'does not fit gpt2-nano: .* 3 tensor-parallel' profile-comm --backend threads --ranks 2 --model gpt2-nano --vocabulary 257 --blocks tensor-parallel=3 --dry-run
refused 2 "budget of 1 s is too short: a rank.s own ceilings with gpt2 take about" timeout 20 profile-comm --local --budget 1s   # at once
[ "$(sed -n 's/.*--budget \([0-9]*\)s.*/\1/p' err)" -gt 1 ] || fail "what is to try is not more than what was given: $(cat err)"
small=(--min-bytes 1k --max-bytes 4k --operations all_gather --disk-bytes 0 --model gpt2-nano --confidence 90% --spread 0)
for how in "--local" "--backend threads --local"; do   # what is to try is enough
  # shellcheck disable=SC2086
  refused 2 'budget of 0.001 s is too short' profile-comm $how "${small[@]}" --budget 0.001s
  # shellcheck disable=SC2086
  timeout 100 profile-comm $how "${small[@]}" --budget "$(sed -n 's/.*--budget \([0-9]*s\).*/\1/p' err)" >out 2>again || fail "$how: what was to try is refused: $(cat err again)"
done
refused 2 'needs ranks, and this is one process' profile-comm --backend mpi
refused 2 'ranks is for --backend threads' profile-comm --ranks 3
refused 2 'both given' profile-comm --plan a --groups b:all
refused 2 'both given' profile-comm --json --csv
refused 2 'adds f32 only' profile-comm --operations ordered_reduce_scatter --dtype bf16
refused 2 'other options than rank 0' mpirun --bind-to none -n 1 profile-comm --max-bytes 1k : -n 1 profile-comm --max-bytes 2k
refused 3 'missing.json' mpirun --bind-to none -n 2 profile-comm --plan missing.json
refused 4 'cannot' profile-comm --model gpt2-nano --sequence 16 --budget 1s --disk /proc/none --disk-bytes 1k
refused 4 'cannot make a file in nowhere' profile-comm --model gpt2-nano --sequence 16 --budget 1h --storage nowhere --disk-bytes 1k   # at once
(ulimit -f 2000; refused 4 'cannot reserve 4.19 MB in [.]: File too large' profile-comm --model gpt2-nano --sequence 16 --budget 1h --storage . --disk-bytes 4MiB) || exit 1
refused 2 'measures nothing' profile-comm --local --storage . --disk-bytes 0
refused 2 'names . twice' profile-comm --local --storage .,.
refused 2 'measures links only' profile-comm --backend threads --storage .
refused 4 'nowhere/p.json cannot be written' profile-comm --backend threads --budget 1h --output nowhere/p.json
code=$({ (ulimit -f 1; profile-comm --from p.json --output full.json 2>err; echo $? >&2) | cat >out; } 2>&1)
[ "$code" = 4 ] && cmp -s out table && [ ! -e full.json ] || fail "no room for the file: exit code $code, $(wc -l <out) lines, $(cat err)"
refused 2 'no links to draw' profile-comm --from alone.json --plot q.svg
refused 2 'no links to draw' profile-comm --local --budget 1h --plot q.svg     # before an hour is spent
if [ -w /dev/full ]; then
  code=0
  profile-comm --from p.json >/dev/full 2>err || code=$?
  [ $code = 4 ] && grep -q 'No space left' err || fail "a full disk: exit code $code, $(cat err)"
fi
{ profile-comm --from p.json; echo $? >code; } | head -1 >/dev/null
[ "$(cat code)" = 0 ] || fail "a reader that goes away: exit code $(cat code)"

# A rank that stops: the other ranks end with 6 and name it. A signal leaves no files behind.
timeout 120 mpirun --bind-to none -n 3 profile-comm --budget 1h --spread 0 --hang-timeout 10 --progress always --output never.json >out 2>err &
job=$!
for ((i = 0; i < 600; ++i)); do grep -q 'pass 1' err && break; sleep 0.1; done   # nobody misses one that stops inside MPI_Init or between passes
kill -STOP "$(pgrep -P "$(pgrep -P $job mpirun || echo $job)" profile-comm | tail -1)" 2>/dev/null || fail "no rank to stop"
code=0
wait $job || code=$?
[ $code = 6 ] || fail "a stopped rank: exit code $code, $(cat err)"
grep -q 'rank' err || fail "a stopped rank is not named: $(cat err)"
pkill -KILL -f "output never.json" 2>/dev/null
[ ! -e never.json ] && [ -z "$(ls | grep partial)" ] || fail "left behind: $(ls)"
passed
