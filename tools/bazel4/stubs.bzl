"""Repositories that Bazel 4.2.3 and rules_go name and would download, as small local ones."""

def _files_repo_impl(ctx):
    ctx.file("WORKSPACE", "")
    for path, content in ctx.attr.files.items():
        ctx.file(path, content, executable = False)

_files_repo = repository_rule(
    implementation = _files_repo_impl,
    attrs = {"files": attr.string_dict()},
)

_PUBLIC = "package(default_visibility = [\"//visibility:public\"])\n"

def _natives(names):
    return "".join(["%s = native.%s\n" % (n, n) for n in names])

def _constraints(setting, values):
    return _PUBLIC + "constraint_setting(name = \"%s\")\n" % setting + "".join(["constraint_value(name = \"%s\", constraint_setting = \":%s\")\n" % (v, setting) for v in values])

_CPUS = ["aarch64", "arm", "arm64_32", "arm64e", "armv6-m", "armv7", "armv7k", "i386", "ppc", "ppc64le", "riscv64", "s390x", "wasm32", "wasm64", "x86_32", "x86_64"]
_OSES = ["android", "freebsd", "ios", "linux", "none", "openbsd", "osx", "qnx", "tvos", "watchos", "wasi", "windows"]

_REPOS = {
    "gazelle": {
        "BUILD.bazel": "",
        "def.bzl": "def gazelle(name, **_kwargs):\n    native.filegroup(name = name)\n",
    },
    "io_bazel_rules_go_bazel_features": {
        "BUILD.bazel": "",
        "features.bzl": "bazel_features = struct(cc = struct(find_cpp_toolchain_has_mandatory_param = False))\n",
    },
    "platforms": {
        "cpu/BUILD.bazel": _constraints("cpu", _CPUS) + "alias(name = \"arm64\", actual = \":aarch64\")\n",
        "os/BUILD.bazel": _constraints("os", _OSES) + "alias(name = \"macos\", actual = \":osx\")\n",
        "host/BUILD.bazel": "",
        "host/constraints.bzl": "HOST_CONSTRAINTS = [\"@platforms//cpu:x86_64\", \"@platforms//os:linux\"]\n",
    },
    "remote_coverage_tools": {
        "BUILD.bazel": _PUBLIC + "filegroup(name = \"coverage_report_generator\")\n",
    },
    "rules_cc": {
        "cc/BUILD.bazel": "",
        "cc/defs.bzl": _natives(["cc_binary", "cc_import", "cc_library", "cc_proto_library", "cc_test", "cc_toolchain", "cc_toolchain_suite", "objc_library"]),
    },
    "rules_java": {
        "java/BUILD.bazel": "",
        "java/defs.bzl": _natives(["java_binary", "java_import", "java_library", "java_proto_library", "java_runtime", "java_test", "java_toolchain"]),
    },
    "rules_proto": {
        "proto/BUILD.bazel": "",
        "proto/info.bzl": "INFO = ProtoInfo\n",
        "proto/defs.bzl": "load(\":info.bzl\", \"INFO\")\nProtoInfo = INFO\n" + _natives(["proto_library", "proto_lang_toolchain"]),
    },
    "rules_shell": {
        "shell/BUILD.bazel": "",
        "shell/sh_binary.bzl": "sh_binary = native.sh_binary\n",
        "shell/sh_test.bzl": "sh_test = native.sh_test\n",
    },
}

def stub_repositories(skylib):
    """Declares them all.

    Args:
      skylib: folder of bazel_skylib.
    """
    for name, files in _REPOS.items():
        _files_repo(name = name, files = files)

    # Debian's package bazel-skylib.
    native.local_repository(name = "bazel_skylib", path = skylib)
