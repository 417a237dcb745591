package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// providerVersion is that of hashicorp/aws whose schema is served.
const providerVersion = "6.66.0"

// tree is a copy of infra/terraform that may be written to.
type tree struct {
	dir, plans string // absolute
	source     string
	cli        string
	env        []string
}

// prepare copies the tree to work, beside a mirror that has the provider.
func prepare(work, source, cli, provider, schema string) (*tree, error) {
	work, err := filepath.Abs(work)
	if err != nil {
		return nil, err
	}
	if schema, err = filepath.Abs(schema); err != nil {
		return nil, err
	}
	t := &tree{dir: filepath.Join(work, "tree"), plans: filepath.Join(work, "plans"), source: source, cli: cli}
	for _, dir := range []string{t.dir, t.plans, filepath.Join(work, "mirror")} {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(t.plans, 0o755); err != nil {
		return nil, err
	}
	if err := copyConfiguration(t.dir, source); err != nil {
		return nil, err
	}
	for _, r := range regions() {
		// The state of a region is in S3; here beside it.
		if err := os.WriteFile(filepath.Join(t.dir, r.folder(), "backend_override.tf"), []byte("terraform {\n  backend \"local\" {}\n}\n"), 0o600); err != nil {
			return nil, err
		}
	}
	config, err := mirror(filepath.Join(work, "mirror"), provider)
	if err != nil {
		return nil, err
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") { // what the caller has set up is not what is tested
			t.env = append(t.env, variable)
		}
	}
	t.env = append(t.env, "TF_CLI_CONFIG_FILE="+config, "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1", "SCHEMAPROVIDER_SCHEMA="+schema)
	return t, nil
}

// copyConfiguration copies what is kept in the repository and nothing beside it: who has
// run Terraform in source has left locks, states and values there, which are not what
// is tested.
func copyConfiguration(to, source string) error {
	return fs.WalkDir(os.DirFS(source), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".terraform":
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o755)
		case filepath.Ext(path) != ".tf" && !strings.HasSuffix(path, ".tftest.hcl"):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(source, path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), text, 0o600)
	})
}

// mirror puts the provider where Terraform and OpenTofu look for it, and returns the
// configuration that lets them look nowhere else.
func mirror(dir, provider string) (config string, err error) {
	binary, err := os.ReadFile(provider)
	if err != nil {
		return "", err
	}
	for _, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		at := filepath.Join(dir, host, "hashicorp", "aws", providerVersion, runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(at, "terraform-provider-aws_v"+providerVersion), binary, 0o755); err != nil { //nolint:gosec // it is run
			return "", err
		}
	}
	config = filepath.Join(dir, "cli.tfrc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path    = %q\n    include = [\"*/*/*\"]\n  }\n}\n", dir)
	return config, os.WriteFile(config, []byte(text), 0o600)
}

// cliError is a command that failed, with what it said.
type cliError struct {
	command string
	output  string
	err     error
}

func (e *cliError) Error() string {
	return fmt.Sprintf("%s: %v\n%s", e.command, e.err, e.output)
}

func (e *cliError) Unwrap() error { return e.err }

// run runs a command of Terraform in a folder of the tree; the error holds all that
// it said. It waits without a deadline: the context ends it.
func (t *tree) run(ctx context.Context, folder, command string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, t.cli, append([]string{command}, args...)...) //nolint:gosec // the caller's own Terraform
	cmd.Dir = filepath.Join(t.dir, folder)
	cmd.Env = t.env
	output, err := cmd.CombinedOutput()
	if err != nil {
		return string(output), &cliError{filepath.Base(t.cli) + " " + command + " in " + folder, string(output), err}
	}
	return string(output), nil
}
