package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// module is what MODULE.bazel declares.
type module struct {
	repositories map[string]bool // that a label may name
	goDeps       []string        // those that use_repo takes from the extension go_deps
	sdk          string          // version that go_sdk.download asks for; "" if it does not
}

// readModule evaluates root's MODULE.bazel. The error names the line.
func readModule(root string) (*module, error) {
	text, err := os.ReadFile(filepath.Join(root, "MODULE.bazel"))
	if err != nil {
		return nil, err
	}
	m := &module{repositories: map[string]bool{"bazel_tools": true}}
	functions := starlark.StringDict{
		"module":        starlark.NewBuiltin("module", m.declare),
		"bazel_dep":     starlark.NewBuiltin("bazel_dep", m.bazelDep),
		"use_extension": starlark.NewBuiltin("use_extension", m.useExtension),
		"use_repo":      starlark.NewBuiltin("use_repo", m.useRepo),
	}
	_, err = starlark.ExecFileOptions(&syntax.FileOptions{}, &starlark.Thread{Name: "MODULE.bazel"}, "MODULE.bazel", text, functions)
	var failed *starlark.EvalError
	if errors.As(err, &failed) {
		outermost := failed.CallStack.At(len(failed.CallStack) - 1)
		return nil, fmt.Errorf("%s: %w", outermost.Pos, failed)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (m *module) declare(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name, version, repo string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name, "version?", &version, "repo_name?", &repo); err != nil {
		return nil, err
	}
	m.repositories[name] = true
	if repo != "" {
		m.repositories[repo] = true
	}
	return starlark.None, nil
}

func (m *module) bazelDep(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var name, version, repo string
	var dev bool
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name, "version", &version, "repo_name?", &repo, "dev_dependency?", &dev); err != nil {
		return nil, err
	}
	if name == "" || version == "" {
		return nil, fmt.Errorf("name is %q and version %q: want both", name, version)
	}
	if repo == "" {
		repo = name
	}
	if m.repositories[repo] {
		return nil, fmt.Errorf("repository %s is declared twice", repo)
	}
	m.repositories[repo] = true
	return starlark.None, nil
}

func (m *module) useExtension(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var file, name string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "file", &file, "name", &name); err != nil {
		return nil, err
	}
	repo, _, _ := strings.Cut(strings.TrimLeft(file, "@"), "//")
	if !m.repositories[repo] {
		return nil, fmt.Errorf("%s: no bazel_dep declares %s", file, repo)
	}
	return &extension{name: name, module: m}, nil
}

func (m *module) useRepo(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("want an extension and its repositories")
	}
	from, ok := args[0].(*extension)
	if !ok {
		return nil, fmt.Errorf("%s is no extension", args[0])
	}
	add := func(apparent, name starlark.Value) error {
		as, ok1 := starlark.AsString(apparent)
		repo, ok2 := starlark.AsString(name)
		if !ok1 || !ok2 {
			return fmt.Errorf("%s is no name of a repository", name)
		}
		m.repositories[as] = true
		if from.name == "go_deps" {
			m.goDeps = append(m.goDeps, repo)
		}
		return nil
	}
	for _, name := range args[1:] {
		if err := add(name, name); err != nil {
			return nil, err
		}
	}
	for _, pair := range kwargs {
		if err := add(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return starlark.None, nil
}

// extension is the value of use_extension: its attributes are tags, which take
// keyword arguments of any kind.
type extension struct {
	name   string
	module *module
}

// Attr returns the tag of that name, as a function.
func (e *extension) Attr(tag string) (starlark.Value, error) {
	return starlark.NewBuiltin(e.name+"."+tag, e.tag), nil
}

func (e *extension) tag(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("%s takes keyword arguments only", b.Name())
	}
	for _, pair := range kwargs {
		if key, _ := starlark.AsString(pair[0]); b.Name() == "go_sdk.download" && key == "version" {
			e.module.sdk, _ = starlark.AsString(pair[1])
		}
	}
	return starlark.None, nil
}

var _ starlark.HasAttrs = (*extension)(nil)

// AttrNames lists nothing: an extension's own file knows its tags.
func (e *extension) AttrNames() []string { return nil }

// String returns the extension's name.
func (e *extension) String() string { return e.name }

// Type returns the name of the type.
func (e *extension) Type() string { return "extension" }

// Freeze does nothing: an extension does not change.
func (e *extension) Freeze() {}

// Truth is true.
func (e *extension) Truth() starlark.Bool { return true }

// Hash refuses.
func (e *extension) Hash() (uint32, error) {
	return 0, fmt.Errorf("extension %s cannot be a key", e.name)
}
