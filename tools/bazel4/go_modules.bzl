"""go.mod's modules as repositories on Bazel 4.2.3, as Gazelle's go_deps gives them on modern Bazel.

Each module comes through the go command, must have the hash that go.sum holds, and gets its BUILD
files from Gazelle, itself built by the go command.
"""

_ENV = ["PATH", "HOME", "GOPROXY", "GOMODCACHE", "GOCACHE"]

# Prints a module as PATH VERSION, and one that go.mod replaces with a third word.
_LISTING = "{{if not .Main}}{{.Path}} {{.Version}}{{if .Replace}} replaced{{end}}{{end}}"

def _run(ctx, args, **kwargs):
    result = ctx.execute(args, timeout = 1800, **kwargs)
    if result.return_code:
        fail("%s: %s%s" % (" ".join([str(a) for a in args]), result.stdout, result.stderr))
    return result.stdout

# As Gazelle's label.ImportPathToBazelRepoName.
def _repo_name(path):
    host, _, rest = path.lower().partition("/")
    name = "_".join(reversed(host.split("."))) + ("_" + rest if rest else "")
    for character in ["-", ".", "/", "~"]:
        name = name.replace(character, "_")
    return name

def _go_modules_impl(ctx):
    go = ctx.which("go")
    root = ctx.path(ctx.attr.go_mod).dirname
    sums = {}
    for line in ctx.read(ctx.attr.go_sum).splitlines():
        path, version, sum = line.split(" ")
        sums[path + " " + version] = sum

    # -mod=readonly: a go.mod or go.sum that lacks something fails here.
    listing = _run(
        ctx,
        [go, "list", "-m", "-f", _LISTING, "all"],
        working_directory = str(root),
        environment = {"GOFLAGS": "-mod=readonly", "GOWORK": "off"},
    )
    config, modules = "", ""
    for line in listing.splitlines():
        if not line:
            continue
        words = line.split(" ")
        if len(words) > 2:
            fail("go.mod replaces %s: tools/bazel4/go_modules.bzl cannot" % words[0])
        path, version = words
        name = _repo_name(path)
        config += "go_repository(\n    name = %r,\n    importpath = %r,\n)\n\n" % (name, path)

        # A module that the graph names and the build does not need has no hash there.
        modules += "    %r: (%r, %r, %r),\n" % (name, path, version, sums.get(path + " " + version, ""))

    ctx.file("WORKSPACE", "")
    ctx.file("BUILD.bazel", "exports_files([\"gazelle\", \"repo_config\"])\n")
    ctx.file("repo_config", config)
    ctx.file("modules.bzl", "MODULES = {\n" + modules + "}\n")
    _run(
        ctx,
        [go, "install", "github.com/bazelbuild/bazel-gazelle/cmd/gazelle@" + ctx.attr.gazelle_version],
        environment = {"GOBIN": str(ctx.path(".")), "GOFLAGS": "-mod=mod", "GOWORK": "off"},
    )

go_modules = repository_rule(
    implementation = _go_modules_impl,
    attrs = {
        "go_mod": attr.label(mandatory = True),
        "go_sum": attr.label(mandatory = True),
        "gazelle_version": attr.string(mandatory = True),
    },
    environ = _ENV,
)

def _go_module_impl(ctx):
    module = ctx.attr.path + "@" + ctx.attr.version
    download = json.decode(_run(
        ctx,
        [ctx.which("go"), "mod", "download", "-json", module],
        environment = {"GOFLAGS": "-mod=mod"},
    ))
    if download["Sum"] != ctx.attr.sum:
        fail("%s has hash %s, go.sum says %s" % (module, download["Sum"], ctx.attr.sum or "nothing"))
    _run(ctx, ["sh", "-c", """
        cp -R "$1"/. . && chmod -R u+w .
        find . '(' -name BUILD -o -name BUILD.bazel -o -name WORKSPACE -o -name MODULE.bazel -o -name go.mod ')' -type f -delete
    """, "sh", download["Dir"]])
    ctx.file("WORKSPACE", "workspace(name = %r)\n" % ctx.name)
    _run(ctx, [
        ctx.path(ctx.attr.gazelle),
        "-mode=fix",
        "-repo_root=.",
        "-repo_config=" + str(ctx.path(ctx.attr.repo_config)),
        "-go_prefix=" + ctx.attr.path,
        "-go_repository_mode",
        "-go_repository_module_mode",
        "-go_naming_convention=import_alias",
        "-go_naming_convention_external=import_alias",
        "-external=external",
        "-proto=disable_global",
    ])
    _run(ctx, ["sh", "-c", "find . -name BUILD.bazel -exec sed -i 's/@io_bazel_rules_go/@rules_go/; s/@com_github_bazelbuild_rules_go/@rules_go/' {} +"])

_go_module = repository_rule(
    implementation = _go_module_impl,
    attrs = {
        "path": attr.string(mandatory = True),
        "version": attr.string(mandatory = True),
        "sum": attr.string(doc = "the module's hash in go.sum; empty if it has none, which fails when the module is used"),
        "gazelle": attr.label(default = "@go_modules//:gazelle"),
        "repo_config": attr.label(default = "@go_modules//:repo_config"),
    },
    environ = _ENV,
)

def go_module_repositories(modules):
    """Declares a repository for each module; one that nothing uses is never fetched.

    Args:
      modules: MODULES of @go_modules//:modules.bzl.
    """
    for name, (path, version, sum) in modules.items():
        _go_module(name = name, path = path, version = version, sum = sum)
