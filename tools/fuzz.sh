#!/bin/sh
# Runs every fuzz test of the repository, one after the other, each for
# $FUZZTIME (60s by default, in go test's notation). The first crash ends it;
# its input lies in the package's testdata/fuzz, as a test from then on.
set -eu
cd "$(dirname "$0")/.."

found=0
for file in $(git ls-files --cached --others --exclude-standard -- '*_test.go'); do
	# shellcheck disable=SC2013 # a name is a word
	for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		found=$((found + 1))
		echo "== $name in $(dirname "$file")"
		go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 10x "./$(dirname "$file")"
	done
done
echo "fuzz: $found fuzz tests ran"
[ "$found" -gt 0 ]
