package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/shiplane/limits/gateway/internal/demo"
	"github.com/shiplane/limits/gateway/internal/jwks"
	"github.com/shiplane/limits/gateway/internal/keys"
	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/ruleset"
)

// files is what the gateway works from beside its flags.
type files struct {
	rules  *ruleset.Live
	keys   *keys.Live // never nil; empty without --keys
	tokens *jwks.Verifier
	denied *httplimit.Body
	follow map[string]func(context.Context) // by name: each follows a file until its context ends
}

// openFiles reads what cfg names, or the demo's, and tells all that is wrong with
// it. logs makes the logger of what follows a file, by the file's name.
func openFiles(cfg Config, logs func(file string) *slog.Logger) (*files, []error) {
	in := &files{follow: map[string]func(context.Context){}}
	var faults []error
	try := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	try("rules", in.openRules(cfg, logs))
	try("default-plan", in.checkPlan(cfg.DefaultPlan))
	try("keys", in.openKeys(cfg, logs))
	if cfg.Tokens != nil {
		with := *cfg.Tokens
		with.Logger = logs("jwks")
		verifier, follow, err := jwks.Open(with)
		in.tokens, in.follow["jwks"] = verifier, follow
		try("jwks", err)
	}
	if cfg.DeniedBody != "" {
		text, err := filewatch.Read(cfg.DeniedBody, httplimit.BodyMax)
		if err == nil {
			if in.denied, err = httplimit.ParseBody(string(text), cfg.DeniedBodyType); err != nil {
				err = fmt.Errorf("%s: %w", cfg.DeniedBody, err)
			}
		}
		try("denied-body", err)
	}
	return in, faults
}

func (in *files) openRules(cfg Config, logs func(string) *slog.Logger) (err error) {
	switch {
	case cfg.Demo:
		in.rules, err = ruleset.OpenBytes("demo", demo.Rules, ruleset.WithNaming(cfg.Naming))
	case cfg.Rules != "": // else it is a fault of the flags
		in.rules, err = ruleset.Open(cfg.Rules, logs("rules"), ruleset.WithNaming(cfg.Naming))
	}
	if in.rules != nil {
		in.follow["rules"] = in.rules.Run
	}
	return err
}

// openKeys reads the keys. Their plans are checked only where the rules are good.
func (in *files) openKeys(cfg Config, logs func(string) *slog.Logger) (err error) {
	var plans func() []string
	if in.rules != nil {
		plans = func() []string { return in.rules.Current().Plans() }
	}
	switch {
	case cfg.Demo:
		in.keys, err = keys.OpenBytes("demo", demo.Keys, plans)
	case cfg.Keys == "":
		in.keys = keys.Empty()
	default:
		in.keys, err = keys.Open(cfg.Keys, plans, logs("keys"))
	}
	if err == nil {
		in.follow["keys"] = in.keys.Run
	}
	return err
}

func (in *files) checkPlan(plan string) error {
	if plan == "" || in.rules == nil || slices.Contains(in.rules.Current().Plans(), plan) {
		return nil
	}
	return fmt.Errorf("%q: the rules know no such plan, but %q", plan, in.rules.Current().Plans())
}

// discard is a logger of files that nobody follows.
func discard(string) *slog.Logger { return slog.New(slog.DiscardHandler) }

// combine makes one error of faults, nil of none.
func combine(faults []error) error {
	if len(faults) > 1 {
		return fmt.Errorf("%d faults\n%w", len(faults), errors.Join(faults...))
	}
	return errors.Join(faults...)
}
