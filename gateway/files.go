package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/shiplane/limits/gateway/internal/demo"
	"github.com/shiplane/limits/gateway/internal/jwks"
	"github.com/shiplane/limits/gateway/internal/keys"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
)

// files is what the gateway works from beside its flags.
type files struct {
	rules  *rulesource.Source // nil only if there are faults
	keys   *keys.Live         // never nil; empty without --keys
	tokens *jwks.Verifier
	denied *httplimit.Body
	follow map[string]func(context.Context) // by name: each follows a file or a service until its context ends
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
		var live *ruleset.Live
		if live, err = ruleset.OpenBytes("demo", demo.Rules, ruleset.WithNaming(cfg.Naming)); err == nil {
			in.rules = rulesource.Of(live)
		}
	case cfg.Rules.String() != "": // else there is a fault of the flags
		in.rules, err = rulesource.Open(context.Background(), cfg.Rules, logs("rules"))
	}
	if in.rules != nil {
		maps.Copy(in.follow, in.rules.Follow())
	}
	return err
}

// plans returns what tells the plans that the rules know, nil where what names a plan
// is not checked: without rules, and with a service's. A plan that is deleted there
// must not keep every gateway from starting; its accounts are limited as anonymous
// ones are, and the log says so.
func (in *files) plans() func() []string {
	if in.rules == nil || in.rules.FromService() {
		return nil
	}
	return func() []string { return in.rules.Current().Plans() }
}

func (in *files) openKeys(cfg Config, logs func(string) *slog.Logger) (err error) {
	switch {
	case cfg.Demo:
		in.keys, err = keys.OpenBytes("demo", demo.Keys, in.plans())
	case cfg.Keys == "":
		in.keys = keys.Empty()
	default:
		in.keys, err = keys.Open(cfg.Keys, in.plans(), logs("keys"))
	}
	if err == nil {
		in.follow["keys"] = in.keys.Run
	}
	return err
}

func (in *files) checkPlan(plan string) error {
	if plan == "" || in.plans() == nil || slices.Contains(in.plans()(), plan) {
		return nil
	}
	return fmt.Errorf("%q: the rules know no such plan, but %q", plan, in.plans()())
}

// discard is a logger of files that nobody follows.
func discard(string) *slog.Logger { return slog.New(slog.DiscardHandler) }

// combine makes one error of faults, nil of none.
func combine(faults []error) error { return command.Faults(faults).Err() }
