#!/bin/bash
# A campaign over the system calls of a small run: each call, on each file, with each error that it can give, once and
# from there on.
# Whatever fails, a program ends by itself with a code and a message that give the reason. Afterwards the run goes on
# with the same weights.
# usage: system_calls.sh BIN_FOLDER [I/N [PROGRAM]]   (each N-th case from the I-th on; $TRAINYARD_TEST_SHARE, else all; PROGRAM: one of shard train resume ...)
PATH=$(realpath "$1"):$PATH
share=${2:-${TRAINYARD_TEST_SHARE:-0/1}} only=${3:-}
. "$(dirname "$0")/../script.sh"
set -o pipefail
time_limit=30
command -v strace >/dev/null || skipped "no strace"
strace -f -o /dev/null -e trace=none true 2>/dev/null || skipped "no process may be traced here"
export TRAINYARD_DEVICE=cpu

# The command of each program, in a folder that has its inputs.
run=(--model model.toml --data data --global-batch 2 --micro-batch 1 --threads 2 --progress never --steps 4 --save-every 2)
declare -A line=(
  [shard]="shard-data --input text --split paragraphs --validation 0 --output made --threads 2"
  [train]="train ${run[*]} --output made"
  [resume]="train ${run[*]} --output half"
  [verify]="inspect --verify run/checkpoints/step-00000004"
  [inspect]="inspect run"
  [reshard]="reshard-checkpoint run/checkpoints/step-00000004 made --data-parallel 2 --threads 2"
  [generate]="generate --checkpoint run --prompt line --tokens 2 --threads 2"
  [partition]="partition-model --model model.toml --data data --global-batch 2 --output made.json"
  [export]="convert-checkpoint run made --to safetensors --threads 2"
)
programs=(shard train resume verify inspect reshard generate partition export)

# The errors that a call may give, by its manual page, on a system or file system in trouble.
declare -A errors=(
  [openat]="EIO ENOMEM EMFILE ESTALE EACCES EINTR" [read]="EIO ESTALE EINTR" [pread64]="EIO ESTALE EINTR" [readv]="EIO EINTR"
  [write]="EIO ENOSPC EDQUOT EINTR" [pwrite64]="EIO ENOSPC EDQUOT EINTR" [writev]="EIO ENOSPC" [fsync]="EIO ENOSPC EINTR" [fdatasync]="EIO ENOSPC"
  [close]="EIO EINTR" [newfstatat]="EIO ENOMEM ESTALE EACCES" [fstat]="EIO ENOMEM ESTALE" [statx]="EIO ENOMEM" [lstat]="EIO" [stat]="EIO" [access]="EIO" [statfs]="EIO ENOSYS" [fstatfs]="EIO ENOSYS"
  [rename]="EIO ENOSPC" [renameat]="EIO ENOSPC" [renameat2]="EIO ENOSPC EINVAL" [link]="EIO EPERM" [linkat]="EIO EPERM"
  [unlink]="EIO EROFS" [unlinkat]="EIO EROFS" [rmdir]="EIO EROFS" [mkdir]="EIO ENOSPC EROFS" [mkdirat]="EIO ENOSPC EROFS"
  [ftruncate]="EIO ENOSPC" [fallocate]="EIO ENOSPC EOPNOTSUPP EINTR" [getdents64]="EIO ESTALE" [lseek]="EIO" [fcntl]="ENOLCK EIO" [flock]="ENOLCK EINTR"
  [readlink]="EIO EACCES" [fchmod]="EIO EPERM" [fadvise64]="EIO" [sync_file_range]="EIO" [utimensat]="EIO" [copy_file_range]="EIO EXDEV"
  [mmap]="ENOMEM" [munmap]="ENOMEM" [mprotect]="ENOMEM" [brk]="ENOMEM" [mremap]="ENOMEM" [madvise]="ENOMEM EINVAL" [clone3]="EAGAIN ENOMEM"
  [sched_getaffinity]="EINVAL EPERM" [sched_setaffinity]="EINVAL" [prlimit64]="EPERM" [getrandom]="ENOSYS EINTR" [sysinfo]="EFAULT" [uname]="EFAULT" [getrusage]="EFAULT"
  [socket]="EMFILE EACCES" [bind]="EADDRINUSE EACCES" [setsockopt]="EPERM" [getsockname]="ENOBUFS" [sendto]="ENOBUFS EPERM" [recvfrom]="ENOBUFS EINTR" [poll]="ENOMEM EINTR" [ppoll]="ENOMEM EINTR"
  [pipe2]="EMFILE" [eventfd2]="EMFILE" [memfd_create]="EMFILE ENOSYS" [rt_sigaction]="EINVAL" [rt_sigprocmask]="EINVAL" [ioctl]="ENOTTY EIO" [clock_nanosleep]="EINTR" [getcwd]="ENOENT"
  [get_mempolicy]="ENOSYS" [sched_yield]="ENOSYS" [tgkill]="EPERM" [sigaltstack]="EPERM" [getpeername]="ENOBUFS" [dup]="EMFILE" [pipe]="EMFILE" [chdir]="EIO" [fchdir]="EIO"
)
words_of() {  # the C library's message for an error
  case $1 in
    EIO) echo 'Input/output error' ;; ENOMEM) echo 'memory\|thread\|Resource temporarily unavailable' ;; EMFILE) echo 'Too many open files' ;; ESTALE) echo 'Stale file handle' ;;
    EACCES) echo 'Permission denied' ;; EINTR) echo 'Interrupted system call' ;; ENOSPC) echo 'No space left on device' ;; EDQUOT) echo 'Disk quota exceeded' ;;
    EROFS) echo 'Read-only file system' ;; EPERM) echo 'Operation not permitted' ;; EAGAIN) echo 'thread\|Resource temporarily unavailable' ;; ENOLCK) echo 'No locks available\|lock' ;; *) echo . ;;
  esac
}

