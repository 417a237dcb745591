// Package rulesource opens where a service's flags say that rules come from: a rule
// file that is followed, or the rules service.
package rulesource

import (
	"context"
	"log/slog"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/ruleset/feed"
)

// Source is the rules of a domain. Safe for concurrent use.
type Source struct {
	rules  interface{ Current() *ruleset.Ruleset }
	feed   *feed.Feed                       // that rules are; nil where they come from no service
	follow map[string]func(context.Context) // by name
}

// fetched is rules of a service that is not followed.
type fetched struct{ rules *ruleset.Ruleset }

func (f fetched) Current() *ruleset.Ruleset { return f.rules }

// Of makes a source of rules that are at hand.
func Of(live *ruleset.Live) *Source {
	return &Source{rules: live, follow: map[string]func(context.Context){"rules": live.Run}}
}

// Open opens what cfg names, which must be something. A service is not asked now, but
// by what follows it, unless its rules are wanted once. An error names the flag if it
// is not --rules.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Source, error) {
	if cfg.Service == nil {
		live, err := ruleset.Open(cfg.File, log, cfg.options()...)
		if err != nil {
			return nil, err
		}
		return Of(live), nil
	}
	secure, certificate, err := cfg.TLS.Open(log)
	if err != nil {
		return nil, err
	}
	service := *cfg.Service
	service.TLS, service.Logger, service.Options = secure, log, cfg.options()
	if cfg.Once {
		rules, err := feed.Fetch(ctx, service)
		if err != nil {
			return nil, err
		}
		return &Source{rules: fetched{rules}}, nil
	}
	rules, err := feed.Open(service)
	if err != nil {
		return nil, err
	}
	s := &Source{rules: rules, feed: rules, follow: map[string]func(context.Context){"rules": rules.Run}}
	if certificate != nil {
		s.follow["certificate for the rules"] = certificate
	}
	return s, nil
}

// Current returns the rules in force, nil while a rules service was not heard and
// there is no copy of its rules.
func (s *Source) Current() *ruleset.Ruleset { return s.rules.Current() }

// Now is the time by which overrides start and end.
func (s *Source) Now() time.Time {
	if s.feed != nil {
		return s.feed.Now()
	}
	return time.Now()
}

// Ready returns why requests cannot be decided, nil if they can.
func (s *Source) Ready() error {
	if s.feed == nil {
		return nil
	}
	return s.feed.Ready()
}

// FromService reports whether the rules are those of a rules service, followed.
func (s *Source) FromService() bool { return s.feed != nil }

// Figures are the revision and the number of the rules in force, 0 for none.
func (s *Source) Figures() (revision int64, rules int) {
	current := s.rules.Current()
	if current == nil {
		return 0, 0
	}
	return current.Revision(), len(current.Rules())
}

// Follow returns what must run, each until its context ends, by name.
func (s *Source) Follow() map[string]func(context.Context) { return s.follow }

// Decided counts a decision for the rules service; without one it does nothing.
func (s *Source) Decided(d *limit.Decision) {
	if s.feed != nil {
		s.feed.Tally().Count(d)
	}
}

// Shadow counts for the rules service what a rule in shadow said, as
// limiter.Observer's; without one it does nothing.
func (s *Source) Shadow(rule *limit.Rule, requests, short int64) {
	if s.feed != nil {
		s.feed.Tally().Shadow(rule, requests, short)
	}
}
