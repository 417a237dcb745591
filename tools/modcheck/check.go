package main

import (
	"fmt"
	"go/version"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/syntax"
	"golang.org/x/mod/modfile"
)

// goMod is what go.mod says.
type goMod struct {
	version string   // of Go, as in 1.26.0
	direct  []string // Bazel's names of the direct dependencies, sorted
}

func readGoMod(root string) (*goMod, error) {
	path := filepath.Join(root, "go.mod")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(path, text, nil)
	if err != nil {
		return nil, err
	}
	if file.Go == nil {
		return nil, fmt.Errorf("%s: no go version", path)
	}
	m := &goMod{version: file.Go.Version}
	for _, require := range file.Require {
		if !require.Indirect {
			m.direct = append(m.direct, repositoryName(require.Mod.Path))
		}
	}
	slices.Sort(m.direct)
	return m, nil
}

// repositoryName is Gazelle's name for the repository of a Go module:
// golang.org/x/net is org_golang_x_net.
func repositoryName(path string) string {
	host, rest, _ := strings.Cut(strings.ToLower(path), "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	if rest != "" {
		parts = append(parts, rest)
	}
	return strings.NewReplacer("-", "_", ".", "_", "/", "_", "~", "_").Replace(strings.Join(parts, "_"))
}

// compare reports where MODULE.bazel and go.mod differ.
func compare(m *module, want *goMod) []string {
	var faults []string
	for _, name := range want.direct {
		if !slices.Contains(m.goDeps, name) {
			faults = append(faults, fmt.Sprintf("MODULE.bazel: use_repo(go_deps) lacks %q, a direct dependency of go.mod", name))
		}
	}
	for _, name := range m.goDeps {
		if !slices.Contains(want.direct, name) {
			faults = append(faults, fmt.Sprintf("MODULE.bazel: use_repo(go_deps) has %q, no direct dependency of go.mod", name))
		}
	}
	if m.sdk == "" || version.Compare("go"+m.sdk, "go"+want.version) < 0 {
		faults = append(faults, fmt.Sprintf("MODULE.bazel: go_sdk.download has version %q, go.mod asks for %s", m.sdk, want.version))
	}
	return faults
}

// unknownRepositories reports the labels of root's BUILD.bazel and .bzl files
// whose repository is not in known. It skips tools/bazel4, which is for
// WORKSPACE, and folders that are not of the repository.
func unknownRepositories(root string, known map[string]bool) ([]string, error) {
	var faults []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			skip := name == "bazel4" || name == "node_modules" || name == "bin" || path != root && strings.HasPrefix(name, ".")
			if skip || strings.HasPrefix(name, "bazel-") {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || name != "BUILD.bazel" && filepath.Ext(name) != ".bzl" {
			return nil
		}
		found, err := repositoriesOf(path)
		for repository, at := range found {
			if !known[repository] {
				faults = append(faults, fmt.Sprintf("%s: MODULE.bazel declares no repository @%s", at, repository))
			}
		}
		return err
	})
	slices.Sort(faults)
	return faults, err
}

// repositoriesOf returns the repositories that the labels of a Starlark file
// name, each with the first place that does.
func repositoriesOf(path string) (map[string]syntax.Position, error) {
	file, err := (&syntax.FileOptions{}).Parse(path, nil, 0)
	if err != nil {
		return nil, err
	}
	found := map[string]syntax.Position{}
	syntax.Walk(file, func(node syntax.Node) bool {
		literal, ok := node.(*syntax.Literal)
		if !ok {
			return true
		}
		text, _ := literal.Value.(string)
		repository, _, ok := strings.Cut(text, "//")
		if !ok || !strings.HasPrefix(text, "@") {
			return true
		}
		repository = strings.TrimLeft(repository, "@")
		if _, seen := found[repository]; repository != "" && !seen {
			found[repository] = literal.TokenPos
		}
		return true
	})
	return found, nil
}