small_text 200 >text
tiny_model >model.toml
expect 0 shard-data --input text --split paragraphs --validation 0 --output data
expect 0 train "${run[@]}" --output run
expect 75 train "${run[@]}" --output half --stop-after 2
mkdir inputs
mv text model.toml data run half inputs

# cases PROGRAM: lines of "call error when path"; path is "-" for calls without a file. A first run without errors shows
# which calls exist.
cases() {
  cp -r inputs "trace-$1" && cd "trace-$1" || return
  strace -f -qq -y -s 4096 -o ../calls ${line[$1]} >/dev/null 2>&1 || echo "FAIL: $1 without errors"
  cd ..
  awk -v here="$PWD/trace-$1" '
    { call = $2; sub(/\(.*/, "", call) }
    call !~ /^[a-z_0-9]+$/ || /resumed>/ || /^[0-9]+ (\+\+\+|---)/ { next }
    {
      text = substr($0, index($0, "("))
      path = "-"
      if (call ~ /^(open|newfstat|stat|lstat|access|rename|link|unlink|rmdir|mkdir|readlink|chdir|utimens)/ && match(text, /"[^"]*"/) && RLENGTH > 2) path = substr(text, RSTART + 1, RLENGTH - 2)
      else if (match(text, /^\([0-9]+<[^>]*>/)) { path = substr(text, RSTART, RLENGTH); sub(/^[^<]*</, "", path); sub(/>$/, "", path) }
      if (path ~ /\.so/) { loaded[$1] = 1; for (key in number) if (index(key, $1 " ") == 1) first[key] = number[key]; next }
      if (path ~ /^(\/etc|\/usr|\/lib|\/proc\/self\/(exe|maps)|\/home|\/root)/) next
      if (path ~ /^(pipe|socket|anon_inode|\/dev\/(null|pts))/) path = "-"
      gsub(here, "@", path)
      if (path ~ / /) next
      key = $1 " " call " " path
      ++number[key]
    }
    END { for (key in number) { split(key, part, " "); at = part[2] " " part[3]; n = number[key]; f = part[3] == "-" ? first[key] : 0; if (n > most[at]) { most[at] = n; from[at] = f } }
      for (at in most) print at, from[at] + 0, most[at] }' calls | sort >counts
  rm -rf "trace-$1"
  local call path from most error at
  while read -r call path from most; do
    for error in ${errors[$call]:-}; do
      for at in $((from + 1)) "$((from + 1))+" $(((from + most + 1) / 2)) "$(((from + most + 1) / 2))+" "$most"; do echo "$call $error $at $path"; done | sort -u
    done
  done <counts
}

# one NUMBER PROGRAM CALL ERROR WHEN PATH: prints what is wrong with the program's reaction.
one() {
  local number=$1 program=$2 call=$3 error=$4 when=$5 path=$6 code=0 wrong="" filter=()
  local place=$folder/case-$number
  cp -r "$folder/inputs" "$place" && cd "$place" || return
  [ "$path" = - ] || filter=(-P "${path/@/$place}")
  # A break (brk) that cannot move stays where it is: the call itself has no error.
  local injected=error=$error
  [ "$call" != brk ] || injected=retval=0
  timeout -s KILL $time_limit strace -f -qqq -o /dev/null -e "trace=$call" -e "inject=$call:$injected:when=$when" "${filter[@]}" ${line[$program]} >out 2>err || code=$?
  case $code in
    0) ;;
    4|6) [ "$call $path" = "write -" ] || grep -q "$(words_of "$error")" err || wrong="does not say the error" ;;   # a program that cannot write cannot report
    # The system's loader failed, before the program began.
    127) grep -q 'error while loading shared libraries\|Fatal glibc error\|^cannot allocate TLS data\|^out of memory$' err || wrong="exit 127" ;;
    2|3) [ "$error" = EACCES ] || { [ "$error" = ESTALE ] && grep -q 'was removed or renamed' err; } || wrong="exit $code blames the call or the content" ;;
    75) ;;
    137) wrong="hangs, or was killed" ;;
    *) wrong="exit $code" ;;
  esac
  # A run whose report is written is complete.
  [ "$code $call $path" = "4 write -" ] || [ "$code" != 4 ] || [ ! -e made/report.txt ] || wrong="ends with 4 though all is done"
  # What was there is whole, and the same command goes on to the same end.
  if [ -z "$wrong" ] && { [ "$program" = train ] || [ "$program" = resume ]; }; then
    local output=made again=0
    [ "$program" = train ] || output=half
    timeout $time_limit ${line[$program]} >again.out 2>&1 || again=$?
    [ "$again" = 0 ] || wrong="then does not go on: $again: $(head -c 300 again.out)"
    [ -n "$wrong" ] || cmp -s "$output/checkpoints/step-00000004/rank-00000.h5" run/checkpoints/step-00000004/rank-00000.h5 || wrong="then has other weights"
  fi
  [ -z "$wrong" ] || printf '%s: %s %s %s %s: %s: %s\n' "$program" "$call" "$error" "$when" "$path" "$wrong" "$(tr '\n' ' ' <err | head -c 400 | cat -v)"
  cd "$folder" && rm -rf "$place"
}

for program in ${only:-"${programs[@]}"}; do cases "$program" | sed "s/^/$program /"; done | awk -v first="${share%/*}" -v step="${share#*/}" 'NR % step == first' >all
split_cases() { awk -v part="$1" -v parts="$2" 'NR % parts == part { print NR, $0 }' all; }
jobs=$(nproc)
for job in $(seq 0 $((jobs - 1))); do
  (trap - EXIT; split_cases "$job" "$jobs" | while read -r number program rest; do one "$number" "$program" $rest </dev/null; done >"wrong-$job") &
done
wait
cat wrong-* | sort >wrong
total=$(wc -l <all)
[ "$total" -gt 20 ] || fail "only $total cases"
shown=/dev/null
while read -r text; do fail "$text"; done <wrong
passed "$total cases"
