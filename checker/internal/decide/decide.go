// Package decide decides requests that name their rules: it finds the rules, and
// asks the limiter in the limiter's order.
//
// A request names its entries in any order. The limiter wants the entries of one
// subject beside each other and the subjects in the order of their kinds (an
// address before a user name before an account), so that a flood of what is cheap
// to invent charges nothing behind it; the answer stands in the request's order.
package decide

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset"
)

// Bounds of a request.
const (
	EntriesMax = 16   // entries; of one subject store.EntriesMax
	KeyMax     = 4096 // bytes of a key
)

var (
	// ErrNotFound is wrapped by the error about a domain or rule that there is none of.
	ErrNotFound = errors.New("not found")
	// ErrNoRules is wrapped by the error about a domain whose rules were not had yet.
	ErrNoRules = errors.New("the rules were not had yet")
)

// Mode is what becomes of refusals.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // requests are evaluated and counted, and all admitted
	Off     Mode = "off"    // the limiter is not asked
)

// A FieldError is about a value of a request that is out of bounds.
type FieldError struct{ Field, Value, Want string }

// Error returns "entries[2].cost is -1: want 0 to 1000000".
func (e *FieldError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Want)
	}
	return fmt.Sprintf("%s is %s: %s", e.Field, e.Value, e.Want)
}

// Entry is one rule that a request meets.
type Entry struct {
	Rule, Key string
	Cost      int64
	Override  *limit.Limit // instead of the rule's and its overrides'; nil for none
}

// Source is the rules of a domain.
type Source interface {
	Current() *ruleset.Ruleset // nil while there are none
	Now() time.Time            // by which overrides begin and end
}

// An Observer is told what became of requests, on their path. Safe for concurrent
// use.
type Observer interface {
	// Decided tells a decision, and the rule that refused, nil for none; if it is
	// shadowed its refusal refuses nothing.
	Decided(ctx context.Context, d *limit.Decision, refused *limit.Rule, shadowed bool)
	// Failed tells why a request could not be decided, as Check's error does.
	Failed(ctx context.Context, err error)
}

// Config is what an Engine is made of. All of it is required.
type Config struct {
	Domains  map[string]Source
	Limiter  *limiter.Limiter
	Mode     Mode
	Observer Observer
}

// Engine decides. Safe for concurrent use.
type Engine struct {
	cfg   Config
	spare sync.Pool // of *Answer
}

// New makes an engine.
func New(cfg Config) *Engine {
	return &Engine{cfg: cfg, spare: sync.Pool{New: func() any { return &Answer{} }}}
}

// Enforces reports whether refusals refuse: neither Shadow nor Off.
func (e *Engine) Enforces() bool { return e.cfg.Mode == Enforce }

// Answer is what became of a request. It is used again after Release.
type Answer struct {
	// Decision has its outcomes in the limiter's order. In the mode Shadow its
	// verdict is Allowed and nothing has Refused; in Off it has no outcomes.
	Decision limit.Decision

	engine  *Engine
	asked   placed
	peeked  placed
	seen    limit.Decision // of the peeks
	charges []limit.Charge // of one entry
	items   []item         // of each outcome
	at      []int          // for each entry its place in Decision.Outcomes, -1 if it was not looked at
}

// Release gives the answer's memory back; nothing of it may be used afterwards.
func (a *Answer) Release() { a.engine.spare.Put(a) }

// Outcome returns what the rule of an entry said, nil if it was not looked at.
func (a *Answer) Outcome(entry int) *limit.Outcome {
	if at := a.at[entry]; at >= 0 {
		return &a.Decision.Outcomes[at]
	}
	return nil
}

// Refused returns the entry that refused first, -1 for none.
func (a *Answer) Refused() int {
	if a.Decision.Refused < 0 {
		return -1
	}
	return a.items[a.Decision.Refused].entry
}

// Shadowed reports whether what an outcome says refuses nothing.
func (a *Answer) Shadowed(o *limit.Outcome) bool {
	return o.Rule.Mode == limit.Shadow || a.engine.cfg.Mode == Shadow
}

// RetryAfter is Decision.RetryAfter of a request that was refused.
func (a *Answer) RetryAfter() (after time.Duration, ok bool) {
	if a.Decision.Verdict == limit.Allowed {
		return 0, false
	}
	return a.Decision.RetryAfter()
}

