#!/bin/bash
# Checks the sources of one package with .clang-tidy, with the flags of the build. Sources with the same flags are
# concatenated and checked as one source, so that headers are read once. So names in anonymous namespaces must differ
# within a package.
# usage: tidy.sh ROOT BUILD PACKAGE
set -euo pipefail
command -v clang-tidy >/dev/null || { echo "clang-tidy is not installed"; exit 77; }
root=$1 build=$2 package=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# One entry for each source, because kernels are compiled for several instruction sets. The command without its
# launcher, the source and the object gives the flags.
# Sources that a build joins are taken one by one. clang does not know gcc's -Wno-subobject-linkage.
jq -r '.[] | [.file, .directory, (.command | sub("^\\S*ccache\\s+"; "") | sub(" -o \\S+"; "") | sub(" -c \\S+$"; "") | gsub(" -Wno-subobject-linkage"; "") | gsub("\""; "@quote@"))] | @tsv' "$build/compile_commands.json" |
  awk -F '\t' -v OFS='\t' -v package="$root/$package/" '
    function add(source) { if (index(source, package) == 1 && source ~ /\.cpp$/ && !seen[source]++) print source, $2, $3 }
    $1 !~ /\/Unity\/unity_/ { add($1); next }
    { while ((getline line <$1) > 0) if (match(line, /^#include "[^"]+"/)) add(substr(line, 11, RLENGTH - 11)) }' | sort >"$folder/sources"
sources=$(wc -l <"$folder/sources")
[ "$sources" -gt 0 ] || { echo "$package has no source in $build/compile_commands.json"; exit 1; }

# 1.cpp, 2.cpp, ... for each set of flags. The table records at which of their lines each source begins.
awk -F '\t' -v folder="$folder" '
  !($3 in number) {
    number[$3] = ++sets
    command = $3
    gsub(/@quote@/, "\\\"", command)
    printf "%s{\"directory\": \"%s\", \"file\": \"%s/%d.cpp\", \"command\": \"%s -c %s/%d.cpp\"}", sets == 1 ? "[" : ",\n", $2, folder, sets, command, folder, sets >(folder "/compile_commands.json")
  }
  {
    whole = folder "/" number[$3] ".cpp"
    print whole "\t" lines[whole] + 1 "\t" $1 >(folder "/table")
    while ((getline line <$1) > 0) { print line >whole; ++lines[whole] }
  }
  END { print "]" >(folder "/compile_commands.json") }' "$folder/sources"

code=0
for whole in "$folder"/*.cpp; do
  clang-tidy --quiet --config-file="$root/.clang-tidy" -p "$folder" "$whole" >>"$folder/found" 2>>"$folder/counts" || code=1
done
[ "$code" = 0 ] && { echo "$sources sources of $package"; exit 0; }
# The findings, with the names and lines of the sources.
cat "$folder/found" <(grep -v 'warnings\? generated' "$folder/counts") | awk -F '\t' '
  NR == FNR { ++parts; whole[parts] = $1; first[parts] = $2; source[parts] = $3; next }
  match($0, /^[^: ]+\.cpp:[0-9]+:/) {
    split(substr($0, 1, RLENGTH), place, ":")
    for (i = parts; i > 0; --i)
      if (whole[i] == place[1] && first[i] <= place[2] + 0) { $0 = source[i] ":" (place[2] - first[i] + 1) ":" substr($0, RLENGTH + 1); break }
  }
  { print }' "$folder/table" - | tee "$folder/said" >&2
if grep -qE 'redefinition of|is ambiguous|conflicting types|redeclared' "$folder/said"; then
  echo "  names in anonymous namespaces differ within a package: its sources are checked as one" >&2
fi
exit 1
