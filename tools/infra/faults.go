package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/shiplane/limits/tools/infra/policy"
)

// fault is a mistake as people make it: in a file, new stands for old.
type fault struct {
	name     string
	file     string
	old, new string
	by       catcher
	says     string // part of what the catcher must say
}

// catcher is the step that must catch a fault. It returns what is said, "" if
// nothing is.
type catcher struct {
	name string
	run  func(context.Context, *tree, fault) (string, error)
}

// faultsCaught plants each fault into the tree, sees it caught, and takes it out
// again. It prints a table.
func faultsCaught(ctx context.Context, t *tree) error {
	var failed []error
	fmt.Printf("%-44s %-9s %s\n", "FAULT", "CAUGHT BY", "WITH")
	for _, f := range faults() {
		said, err := t.plant(ctx, f)
		if err == nil && !strings.Contains(said, f.says) {
			err = fmt.Errorf("%q is not caught by %s with %q; it says: %s", f.name, f.by.name, f.says, said)
		}
		if err != nil {
			failed = append(failed, err)
			fmt.Printf("%-44s %-9s\n", f.name, "NOT")
			continue
		}
		fmt.Printf("%-44s %-9s %s\n", f.name, f.by.name, f.says)
	}
	return errors.Join(failed...)
}

// plant returns what the catcher says of the tree with a fault in it.
func (t *tree) plant(ctx context.Context, f fault) (said string, err error) {
	path := filepath.Join(t.dir, f.file)
	sound, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(sound), f.old); n != 1 {
		return "", fmt.Errorf("%q: %s holds %q %d times, want once", f.name, f.file, f.old, n)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(sound), f.old, f.new, 1)), 0o600); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(path, sound, 0o600)) }()
	return f.by.run(ctx, t, f)
}

// byCommand catches what a command of Terraform refuses.
func byCommand(name string, folder func(fault) string, args ...string) catcher {
	return catcher{name, func(ctx context.Context, t *tree, f fault) (string, error) {
		_, err := t.run(ctx, folder(f), name, append(args, "-no-color")...)
		return refusal(err)
	}}
}

// refusal returns what a command said that failed, in one line.
func refusal(err error) (string, error) {
	var said *cliError
	if errors.As(err, &said) {
		words := strings.FieldsFunc(said.output, func(r rune) bool { return strings.ContainsRune(" \n\t│╷╵", r) })
		return strings.Join(words, " "), nil
	}
	return "", err
}

func byFormat() catcher {
	return byCommand("fmt", func(fault) string { return "." }, "-check", "-recursive")
}

func byValidate() catcher {
	return byCommand("validate", func(fault) string { return regions()[0].folder() })
}

// byTest runs the tests of the module that the fault is in.
func byTest() catcher {
	return byCommand("test", func(f fault) string { return filepath.Dir(f.file) })
}

// byPlan catches what is refused when the home region is planned.
func byPlan() catcher {
	return catcher{"plan", func(ctx context.Context, t *tree, _ fault) (string, error) {
		_, _, err := t.plan(ctx, regions()[0])
		return refusal(err)
	}}
}

// byPolicy catches what the policy refuses of the home region's plan.
func byPolicy() catcher {
	return catcher{"policy", func(ctx context.Context, t *tree, _ fault) (string, error) {
		plan, _, err := t.plan(ctx, regions()[0])
		if err != nil {
			return "", err
		}
		var said []string
		for _, v := range policy.Check(plan) {
			said = append(said, v.Rule+": "+v.What)
		}
		return strings.Join(said, "; "), nil
	}}
}
