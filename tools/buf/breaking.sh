#!/bin/sh
# Fails if the protos break readers of what was there before, on the wire or in
# JSON. Before is, in this order: $BUF_AGAINST (a commit), the last release (a
# tag v*), where this branch left origin/main, the commit before HEAD.
set -eu
cd "$(dirname "$0")/../.."

known() { git rev-parse --verify --quiet "$1^{commit}"; }

before() {
	if [ -n "${BUF_AGAINST:-}" ]; then
		known "$BUF_AGAINST" || { echo "breaking.sh: BUF_AGAINST=$BUF_AGAINST is no commit" >&2; return 2; }
		return
	fi
	release=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)
	fork=$(git merge-base HEAD origin/main 2>/dev/null || true)
	if [ -n "$release" ]; then
		known "$release"
	elif [ -n "$fork" ] && [ "$fork" != "$(known HEAD)" ]; then
		echo "$fork"
	else
		known HEAD~1 || true
	fi
}

if ! git rev-parse --git-dir >/dev/null 2>&1; then
	echo "buf breaking: no git repository, nothing to compare with"
	exit 0
fi
base=$(before)
if [ -z "$base" ] || [ -z "$(git ls-tree "$base" -- proto/buf.yaml)" ]; then
	echo "buf breaking: no earlier protos, nothing to compare with"
	exit 0
fi
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" proto | tar -x -C "$old"
tools/buf/node_modules/.bin/buf breaking proto --against "$old/proto"
echo "buf breaking: compatible with $(git rev-parse --short "$base")"
