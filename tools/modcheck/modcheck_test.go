package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const soundModule = `
module(name = "limits")

bazel_dep(name = "gazelle", version = "0.53.0")
bazel_dep(name = "rules_go", version = "0.59.0", repo_name = "go_rules")

go_sdk = use_extension("@go_rules//go:extensions.bzl", "go_sdk")
go_sdk.download(version = "1.26.8")

go_deps = use_extension("@gazelle//:extensions.bzl", "go_deps")
go_deps.from_file(go_mod = "//:go.mod")
use_repo(
    go_deps,
    "org_golang_x_net",
)
`

// repository writes a sound repository and then the files given over it.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	all := map[string]string{
		"MODULE.bazel":             soundModule,
		"go.mod":                   "module example.org/limits\n\ngo 1.26.0\n\nrequire golang.org/x/net v0.62.0\n\nrequire golang.org/x/sys v0.49.0 // indirect\n",
		"BUILD.bazel":              "load(\"@gazelle//:def.bzl\", \"gazelle\")\n",
		"lib/BUILD.bazel":          "go_library(name = \"lib\", deps = [\"@org_golang_x_net//http2\", \"//other\", \"@limits//x\"])\n",
		"node_modules/BUILD.bazel": "x(\"@nowhere//a\")\n",
	}
	for name, text := range files {
		all[name] = text
	}
	root := t.TempDir()
	for name, text := range all {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Each fault that would stop Bazel 8 is reported with its place, and nothing
// else is.
func TestEachFaultIsReported(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []string // a part of each report, in order
	}{
		{name: "sound"},
		{
			name:  "direct dependency without use_repo",
			files: map[string]string{"go.mod": "module m\n\ngo 1.26.0\n\nrequire (\n\tgolang.org/x/net v0.62.0\n\tgithub.com/google/go-cmp v0.7.0\n)\n"},
			want:  []string{`lacks "com_github_google_go_cmp"`},
		},
		{
			name:  "use_repo of an indirect dependency",
			files: map[string]string{"go.mod": "module m\n\ngo 1.26.0\n\nrequire golang.org/x/net v0.62.0 // indirect\n"},
			want:  []string{`has "org_golang_x_net"`},
		},
		{
			name:  "sdk older than go.mod",
			files: map[string]string{"go.mod": "module m\n\ngo 1.27.0\n\nrequire golang.org/x/net v0.62.0\n"},
			want:  []string{`version "1.26.8", go.mod asks for 1.27.0`},
		},
		{
			name:  "unknown repository in a BUILD file",
			files: map[string]string{"lib/BUILD.bazel": "go_library(\n    name = \"lib\",\n    deps = [\"@org_golang_x_text//language\"],\n)\n"},
			want:  []string{"lib/BUILD.bazel:3:13: MODULE.bazel declares no repository @org_golang_x_text"},
		},
		{
			name:  "unknown repository in a macro",
			files: map[string]string{"lib/defs.bzl": "load(\"@rules_go//go:def.bzl\", \"go_test\")\n"},
			want:  []string{"lib/defs.bzl:1:6: MODULE.bazel declares no repository @rules_go"},
		},
		{
			name:  "extension of an undeclared module",
			files: map[string]string{"MODULE.bazel": "module(name = \"limits\")\noci = use_extension(\"@rules_oci//oci:extensions.bzl\", \"oci\")\n"},
			want:  []string{"MODULE.bazel:2:20: @rules_oci//oci:extensions.bzl: no bazel_dep declares rules_oci"},
		},
		{
			name:  "bazel_dep without version",
			files: map[string]string{"MODULE.bazel": "bazel_dep(name = \"gazelle\")\n"},
			want:  []string{"missing argument for version"},
		},
		{
			name:  "failing expression",
			files: map[string]string{"MODULE.bazel": "module(name = \"limits\")\nx = 1 // 0\n"},
			want:  []string{"MODULE.bazel:2:7: floored division by zero"},
		},
		{
			name:  "no Starlark",
			files: map[string]string{"MODULE.bazel": "module(name = \n"},
			want:  []string{"MODULE.bazel:2:"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := run(repository(t, test.files), false)
			if err != nil {
				got = append(got, err.Error())
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %q, want %d faults: %q", got, len(test.want), test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("fault %d is %q, want it to contain %q", i, got[i], want)
				}
			}
		})
	}
}

// -fix makes the list what go.mod says, sorted, and touches nothing else.
func TestFixWritesTheListOfDirectDependencies(t *testing.T) {
	root := repository(t, map[string]string{
		"go.mod": "module m\n\ngo 1.26.0\n\nrequire (\n\tgolang.org/x/net v0.62.0\n\tgithub.com/google/go-cmp v0.7.0\n\tgithub.com/cespare/xxhash/v2 v2.3.0\n)\n",
	})
	faults, err := run(root, true)
	if err != nil || len(faults) > 0 {
		t.Fatalf("after -fix: %q, %v", faults, err)
	}
	got, err := os.ReadFile(filepath.Join(root, "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(soundModule, "    \"org_golang_x_net\",\n",
		"    \"com_github_cespare_xxhash_v2\",\n    \"com_github_google_go_cmp\",\n    \"org_golang_x_net\",\n", 1)
	if string(got) != want {
		t.Errorf("MODULE.bazel is now\n%s\nwant\n%s", got, want)
	}
}
