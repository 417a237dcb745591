#!/bin/sh
# Gives a BUILD.bazel to each folder with Go files that has none: visible to
# nobody, until its author says in its first line who may import it. Gazelle
# alone would make it visible to all.
set -eu
cd "$(dirname "$0")/.."

git ls-files --cached --others --exclude-standard -- '*.go' | xargs -n 1 dirname | sort -u | while read -r folder; do
	case /$folder/ in */testdata/*) continue ;; esac
	[ -d "$folder" ] && [ ! -e "$folder/BUILD.bazel" ] || continue
	echo "new: $folder/BUILD.bazel, visible to nobody"
	printf 'package(default_visibility = ["//visibility:private"])\n' >"$folder/BUILD.bazel"
done
