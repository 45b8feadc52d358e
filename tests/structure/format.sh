#!/bin/bash
# Every source has the layout of .clang-format, which also keeps lines to 120 columns. To mend: clang-format -i FILE.
# usage: format.sh ROOT
set -euo pipefail
cd "$1"
version=$(clang-format --version | grep -oE '[0-9]+' | head -1)
if [ "$version" != 14 ]; then   # another version sets other spaces
  echo "skipped: the sources are laid out by clang-format 14, here is $version"
  exit 77
fi
readarray -d '' sources < <(find bench kernels libtrain tests tools \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' \) -print0 | sort -z)
[ ${#sources[@]} -gt 500 ] || { echo "only ${#sources[@]} sources were found"; exit 1; }
clang-format --dry-run -Werror "${sources[@]}"
# What clang-format does not break: texts and names.
awk 'length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns"; bad = 1 } END { exit bad }' "${sources[@]}"
