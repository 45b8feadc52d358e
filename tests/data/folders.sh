#!/bin/bash
# shard-data with folders: which files are read, in which order and under which names; tasks, lists and dry runs over folders; refusals. Also JSON lines under another
# name.
# usage: folders.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
export LC_ALL=C
ulimit -f 100000

# sources SET: the inputs whose documents are in the first shard of SET.
sources() { h5dump -y -w 0 -d /sources "$1/train/shard-00000.h5" | sed -n '/DATA {/,/}/p' | grep -o '[0-9]\+' | while read -r n; do printf "\\$(printf %o "$n")"; done | cut -f 2; }
text() { for i in 1 2 3 4; do printf '%s %d\n\n' "$1" $i; done; }

# Files are sorted by path as sort(1) does ("a-b/" before "a/"). Hidden names are left out, and links to files are followed.
mkdir -p books/a books/a-b books/.cache books/empty books/deep/er elsewhere/more
text one >books/a/1.txt
text ten >books/a/10.txt
text dash >books/a-b/x.txt
text upper >books/Z.txt
text deep >books/deep/er/y.txt
text note >books/note.md
text packed | gzip >books/p.txt    # known by its first bytes
text hidden >books/.hidden.txt
text hidden >books/.cache/x.txt
text linked >elsewhere/linked.txt
text aside >elsewhere/more/aside.txt
ln -s ../elsewhere/linked.txt books/link.txt
(cd books && find . -type f,l ! -path '*/.*' | sed 's|^./|books/|' | sort) >names
[ "$(wc -l <names)" = 8 ] || fail "files to compare with: $(cat names)"
expect 0 shard-data --input books --split paragraphs --output all --validation 0
said '^shard-data: books: 8 files to read$'
unsaid warning
sources all | diff names - || fail "other files or another order"
expect 0 shard-data --input $(cat names) --split paragraphs --output named --validation 0
same all named "a folder and its files by name"
mkdir again && for name in $(tac names); do mkdir -p "again/$(dirname "$name")"; cp "$name" "again/$name"; done
(cd again && shard-data --input books/ --split paragraphs --output all --validation 0) >out 2>err || fail "books/: $(cat err)"
same all again/all "a folder made in another order, with a slash behind its name"

# Patterns for file names alone, several patterns, and lists that name folders and files.
expect 0 shard-data --input books --include '*.txt' --split paragraphs --output txt --validation 0
said '^shard-data: books: 7 files to read, 1 file of another name left out$'
sources txt | diff <(grep 'txt$' names) - || fail "other files of a pattern"
expect 0 shard-data --input books --include '[0-9]*.txt' --include '*.md' --split paragraphs --output two --validation 0
printf 'books/a/1.txt\nbooks/a/10.txt\nbooks/note.md\n' | diff - <(sources two) || fail "other files of two patterns"
expect 0 shard-data --input books --include '.h*' --split paragraphs --output hidden --validation 0
[ "$(sources hidden)" = books/.hidden.txt ] || fail "a pattern of hidden names: $(sources hidden)"
expect 0 shard-data --input books --include '*.md' --include '*.markdown' --output unused --validation 0
said 'warning: --include "\*.markdown" fits the name of no file'
printf 'elsewhere/linked.txt\nbooks/a\n' >list
expect 0 shard-data --input @list --input elsewhere/more --include '1*' --include 'aside*' --split paragraphs --output listed --validation 0
printf 'elsewhere/linked.txt\nbooks/a/1.txt\nbooks/a/10.txt\nelsewhere/more/aside.txt\n' | diff - <(sources listed) || fail "other files of a list"
expect 0 shard-data --input books --split paragraphs --output dry --dry-run --json
jq -e '.documents == 32' out >/dev/null || fail "a dry run: $(cat out)"
absent dry

# Tasks divide the files of a folder. Files that they write inside the folder are not inputs, and neither are other files that the command reads.
cp -r books shared && cd shared || exit 1
flags=(--input . --split paragraphs --shard-tokens 100 --max-rejects 0.5)
printf 'bad \377\n' >z.txt
echo ./z.txt >list
shard-data "${flags[@]}" --input @list --output set --rejects rejects.tsv >../out 2>../err || fail "a set in its input: $(cat ../err)"
mv set ../set-1 && mv rejects.tsv ../rejects-1
for i in 2 0 1; do shard-data "${flags[@]}" --input @list --output set --rejects rejects.tsv --task $i/3 >../out 2>../err || fail "task $i in its input: $(cat ../err)"; done
shard-data "${flags[@]}" --input @list --output set --rejects rejects.tsv --force >../out 2>../err || fail "a set that replaces one in its input: $(cat ../err)"
same ../set-1 set "a set in its input, of tasks and made again"
same ../rejects-1 rejects.tsv "refusals"
cd ..
expect 0 shard-data --input books --split paragraphs --output whole --shard-tokens 100
for i in 1 0; do expect 0 shard-data --input books --split paragraphs --output parts --shard-tokens 100 --task $i/2; done
same whole parts "a folder of two tasks"
expect 0 shard-data --input books --output late --task 0/2
text late >books/late.txt
refused 2 'the inputs are not the ones' shard-data --input books --output late --task 1/2
rm books/late.txt