// Check decides one request and charges it if it is allowed. A refusal is an
// answer. The error is a *FieldError, or wraps ErrNotFound, ErrNoRules or, where
// ctx had ended before, its error; nothing was charged then. Release the answer.
//
// The end of ctx does not end a decision that has begun: it takes a few
// milliseconds at most, and what has been charged stays so.
func (e *Engine) Check(ctx context.Context, domain string, entries []Entry) (*Answer, error) {
	a, _ := e.spare.Get().(*Answer)
	a.engine = e
	if err := a.prepare(ctx, domain, entries); err != nil {
		a.Release()
		e.Failed(ctx, err)
		return nil, err
	}
	e.decide(ctx, a)
	a.index()
	return a, nil
}

// Failed tells the observer of a request that could not be decided. Check and Decide
// do so themselves: it is for callers that find a fault before they Decide.
func (e *Engine) Failed(ctx context.Context, err error) { e.cfg.Observer.Failed(ctx, err) }

// decide asks the limiter, and applies the mode to what it says.
func (e *Engine) decide(ctx context.Context, a *Answer) {
	d := &a.Decision
	if e.cfg.Mode == Off {
		*d = limit.Decision{Verdict: limit.Allowed, DecidedBy: limit.ByNoRule, Outcomes: d.Outcomes[:0], Refused: -1}
	} else {
		e.cfg.Limiter.Check(ctx, &a.asked.request, d)
	}
	e.cfg.Observer.Decided(ctx, d, refuser(d), e.cfg.Mode == Shadow)
	e.soften(d)
}

// refuser is the rule that refused, nil for none.
func refuser(d *limit.Decision) *limit.Rule {
	if d.Refused < 0 {
		return nil
	}
	return d.Outcomes[d.Refused].Rule
}

// soften takes the refusal out of a decision in the mode Shadow.
func (e *Engine) soften(d *limit.Decision) {
	if e.cfg.Mode == Shadow {
		d.Verdict, d.Refused = limit.Allowed, -1
	}
}

// prepare makes the limiter's request of the entries.
func (a *Answer) prepare(ctx context.Context, domain string, entries []Entry) error {
	if err := gone(ctx); err != nil {
		return err
	}
	if len(entries) < 1 || len(entries) > EntriesMax {
		return &FieldError{"entries", fmt.Sprintf("%d of them", len(entries)), fmt.Sprintf("want 1 to %d", EntriesMax)}
	}
	set, now, err := a.engine.Rules(domain)
	if err != nil {
		return err
	}
	a.begin(len(entries))
	for i := range entries {
		if err := a.charge(set, now, i, &entries[i]); err != nil {
			return err
		}
		for n := range a.charges {
			if err := a.asked.add(item{i, n == 0}, &a.charges[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone returns why a call that was not looked at has ended, nil if it has not.
func gone(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the call ended before it was looked at, and nothing was charged: %w", err)
	}
	return nil
}

// Rules returns the rules of a domain and the time to match them at. The error
// wraps ErrNotFound or ErrNoRules.
func (e *Engine) Rules(domain string) (*ruleset.Ruleset, time.Time, error) {
	rules := e.cfg.Domains[domain]
	if rules == nil {
		return nil, time.Time{}, fmt.Errorf("domain %.64q: %w", domain, ErrNotFound)
	}
	set := rules.Current()
	if set == nil {
		return nil, time.Time{}, fmt.Errorf("domain %.64q: %w", domain, ErrNoRules)
	}
	return set, rules.Now(), nil
}

// charge finds what an entry takes from which counters.
func (a *Answer) charge(set *ruleset.Ruleset, now time.Time, i int, e *Entry) error {
	field := func(name string) string { return fmt.Sprintf("entries[%d].%s", i, name) }
	if e.Cost < 0 || e.Cost > limit.CostMax {
		return &FieldError{field("cost"), fmt.Sprint(e.Cost), fmt.Sprintf("want 0 to %d", limit.CostMax)}
	}
	if e.Key == "" || len(e.Key) > KeyMax {
		return &FieldError{field("key"), fmt.Sprintf("%d bytes", len(e.Key)), fmt.Sprintf("want 1 to %d", KeyMax)}
	}
	charges, ok, err := set.AppendCharges(a.charges[:0], now, e.Rule, e.Key, e.Cost)
	switch {
	case !ok:
		return fmt.Errorf("%s %.64q: %w", field("rule"), e.Rule, ErrNotFound)
	case err != nil:
		return &FieldError{field("key"), fmt.Sprintf("%.64q", e.Key), err.Error()}
	}
	if e.Override != nil {
		charges[0].Limit = *e.Override
	}
	a.charges = charges
	return nil
}
