package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/shiplane/limits/tools/infra/policy"
)

// secretMark begins every password that the provider makes up.
const secretMark = "random_password-"

// planFile is where a region's plan is kept beside it.
const planFile = "plan.tfplan"

func folders() []string {
	all := modules()
	for _, r := range regions() {
		all = append(all, r.folder())
	}
	return all
}

func formatted(ctx context.Context, t *tree) error {
	_, err := t.run(ctx, ".", "fmt", "-check", "-recursive", "-diff", "-no-color")
	return err
}

func initialized(ctx context.Context, t *tree) error {
	return inAll(ctx, t, "init", "-no-color")
}

func validated(ctx context.Context, t *tree) error {
	return inAll(ctx, t, "validate", "-no-color")
}

func inAll(ctx context.Context, t *tree, command string, args ...string) error {
	var failed []error
	for _, folder := range folders() {
		_, err := t.run(ctx, folder, command, args...)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// tested runs the tests of each module.
func tested(ctx context.Context, t *tree) error {
	var failed []error
	for _, folder := range modules() {
		output, err := t.run(ctx, folder, "test", "-no-color")
		failed = append(failed, err)
		if err == nil {
			lines := strings.Split(strings.TrimSpace(output), "\n")
			fmt.Printf("%-24s %s\n", folder, lines[len(lines)-1])
		}
	}
	return errors.Join(failed...)
}

// planned plans each region and holds the plan to the policy.
func planned(ctx context.Context, t *tree) error {
	var failed []error
	for _, r := range regions() {
		plan, raw, err := t.plan(ctx, r)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		failed = append(failed, os.WriteFile(filepath.Join(t.plans, r.name+".json"), raw, 0o600))
		for _, v := range policy.Check(plan) {
			failed = append(failed, fmt.Errorf("%s: against %q: %s", r.name, v.Rule, v.What))
		}
		if bytes.Contains(raw, []byte(secretMark)) {
			failed = append(failed, fmt.Errorf("%s: a secret is in the plan", r.name))
		}
		fmt.Printf("%-24s %d resources, %d rules\n", r.folder(), len(plan.Resources), len(policy.Rules()))
	}
	return errors.Join(failed...)
}

// plan plans a region and reads what it would be.
func (t *tree) plan(ctx context.Context, r region) (policy.Plan, []byte, error) {
	if _, err := t.run(ctx, r.folder(), "plan", append(r.vars(), "-no-color", "-out="+planFile)...); err != nil {
		return policy.Plan{}, nil, err
	}
	shown, err := t.run(ctx, r.folder(), "show", "-json", planFile)
	if err != nil {
		return policy.Plan{}, nil, err
	}
	plan, err := policy.Parse([]byte(shown))
	return plan, []byte(shown), err
}

// appliedTwice applies each region; a second plan must be empty, and the state must
// hold no secret.
func appliedTwice(ctx context.Context, t *tree) error {
	var failed []error
	for _, r := range regions() {
		if _, err := t.run(ctx, r.folder(), "apply", append(r.vars(), "-no-color", "-auto-approve")...); err != nil {
			failed = append(failed, err)
			continue
		}
		if _, err := t.run(ctx, r.folder(), "plan", append(r.vars(), "-no-color", "-detailed-exitcode")...); err != nil {
			failed = append(failed, fmt.Errorf("the second plan is not empty: %w", err))
			continue
		}
		state, err := os.ReadFile(filepath.Join(t.dir, r.folder(), "terraform.tfstate"))
		if err == nil && bytes.Contains(state, []byte(secretMark)) {
			err = fmt.Errorf("%s: a secret is in the state", r.name)
		}
		failed = append(failed, err)
		fmt.Printf("%-24s applied; the second plan is empty\n", r.folder())
	}
	return errors.Join(failed...)
}

// destroyRefused: a region that stands is not torn down by a command.
func destroyRefused(ctx context.Context, t *tree) error {
	var failed []error
	for _, r := range regions() {
		failed = append(failed, t.keeps(ctx, r))
	}
	return errors.Join(failed...)
}

func (t *tree) keeps(ctx context.Context, r region) error {
	_, err := t.run(ctx, r.folder(), "plan", append(r.vars(), "-no-color", "-destroy")...)
	var said *cliError
	switch {
	case err == nil:
		return fmt.Errorf("%s: would be destroyed", r.name)
	case !errors.As(err, &said):
		return err
	}
	for _, kept := range []string{"aws_elasticache_replication_group", "aws_db_instance"} {
		if !strings.Contains(said.output, kept) {
			return fmt.Errorf("%s: %s would be destroyed", r.name, kept)
		}
	}
	fmt.Printf("%-24s would not be destroyed\n", r.folder())
	return nil
}