# Links to folders and circular links are not followed, and a warning says so. A folder that is itself named by a link is read.
mkdir links && ln -s ../elsewhere links/folder && ln -s . links/self && ln -s circle links/circle && text in >links/in.txt
expect 0 shard-data --input links --output linked --validation 0 --split paragraphs
said "warning: symbolic links to folders and in circles are not followed: links/circle and 2 more"
said 'links: 1 file to read'
ln -s books shelf
expect 0 shard-data --input shelf --include 1.txt --output shelf-set --validation 0
[ "$(sources shelf-set)" = shelf/a/1.txt ] || fail "a link to a folder: $(sources shelf-set)"
ln -s nowhere links/broken.txt
refused 3 'links/broken.txt is a symbolic link to nothing' shard-data --input links --output bad
expect 0 shard-data --input links --include 'in*' --output unbroken --validation 0
mkfifo links/pipe
expect 0 shard-data --input links --include 'in*' --include pipe --output pipes --validation 0

# Nothing to read, and flags without an effect, are refused.
refused 3 'books/empty holds no file to read' shard-data --input books/empty --output bad
refused 3 'books has no file whose name fits --include "\*.text"' shard-data --input books --include '*.text' --output bad
said '8 files of other names, Z.txt among them'
refused 2 '--include chooses among the files of folders, and no --input is a folder' shard-data --input books/Z.txt --include '*.txt' --output bad
refused 2 '--include "a/\*" has a slash' shard-data --input books --include 'a/*' --output bad
refused 2 "'books/Z.txt' was not expected" shard-data --input books --include 'books/note.md' 'books/Z.txt' --output bad
if [ "$(id -u)" != 0 ]; then
  mkdir books/locked && chmod 000 books/locked
  refused 3 'cannot list books/locked' shard-data --input books --output bad
  rmdir books/locked
fi
for root in / ///. "$(realpath --relative-to=. /)"; do refused 3 'is the root of the file system' shard-data --input "$root" --output bad; done
cp all/train/shard-00000.h5 books/deep/data.bin
refused 3 'books/deep/data.bin is an HDF5 file' shard-data --input books --output bad
said '--include chooses the files of a folder by their names'
rm books/deep/data.bin
absent bad bad.partial

# Tables in folders get the same warning as a table by itself.
mkdir tables
printf 'id,text\n1,some words\n' | tee tables/a.csv >tables/B.TSV
text note >tables/n.txt
expect 0 shard-data --input tables --output tables-set --validation 0
said 'warning: tables/B.TSV and 1 more: separators and names of columns become text'
expect 0 shard-data --input tables/a.csv --output table --validation 0
said 'warning: tables/a.csv: separators'
expect 0 shard-data --input tables --include '*.txt' --output no-tables --validation 0
unsaid warning

# JSON lines under a name of plain text: refused; with --json-key they are read; with --split there is a warning.
mkdir json && for i in 1 2 3 4; do echo "{\"id\": $i, \"text\": \"document $i\"}"; done | tee lines.jsonl >json/lines.txt
refused 3 'json/lines.txt has a JSON object on every line, and its name is that of plain text' shard-data --input json --output bad
said 'try: --json-key text reads the texts alone'
said '--split whole'
gzip -c json/lines.txt >packed
refused 3 'packed has a JSON object on every line' shard-data --input packed --output bad
expect 0 shard-data --input lines.jsonl --output lines --validation 0
for input in json packed; do
  expect 0 shard-data --input $input --json-key text --output "lines-$input" --validation 0
  same_tokens lines "lines-$input" "JSON lines of another name, $input"
done
for i in 0 1; do expect 0 shard-data --input json --json-key text --output lines-parts --validation 0 --task $i/2; done
same lines-json lines-parts "JSON lines of another name, of two tasks"
refused 2 '--split is for plain text' shard-data --input json --json-key text --split lines --output bad
expect 0 shard-data --input json --split lines --output braces --validation 0
said 'warning: json/lines.txt: every line is a JSON object, whose braces and keys become text (--json-key text reads the texts alone)'
[ "$(jq .train[0].tokens braces/index.json)" -gt "$(jq .train[0].tokens lines/index.json)" ] || fail "JSON lines as text"
sed 's/"text"/"body"/' lines.jsonl >body.txt
refused 3 'body.txt has a JSON object on every line' shard-data --input body.txt --output bad
said 'try: --json-key body reads'
text note >note.txt
refused 2 '--json-key is for JSON lines, and note.txt is plain text' shard-data --input note.txt --json-key text --output bad
absent bad bad.partial bad.parts
passed
