#!/bin/bash
# Everything that the build asks for is used. A target links every library that is looked for, every option of ours is
# read, and a source reads every macro that a target defines.
# usage: dependencies.sh SOURCE_FOLDER
set -euo pipefail
cd "$1"
lists=$(git ls-files -- '*CMakeLists.txt' 'libtrain/cmake/*.cmake' 2>/dev/null || true)
[ -n "$lists" ] || lists=$(find . -path ./build -prune -o \( -name CMakeLists.txt -o -path './libtrain/cmake/*.cmake' \) -print)
failed=0
complain() { echo "$1" >&2; failed=1; }

# pkg-config gives PkgConfig::NAME, find_package gives NAME:: in some list. The same rule holds for threads, packages'
# own modules and compilers' OpenMP.
for name in $(sed -n 's/^ *pkg_check_modules(\([A-Z0-9_]*\) .*/\1/p' libtrain/cmake/TrainyardDependencies.cmake); do
  grep -q "PkgConfig::$name\b" $lists || complain "libtrain/cmake/TrainyardDependencies.cmake asks for $name, which no target links"
done
for name in $(sed -n 's/^ *find_package(\([A-Za-z0-9_]*\).*/\1/p' libtrain/cmake/TrainyardDependencies.cmake); do
  case $name in PkgConfig) continue ;; esac
  grep -qi "\b$name::" $lists || complain "libtrain/cmake/TrainyardDependencies.cmake asks for $name, which no target links"
done
for option in $(sed -n 's/^ *option(\(TRAINYARD_[A-Z_]*\).*/\1/p' $lists); do
  [ "$(grep -ho "\b$option\b" $lists | wc -l)" -gt 1 ] || complain "option $option is never read"
done
while IFS=: read -r list line; do
  macro=$(sed -n 's/.*\b\(TRAINYARD_[A-Z_]*\)\b.*/\1/p' <<<"$line")
  [ -z "$macro" ] || grep -rq "\b$macro\b" --include='*.h' --include='*.cpp' --include='*.cu' libtrain kernels tools tests bench || complain "$list gives targets $macro, which no source looks at"
done < <(grep -h -H 'target_compile_definitions' $lists)
exit $failed
