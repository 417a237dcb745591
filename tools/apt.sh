#!/bin/sh
# Installs Debian packages that are missing, as in
#
#	tools/apt.sh gcc=gcc /usr/share/bazel/tools/skylib=bazel-skylib
#
# Each argument is a command, or the path of a file or folder, that shows that a
# package is there, and the package. It does nothing where nothing is missing.
set -eu

missing=
for pair; do
	proof=${pair%%=*}
	case $proof in
	/*) [ -e "$proof" ] || missing="$missing ${pair#*=}" ;;
	*) command -v "$proof" >/dev/null || missing="$missing ${pair#*=}" ;;
	esac
done
[ -n "$missing" ] || exit 0

root=
[ "$(id -u)" = 0 ] || root=sudo
if ! command -v apt-get >/dev/null || { [ -n "$root" ] && ! command -v sudo >/dev/null; }; then
	echo "apt.sh: please install$missing (no apt-get, or neither root nor sudo)" >&2
	exit 2
fi
echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
$root apt-get -qq update
# shellcheck disable=SC2086 # one word a package
$root apt-get -qq install --no-install-recommends -y $missing >/dev/null </dev/null
