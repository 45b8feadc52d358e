#!/bin/bash
# Installs into an empty folder, with the example files, and builds a program outside the library against it. Nightly.
# usage: install.sh CMAKE BUILD_FOLDER SOURCE_FOLDER
cmake=$1 build=$2 source=$3
. "$(dirname "$0")/../script.sh"
set -e
"$cmake" --install "$build" --prefix "$folder/installed" >"$folder/log" || { tail "$folder/log"; exit 1; }
cp -r "$source/tests/tools/outside" "$folder/outside"
"$cmake" -S "$folder/outside" -B "$folder/build" -DCMAKE_PREFIX_PATH="$folder/installed" -DCMAKE_BUILD_TYPE=Release >"$folder/log" 2>&1 || { tail -20 "$folder/log"; exit 1; }
"$cmake" --build "$folder/build" >"$folder/log" 2>&1 || { tail -40 "$folder/log"; exit 1; }
# The package names the installed tree and Debian's libraries, never the build folder.
if grep -rlF -e "$source/" -e "$build/" "$folder/installed/lib" --include='*.cmake'; then echo "the package names the build tree"; exit 1; fi
"$folder/build/outside_plan"
"$folder/build/outside" "$source/datasets/golden/set-1" "$folder/run"
for program in shard-data partition-model train inspect generate score profile-comm reshard-checkpoint convert-checkpoint; do "$folder/installed/bin/$program" --version >/dev/null; done
for program in shard-data partition-model train inspect generate score profile-comm reshard-checkpoint convert-checkpoint; do
  [ -s "$folder/installed/share/man/man1/$program.1" ] && [ -s "$folder/installed/share/bash-completion/completions/$program" ] || { echo "$program has no manual page or completion"; exit 1; }
done
same "$source/tools/train/examples" installed/share/trainyard/examples "the example files"
for script in pipeline.sh README.md shard.sbatch plan.sbatch profile.sbatch train.sbatch reshard.sbatch validate.sbatch; do same "$source/slurm/$script" "installed/share/trainyard/slurm/$script" "the job scripts"; done
# The pages of a user are installed, and their links lead to installed pages.
[ -s installed/share/trainyard/tools/guide/README.md ] || fail "the guide is not installed"
find installed/share/trainyard/tools/guide installed/share/trainyard/slurm installed/share/trainyard/libtrain -name '*.md' | while read -r page; do
  grep -oE '\]\([^)#: ]+' "$page" | cut -c3- | grep '[./]' | sort -u | while read -r link; do
    [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
  done
done >broken
[ ! -s broken ] || fail "links of installed pages lead nowhere: $(cat broken)"
passed
