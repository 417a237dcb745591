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
	"slices"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/store"
)

// Bounds of a request.
const (
	EntriesMax = 16   // entries; of one subject store.EntriesMax
	KeyMax     = 4096 // bytes of a key
)

// ErrNotFound is wrapped by the error about a domain or rule that there is none of.
var ErrNotFound = errors.New("not found")

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
	Current() *ruleset.Ruleset // never nil
	Now() time.Time            // by which overrides begin and end
}

// Engine decides. Safe for concurrent use.
type Engine struct {
	domains map[string]Source
	limiter *limiter.Limiter
	spare   sync.Pool // of *Answer
}

// New makes an engine for these domains.
func New(domains map[string]Source, l *limiter.Limiter) *Engine {
	return &Engine{domains: domains, limiter: l, spare: sync.Pool{New: func() any { return &Answer{} }}}
}

// Answer is what became of a request. It is used again after Release.
type Answer struct {
	Decision limit.Decision // its outcomes are in the limiter's order

	engine  *Engine
	request limit.Request
	charges []limit.Charge // of one entry
	items   []item         // of each charge of the request, in the limiter's order
	at      []int          // for each entry its place in Decision.Outcomes, -1 if it was not looked at
}

// item is whose charge one is.
type item struct {
	entry int
	shown bool // else it is what the entry's rule is compared with, in shadow
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

// Check decides one request and charges it if it is allowed. A refusal is an
// answer. The error is a *FieldError, or wraps ErrNotFound; nothing was charged
// then. Release the answer.
func (e *Engine) Check(ctx context.Context, domain string, entries []Entry) (*Answer, error) {
	a, _ := e.spare.Get().(*Answer)
	a.engine = e
	if err := a.prepare(e.domains[domain], domain, entries); err != nil {
		a.Release()
		return nil, err
	}
	e.limiter.Check(ctx, &a.request, &a.Decision)
	for i := range a.at {
		a.at[i] = -1
	}
	for at, item := range a.items[:len(a.Decision.Outcomes)] {
		if item.shown {
			a.at[item.entry] = at
		}
	}
	return a, nil
}

// prepare makes the limiter's request of the entries.
func (a *Answer) prepare(rules Source, domain string, entries []Entry) error {
	if rules == nil {
		return fmt.Errorf("domain %.64q: %w", domain, ErrNotFound)
	}
	if len(entries) < 1 || len(entries) > EntriesMax {
		return &FieldError{"entries", fmt.Sprintf("%d of them", len(entries)), fmt.Sprintf("want 1 to %d", EntriesMax)}
	}
	a.at, a.items = slices.Grow(a.at[:0], len(entries))[:len(entries)], a.items[:0]
	a.request.Reset()
	set, now := rules.Current(), rules.Now()
	for i := range entries {
		if err := a.charge(set, now, i, &entries[i]); err != nil {
			return err
		}
		for n := range a.charges {
			if err := a.place(item{i, n == 0}, &a.charges[n]); err != nil {
				return err
			}
		}
	}
	return nil
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

// place puts a charge behind the others of its subject, or behind those of the
// kinds that are asked before.
func (a *Answer) place(of item, c *limit.Charge) error {
	at, same := 0, 0
	for i := range a.request.Charges {
		o := &a.request.Charges[i]
		switch {
		case o.Subject == c.Subject && o.Rule == c.Rule:
			return &FieldError{fmt.Sprintf("entries[%d]", of.entry), "", fmt.Sprintf("has the rule and key of entries[%d]: want each once", a.items[i].entry)}
		case o.Subject == c.Subject:
			same, at = same+1, i+1
		case same == 0 && o.Subject.Kind() <= c.Subject.Kind():
			at = i + 1
		}
	}
	if same == store.EntriesMax {
		return &FieldError{"entries", "", fmt.Sprintf("has more than %d of one key", store.EntriesMax)}
	}
	a.request.Charges = slices.Insert(a.request.Charges, at, *c)
	a.items = slices.Insert(a.items, at, of)
	return nil
}
