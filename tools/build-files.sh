#!/bin/sh
# Gives a BUILD.bazel to each folder with Go files that has none, so that
# Gazelle does not make it visible to all. A package of a program is visible to
# that program; a library to nobody, until its author says in its BUILD file who
# may import it.
set -eu
cd "$(dirname "$0")/.."

git ls-files --cached --others --exclude-standard -- '*.go' | xargs -n 1 dirname | sort -u | while read -r folder; do
	case /$folder/ in */testdata/*) continue ;; esac
	if [ ! -d "$folder" ] || [ -e "$folder/BUILD.bazel" ] || { [ "$folder" != . ] && [ -e "$folder/go.mod" ]; }; then
		continue # deleted and not yet committed, has one, or is a module of its own
	fi
	case $folder in
	*/internal/*) visible=//${folder%%/internal/*}:__subpackages__ ;;
	libs/* | tools/* | */cmd/*) visible=//visibility:private ;;
	*) visible=//${folder%%/*}:__subpackages__ ;;
	esac
	echo "new: $folder/BUILD.bazel, $visible"
	printf 'package(default_visibility = ["%s"])\n' "$visible" >"$folder/BUILD.bazel"
done
