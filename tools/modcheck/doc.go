// Command modcheck finds what would stop Bazel 8 from loading this repository,
// on a machine that has no Bazel 8: it evaluates MODULE.bazel and compares it
// with go.mod and with every BUILD file. It opens no network connection.
//
//	modcheck [-fix] [root]
//
// It reports, one a line:
//   - a MODULE.bazel that does not evaluate, or that uses an extension of a
//     module that no bazel_dep names;
//   - a direct dependency of go.mod that use_repo(go_deps, ...) lacks, and a name
//     there that is none;
//   - a Go SDK older than go.mod asks for;
//   - a label in a BUILD.bazel or .bzl file whose repository nothing declares.
//
// With -fix it writes the list of use_repo(go_deps, ...) first. It exits with 1
// if it reports anything.
//
// It does not resolve modules: that the versions exist, and that their own
// files load, only Bazel 8 can tell.
package main
