#!/bin/bash
# Open MPI's own monitoring counts the point-to-point bytes that each rank sends.
# Without the bytes of a run that only starts and ends, they equal what the ledger announced.
# usage: monitoring.sh MPIEXEC PROGRAM
launch=$1 program=$2
. "$(dirname "$0")/../script.sh"
set -e
if ! ompi_info 2>/dev/null | grep -q 'MCA pml: monitoring'; then
  skipped "this MPI has no monitoring component"
fi
run() { # NAME ARGUMENTS...
  name=$1
  shift
  "$launch" --oversubscribe --bind-to none -n 3 --mca pml_monitoring_enable 1 --mca pml_monitoring_enable_output 3 \
    --mca pml_monitoring_filename "$name" "$program" "$@" > "$name.announced"
}
counted() { # NAME RANK: the sum over the lines "E from to n bytes ...", messages to other ranks
  awk '$1 == "E" && $2 != $3 { for (i = 2; i <= NF; ++i) if ($i == "bytes") n += $(i - 1) } END { print n + 0 }' "$1".*"$2".prof
}
run idle idle
run busy
for rank in 0 1 2; do
  announced=$(sed -n "s/^rank $rank announced \([0-9]*\)\$/\1/p" "busy.announced")
  counted=$(($(counted busy $rank) - $(counted idle $rank)))
  [ -n "$announced" ] && [ "$announced" -gt 0 ] && [ "$announced" = "$counted" ] || fail "rank $rank: announced $announced, counted $counted"
done
passed
