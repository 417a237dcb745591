#!/bin/sh
# Makes rules_go v0.57.0, in the working directory, load on Bazel 4.2.3. An edit
# that changes nothing fails: the version is then another than this was written for.
# shellcheck disable=SC2046 # the names of its files have no spaces
set -eu

# edit SCRIPT FILE... runs sed on each file and wants each of them changed.
edit() {
	script=$1
	shift
	[ $# -gt 0 ] || { echo "rules_go.sh: no file for $script" >&2; exit 1; }
	for file; do
		cp "$file" "$file.before"
		sed -i -E "$script" "$file"
		if cmp -s "$file" "$file.before"; then
			echo "rules_go.sh: $script changes nothing in $file" >&2
			exit 1
		fi
		rm "$file.before"
	done
}

# Gazelle and modern Bazel call the repository rules_go.
edit 's#@io_bazel_rules_go//#@rules_go//#g' $(grep -rlF '@io_bazel_rules_go//' go proto BUILD.bazel)
edit 's/"io_bazel_rules_go"/"rules_go"/' WORKSPACE

# Names that Bazel 4.2.3 lacks.
edit 's/"patch", "read_user_netrc", "use_netrc"\)/"patch")/; s/use_netrc\(read_user_netrc\(ctx\), urls, \{\}\)/{}/' go/private/sdk.bzl
edit 's/goarch = ctx\.os\.arch$/goarch = ctx.execute(["uname", "-m"]).stdout.strip()/' go/private/sdk.bzl
edit '/providers\.append\(RunEnvironmentInfo\(/d' go/private/rules/binary.bzl
edit 's/RunEnvironmentInfo\(env, ctx\.attr\.env_inherit\)/testing.TestEnvironment(env)/; s/ctx\.label\.repo_name/ctx.label.workspace_name/' go/private/rules/test.bzl
edit 's#configuration_field\(fragment = "coverage", name = "output_generator"\)#"@bazel_tools//tools/test:coverage_report_generator"#' go/private/rules/test.bzl
edit 's/config_common\.toolchain_type\(("[^"]*"), mandatory = False\)/\1/; s/:optional_current_cc_toolchain/:current_cc_toolchain/; s/find_cpp_toolchain\(ctx, mandatory = False\)/find_cpp_toolchain(ctx)/' go/private/context.bzl
edit '/^ *toolchain = (GO_TOOLCHAIN_LABEL|None),$/d' $(grep -rlE '^ *toolchain = (GO_TOOLCHAIN_LABEL|None),$' go proto)

# Runfiles there have no merge_all.
edit 's/runfiles = source\.runfiles\.merge_all\(files\)/runfiles = _merge_runfiles(source.runfiles, files)/' go/private/actions/archive.bzl
edit 's/return go\._ctx\.runfiles\(transitive_files = files\)\.merge_all\(/return _merge_runfiles(go._ctx.runfiles(transitive_files = files),/' go/private/context.bzl
for file in go/private/actions/archive.bzl go/private/context.bzl; do
	printf '\ndef _merge_runfiles(runfiles, others):\n    for other in others:\n        runfiles = runfiles.merge(other)\n    return runfiles\n' >>"$file"
done

# It makes a second configuration even of a transition that changes nothing, and
# builds everything twice: drop the transitions.
edit 's/cfg = [a-z_]+_transition,?//' $(grep -rlE 'cfg = [a-z_]+_transition' go proto)
edit '/"_allowlist_function_transition": attr\.label\(/,/\),$/d' $(grep -rlF '"_allowlist_function_transition": attr.label(' go proto | grep -v cross.bzl)
edit 's/(ctx\.attr\.[a-z_]+)\[0\]/\1/' $(grep -rlE 'ctx\.attr\.[a-z_]+\[0\]' go proto)
