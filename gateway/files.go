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
	"github.com/shiplane/limits/libs/ruleset/feed"
)

// files is what the gateway works from beside its flags.
type files struct {
	rules  ruleSource // nil only if there are faults
	feed   *feed.Feed // that rules are; nil where they come from no service
	keys   *keys.Live // never nil; empty without --keys
	tokens *jwks.Verifier
	denied *httplimit.Body
	follow map[string]func(context.Context) // by name: each follows a file or a service until its context ends
}

// ruleSource is where the rules in force are had from. Current is nil while a rules
// service was not heard and there is no copy of its rules.
type ruleSource interface{ Current() *ruleset.Ruleset }

// fetched is rules of a service that is not followed.
type fetched struct{ rules *ruleset.Ruleset }

func (f fetched) Current() *ruleset.Ruleset { return f.rules }

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
	var live *ruleset.Live
	switch {
	case cfg.Rules.Service != nil:
		return in.openService(cfg.Rules, logs("rules"))
	case cfg.Demo:
		live, err = ruleset.OpenBytes("demo", demo.Rules, ruleset.WithNaming(cfg.Naming))
	case cfg.Rules.File != "":
		live, err = ruleset.Open(cfg.Rules.File, logs("rules"), ruleset.WithNaming(cfg.Naming))
	default: // a fault of the flags
		return nil
	}
	if err == nil {
		in.rules, in.follow["rules"] = live, live.Run
	}
	return err
}

// openService opens the rules of a service: it is not asked now, but by what follows
// it, unless the rules are wanted once.
func (in *files) openService(cfg RulesConfig, log *slog.Logger) error {
	certificate, err := cfg.open(log)
	if err != nil {
		return err
	}
	service := *cfg.Service
	service.Logger = log
	if cfg.Once {
		rules, err := feed.Fetch(context.Background(), service)
		if err == nil {
			in.rules = fetched{rules}
		}
		return err
	}
	if in.feed, err = feed.Open(service); err != nil {
		return err
	}
	in.rules, in.follow["rules"] = in.feed, in.feed.Run
	if certificate != nil {
		in.follow["certificate for the rules"] = certificate
	}
	return nil
}

// plans returns what tells the plans that the rules know, nil where what names a plan
// is not checked: without rules, and with a service's. A plan that is deleted there
// must not keep every gateway from starting; its accounts are limited as anonymous
// ones are, and the log says so.
func (in *files) plans() func() []string {
	if in.rules == nil || in.feed != nil {
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
func combine(faults []error) error {
	if len(faults) > 1 {
		return fmt.Errorf("%d faults\n%w", len(faults), errors.Join(faults...))
	}
	return errors.Join(faults...)
}
