#!/bin/sh
# Runs Debian's Bazel 4.2.3 on this repository, as in
#
#	tools/bazel4/bazel.sh test //...
#
# It downloads nothing but Go modules, through the go command. What it keeps
# lies in $SHIPLANE_CACHE, by default ~/.cache/shiplane-limits.
set -eu
cd "$(dirname "$0")/../.."

cache=${SHIPLANE_CACHE:-${XDG_CACHE_HOME:-${HOME:-${TMPDIR:-/tmp}}/.cache}/shiplane-limits}
mkdir -p "$cache"
if [ ! -x /usr/bin/bazel-4 ] || [ ! -d /usr/share/bazel/tools/skylib ]; then
	echo "bazel.sh: want Debian's packages bazel-bootstrap and bazel-skylib (make bazel installs them)" >&2
	exit 2
fi
command=$1
shift
case $command in
build | test | run | coverage) set -- "--disk_cache=$cache/bazel4-disk" "$@" ;;
esac
# /usr/bin/bazel is a wrapper that obeys .bazelversion, which is not for this one.
exec /usr/bin/bazel-4 --output_user_root="$cache/bazel4" --nohome_rc --noworkspace_rc \
	--bazelrc=tools/bazel4/bazelrc "$command" "$@"
