# A cluster of two nodes with two cores each, for the scripts beside this one. They source it as `. "$(dirname
# "$0")/cluster.sh"` after reading their arguments. It builds on tests/script.sh: the script ends at its first failure,
# and the cluster ends with the script.
cluster=$(cd "$(dirname "$0")" && pwd)/mini-slurm
. "$(dirname "$0")/../script.sh"
set -eo pipefail
end_at_first_failure
export PATH=$PATH:/usr/sbin:/sbin
clean_up() { "$cluster" stop "$folder/cluster" >/dev/null 2>&1; }
"$cluster" start "$folder/cluster" -n 2 -c 2 >out 2>&1 || fail "the cluster did not start"
eval "$("$cluster" env "$folder/cluster")"
