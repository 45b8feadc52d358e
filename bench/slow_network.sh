#!/bin/bash
# Runs mpirun over network namespaces, which are nodes of one machine whose links are as slow as asked. Needs root.
# usage: bash bench/slow_network.sh RATE NODES RANKS-PER-NODE COMMAND...    RATE as tc has it, such as 40mbit: each way
set -euo pipefail
rate=$1 nodes=$2 ranks=$3
shift 3
folder=$(mktemp -d) bridge=ty$$ pids=()
leave() {
  for pid in "${pids[@]}"; do kill "$pid"; done
  ip link del "$bridge"
  rm -r "$folder"
}
trap leave EXIT
ip link add "$bridge" type bridge
ip addr add 10.77.0.1/24 dev "$bridge"
ip link set "$bridge" up
hosts=
for k in $(seq "$nodes"); do
  unshare --net --uts sh -c "hostname node$k; exec sleep infinity" &
  pid=$!
  pids+=("$pid")
  until [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
  ip link add "$bridge-$k" type veth peer name eth0 netns "$pid"
  ip link set "$bridge-$k" master "$bridge" up
  limit="root tbf rate $rate burst 16kb latency 500ms"
  tc qdisc add dev "$bridge-$k" $limit
  nsenter -n -t "$pid" sh -c "ip link set lo up; ip addr add 10.77.0.$((k + 10))/24 dev eth0; ip link set eth0 up
    tc qdisc add dev eth0 $limit"
  echo "$pid" >"$folder/10.77.0.$((k + 10))"
  hosts+=${hosts:+,}10.77.0.$((k + 10)):$ranks
done
# What mpirun starts a node with, in place of ssh.
cat >"$folder/agent" <<AGENT
#!/bin/bash
host=\$1
shift
exec nsenter -n -u -t "\$(cat "$folder/\$host")" bash -c "\$*"
AGENT
chmod +x "$folder/agent"
mpirun --mca plm_rsh_agent "$folder/agent" --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
  --bind-to none --host "$hosts" -n $((nodes * ranks)) "$@"
