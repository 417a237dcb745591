package book

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// state is all rules at one revision. It is immutable: what comes next is another
// state, so that a write may go on from it while Run does the same.
type state struct {
	head    int64 // of all domains
	domains map[string]*domain
}

// domain is the rules of one domain; but for its index it is immutable.
type domain struct {
	revision int64 // the last one that changed it; 0 for none
	rules    *ruleset.Ruleset
	index    *index
	faulty   bool // rules is not all that the store has
}

func emptied(name string) *ruleset.Ruleset { return ruleset.Empty(name) }

// newState is the state that a snapshot says, with the faults of domains that have
// any: what is faulty is left out.
func newState(whole *ledger.State) (*state, map[string]ruleset.Faults) {
	s := &state{head: whole.Revision, domains: make(map[string]*domain, len(whole.Domains))}
	faults := map[string]ruleset.Faults{}
	for name, set := range whole.Domains {
		rules, f := ruleset.Compile(set, emptied(name))
		if len(f) > 0 {
			faults[name] = fieldsOf(set, nil, nil).named(f)
		}
		s.domains[name] = &domain{revision: set.GetRevision(), rules: rules, index: newIndex(set), faulty: len(f) > 0}
	}
	return s, faults
}

// revision is the last one that changed a domain; 0 for one that is not known.
func (s *state) revision(name string) int64 {
	if d := s.domains[name]; d != nil {
		return d.revision
	}
	return 0
}

// domain returns a domain, empty if it is not known.
func (s *state) domain(name string) *domain {
	if d := s.domains[name]; d != nil {
		return d
	}
	return &domain{rules: emptied(name), index: newIndex(nil)}
}

// batch is what one revision does to one domain.
type batch struct {
	domain   string
	revision int64
	changes  []*rulesv1.Change
}

// revisions goes through entries by revision and domain.
func revisions(entries []ledger.Entry) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		var b batch
		for _, e := range entries {
			if e.Revision != b.revision || e.Domain != b.domain {
				if b.changes != nil && !yield(b) {
					return
				}
				b = batch{domain: e.Domain, revision: e.Revision}
			}
			b.changes = append(b.changes, e.Change)
		}
		if b.changes != nil {
			yield(b)
		}
	}
}

// with is the state after a batch, and what was wrong with it. The index is
// brought there at once: with is for Run, which makes the state the current one.
func (s *state) with(b batch) (*state, ruleset.Faults) {
	d, faults := s.domain(b.domain).with(b)
	d.index.take(b.changes...)
	next := &state{head: b.revision, domains: maps.Clone(s.domains)}
	next.domains[b.domain] = d
	return next, faults
}

func (d *domain) with(b batch) (*domain, ruleset.Faults) {
	rules, faults := d.rules.Apply(b.changes, b.revision)
	if len(faults) > 0 {
		faults = fieldsOf(d.rules.Source(), b.changes, nil).named(faults)
	}
	return &domain{revision: b.revision, rules: rules, index: d.index, faulty: d.faulty || len(faults) > 0}, faults
}

// upTo is a domain as a write finds it, which is to say with everything that was
// committed before.
func (s *state) upTo(ctx context.Context, tx ledger.Tx, name string) (*domain, *view, error) {
	d := s.domain(name)
	v := &view{index: d.index, recent: map[ledger.Item]*rulesv1.Change{}}
	for head := s.head; head < tx.Head(); {
		entries, err := tx.Since(ctx, head, pageEntries)
		if err != nil {
			return nil, nil, err
		}
		if len(entries) == 0 {
			return nil, nil, fmt.Errorf("the log ends at revision %d, before its last one, %d", head, tx.Head())
		}
		for b := range revisions(entries) {
			head = b.revision
			if b.domain == name {
				d, _ = d.with(b) // Run names the faults
				v.take(b.changes)
			}
		}
	}
	return d, v, nil
}
