#!/bin/bash
# The one list of Debian packages that Trainyard needs; installs the missing ones. Works as root, or as a user with
# sudo. Packages named as arguments are installed, too. Where there is no apt-get, it prints the list and ends with 4.
set -euo pipefail

build=(g++ cmake ninja-build pkg-config libopenmpi-dev openmpi-bin libhdf5-dev libcli11-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libsimdjson-dev
       libtomlplusplus-dev libsentencepiece-dev libpcre2-dev libsodium-dev libzstd-dev zlib1g-dev liburing-dev
       zstd)
tests=(libgtest-dev strace libbenchmark-dev libdnnl-dev hdf5-tools sentencepiece jq git)

case ${1:-} in -*) echo "usage: bash slurm/install-deps.sh [PACKAGE ...]" >&2; exit 2 ;; esac
missing=()
for package in "${build[@]}" "${tests[@]}" "$@"; do
  dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install-deps: everything is installed" >&2
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  {
    echo "install-deps: no apt-get here; install what these Debian packages hold, under your system's names"
    echo "  programs: ${build[*]}"
    echo "  tests and benchmarks: ${tests[*]}"
    [ $# = 0 ] || echo "  also: $*"
    echo "  try: tools/guide/install-on-a-cluster.md has the names of RHEL-like systems"
  } >&2
  exit 4
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install-deps: missing ${missing[*]}; there is neither root nor sudo here: ask an administrator for these Debian packages" >&2
    exit 4
  fi
  root=(sudo)   # which drops the environment: what apt-get must see follows it
fi
echo "install-deps: installing ${missing[*]}" >&2
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
