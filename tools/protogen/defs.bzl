"""A test that the generated Go beside a .proto file is what would be generated now."""

load("@bazel_skylib//rules:diff_test.bzl", "diff_test")

# As `make generate` runs them.
_PLUGINS = {
    "@org_golang_google_protobuf//cmd/protoc-gen-go": "paths=source_relative",
    "@com_connectrpc_connect//cmd/protoc-gen-connect-go": "paths=source_relative,package_suffix,simple",
}

def proto_gen_test(name, src, outs, deps = []):
    """Generates Go from a .proto file of this package and compares it with what is committed.

    Args:
      name: name of the test suite.
      src: the .proto file; the target NAME_proto makes it importable.
      outs: the generated files beside it.
      deps: NAME_proto targets of the .proto files that it imports.
    """
    folder = native.package_name()
    if not folder.startswith("proto/"):
        fail("proto_gen_test in %s: want a package under proto/" % folder)
    folder = folder[len("proto/"):]
    native.filegroup(
        name = name + "_proto",
        srcs = [src],
        visibility = [
            "//proto:__subpackages__",
            "//rules:__subpackages__",
        ],
    )
    native.genrule(
        name = name + "_gen",
        testonly = True,
        srcs = [src] + deps,
        outs = ["gen/%s/%s" % (folder, out) for out in outs],
        cmd = " ".join(
            ["$(execpath //tools/protogen) -I proto -o $(RULEDIR)/gen"] +
            ["-plugin $(execpath %s)=%s" % plugin for plugin in _PLUGINS.items()] +
            ["%s/%s" % (folder, src)],
        ),
        tools = ["//tools/protogen"] + _PLUGINS.keys(),
    )
    for out in outs:
        diff_test(
            name = "%s_%s" % (name, out),
            file1 = out,
            file2 = "gen/%s/%s" % (folder, out),
        )
    native.test_suite(
        name = name,
        tests = ["%s_%s" % (name, out) for out in outs],
    )
