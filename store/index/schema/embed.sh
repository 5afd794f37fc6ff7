#!/bin/sh
# Makes a C header of SQL files: one string each, named after the file. embed.sh OUT FILE...
set -eu
out=$1
shift
for f; do
	name=$(basename "$f" .sql)
	printf 'static const char shfs_schema_%s[] =\n' "$name"
	sed -e 's/\\/\\\\/g; s/"/\\"/g; s/^/\t"/; s/$/\\n"/' "$f"
	printf '\t;\n'
done >"$out"
