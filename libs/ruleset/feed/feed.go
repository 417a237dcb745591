package feed

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/bearer"
	"github.com/shiplane/limits/libs/ruleset"
)

// ErrNoRules says that there are no rules yet: no copy on disk, and the service was
// not heard since the start.
var ErrNoRules = errors.New("the rules service was not reached yet, and there is no copy of the rules on disk")

// Feed is the rules of a domain as the service has them. Safe for concurrent use.
type Feed struct {
	cfg         Config
	log         *slog.Logger
	incarnation string
	services    []*service
	token       token
	empty       *ruleset.Ruleset // to which the first rules are compared

	current atomic.Pointer[state]
	first   chan struct{} // closed when there are rules
	clock   clock
	tally   Tally
	contact contact

	changed chan struct{}    // something is in force that is not on disk
	saved   *ruleset.Ruleset // that is on disk
}

// state is what is in force.
type state struct {
	rules   *ruleset.Ruleset // nil: none
	refused refused          // what of the service's revision is not in force
}

// Open makes a feed, with the rules of the copy on disk if there is one. It waits for
// no network: Run does what is left. An error names each field that is wrong.
func Open(cfg Config) (*Feed, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := &Feed{
		cfg: cfg, log: cfg.Logger, incarnation: rand.Text(), empty: ruleset.Empty(cfg.Domain, cfg.Options...),
		first: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	f.current.Store(&state{})
	var err error
	if f.token.Token, err = bearer.Open(cfg.Token, cfg.TokenFile, cfg.Logger); err != nil {
		return nil, err
	}
	f.services = newServices(cfg, f.token)
	f.start()
	return f, nil
}

// Current returns the rules in force, nil while there are none (see Ready).
func (f *Feed) Current() *ruleset.Ruleset { return f.current.Load().rules }

// Now returns the service's time, as well as it is known: overrides start and end by
// it.
func (f *Feed) Now() time.Time { return f.clock.now() }

// Tally returns what counts the decisions that are reported.
func (f *Feed) Tally() *Tally { return &f.tally }

// Ready returns ErrNoRules while there are no rules, then nil for ever.
func (f *Feed) Ready() error {
	if f.Current() == nil {
		return ErrNoRules
	}
	return nil
}

// Wait returns nil when there are rules, or why ctx ended before.
func (f *Feed) Wait(ctx context.Context) error {
	select {
	case <-f.first:
		return nil
	case <-ctx.Done():
		return errors.Join(ErrNoRules, f.contact.status().Failure, context.Cause(ctx))
	}
}

// Run follows the service until ctx ends, and keeps the rules on disk then. It is
// called once.
func (f *Feed) Run(ctx context.Context) {
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){f.follow, f.report, f.keepCopies, f.token.Follow} {
		parts.Go(func() { part(ctx) })
	}
	parts.Wait()
}

// Status is how a feed is doing.
type Status struct {
	Revision int64     // in force; 0 if there are no rules
	Faults   []string  // what of the service's revision is not in force
	Heard    time.Time // when the service said something last, on this machine's clock; zero: never
	Watching bool      // a watch is up
	Watches  int64     // that came up since the start
	Failure  error     // why the last watch ended, or an attempt failed; nil while one is up
}

// Status returns how the feed is doing.
func (f *Feed) Status() Status {
	s := f.contact.status()
	now := f.current.Load()
	if s.Faults = now.refused.texts(); now.rules != nil {
		s.Revision = now.rules.Revision()
	}
	return s
}

// adopt puts what is next in force. It is called by one goroutine at a time.
func (f *Feed) adopt(next state) {
	before := f.current.Swap(&next)
	if next.rules != nil && next.rules != before.rules {
		f.tally.follow(next.rules.Rules())
	}
	if next.rules != nil && before.rules == nil {
		close(f.first)
	}
	select {
	case f.changed <- struct{}{}:
	default: // what changed before waits to be written, and this with it
	}
}
