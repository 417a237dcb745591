"""rules_go from the Go module proxy, edited for Bazel 4.2.3."""

def _run(ctx, args, **kwargs):
    result = ctx.execute(args, **kwargs)
    if result.return_code:
        fail("%s: %s%s" % (" ".join([str(a) for a in args]), result.stdout, result.stderr))
    return result.stdout

def _rules_go_impl(ctx):
    module = "github.com/bazelbuild/rules_go@" + ctx.attr.version
    download = json.decode(_run(
        ctx,
        [ctx.which("go"), "mod", "download", "-json", module],
        environment = {"GOFLAGS": "-mod=mod"},
    ))
    if download["Sum"] != ctx.attr.sum:
        fail("%s has hash %s, want %s" % (module, download["Sum"], ctx.attr.sum))
    _run(ctx, ["sh", "-c", "cp -R \"$1\"/. . && chmod -R u+w . && sh \"$2\"", "sh", download["Dir"], ctx.path(ctx.attr.edit)])

rules_go = repository_rule(
    implementation = _rules_go_impl,
    attrs = {
        "version": attr.string(mandatory = True),
        "sum": attr.string(mandatory = True, doc = "the module's hash, as go.sum would hold it"),
        "edit": attr.label(default = "//tools/bazel4:rules_go.sh"),
    },
    environ = ["PATH", "HOME", "GOPROXY", "GOMODCACHE"],
)
