#!/bin/sh
# Writes the schema of hashicorp/aws for the types of types.txt to the file $1.
# The provider itself is not needed: its schema is read out of bindings that are
# generated from it, in an npm package. The package is pinned by its hash.
set -eu
cd "$(dirname "$0")"
out=$1

package=@cdktn/provider-aws@25.7.0 # generated from hashicorp/aws 6.66.0
sha512=13f9e1bb4c95644e265cc8083ee23cb4416dd411312e403b0118e285d1befc799f0dfccbafe384177764151bc8ea0951b77d25aeb05640bc17a82241c5c9b252

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tarball=$work/$(npm pack --silent --pack-destination "$work" "$package")
echo "$sha512  $tarball" | sha512sum --quiet --check

# vpc/index.d.ts names the provider's version.
sed -e 's/^\(ephemeral\)\.aws/\1-aws/; s/^aws_//; s/_/-/g; s|^|package/lib/|' types.txt >"$work/folders"
tar -xzf "$tarball" -C "$work" package/lib/provider package/lib/provider-functions --files-from="$work/folders"
grep -q 'providers/hashicorp/aws/6\.66\.0/' "$work/package/lib/vpc/index.d.ts"

mkdir -p "$(dirname "$out")"
# shellcheck disable=SC2046 # one word a type
node extract.js "$work/package" "$work/schema.json" $(cat types.txt)
mv "$work/schema.json" "$out"
