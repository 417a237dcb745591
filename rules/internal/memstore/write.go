package memstore

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// tx implements ledger.Tx. What it appends is applied when f has returned.
type tx struct {
	*Store
	head    int64
	now     time.Time
	entries []ledger.Entry
	written map[place]int // index in entries
}

// place is where an item is.
type place struct {
	domain string
	item   ledger.Item
}

// Write implements ledger.Store.
func (s *Store) Write(ctx context.Context, f func(context.Context, ledger.Tx) error) (int64, error) {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	s.mu.RLock()
	t := &tx{Store: s, head: s.head(), now: s.now(), written: map[place]int{}}
	s.mu.RUnlock()
	if err := f(ctx, t); err != nil {
		return 0, err
	}
	if len(t.entries) == 0 {
		return t.head, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range t.entries {
		if err := t.check(&t.entries[i]); err != nil {
			return 0, err
		}
	}
	for i := range t.entries { // first, for a rollout's base is the rule before the write
		s.roll(&t.entries[i])
	}
	for i := range t.entries {
		s.apply(&t.entries[i])
	}
	s.log = append(s.log, t.entries...)
	close(s.changed)
	s.changed = make(chan struct{})
	return t.head + 1, nil
}

// Head implements ledger.Tx.
func (t *tx) Head() int64 { return t.head }

// Now implements ledger.Tx.
func (t *tx) Now() time.Time { return t.now }

// LastVersion implements ledger.Tx.
func (t *tx) LastVersion(_ context.Context, domain string, kind rulesv1.Kind, id string) (int64, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if d := t.domains[domain]; d != nil {
		return d.last[ledger.Item{Kind: kind, ID: id}], nil
	}
	return 0, nil
}

// Version implements ledger.Tx.
func (t *tx) Version(_ context.Context, domain, rule string, version int64) (*rulesv1.Rule, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, e := range t.log {
		if r := e.Change.GetRule(); r != nil && e.Domain == domain && r.GetId() == rule && e.Version == version {
			return proto.CloneOf(r), nil
		}
	}
	return nil, ledger.ErrNotFound
}

// Append implements ledger.Tx.
func (t *tx) Append(_ context.Context, e *ledger.Entry) error {
	if err := ledger.Prepare(e); err != nil {
		return err
	}
	at := place{e.Domain, ledger.ItemOf(e.Change)}
	if _, twice := t.written[at]; twice {
		return fmt.Errorf("%w: %s %q has an entry in this write already", ledger.ErrRefused, at.item.Kind, at.item.ID)
	}
	e.Revision, e.Ordinal, e.At = t.head+1, len(t.entries), t.now
	t.written[at] = len(t.entries)
	t.entries = append(t.entries, clone(*e))
	return nil
}

// find returns an item as it will be after the write; nil for none.
func (t *tx) find(domain string, kind rulesv1.Kind, id string) *rulesv1.Change {
	item := ledger.Item{Kind: kind, ID: id}
	if i, ok := t.written[place{domain, item}]; ok {
		if c := t.entries[i].Change; !ledger.Deletes(c) {
			return c
		}
		return nil
	}
	if d := t.domains[domain]; d != nil {
		return d.items[item]
	}
	return nil
}

// check refuses an entry that does not fit what will be there.
func (t *tx) check(e *ledger.Entry) error {
	item, d := ledger.ItemOf(e.Change), t.domains[e.Domain]
	refuse := func(why string, args ...any) error {
		return fmt.Errorf("%w: %s %q %s", ledger.ErrRefused, item.Kind, item.ID, fmt.Sprintf(why, args...))
	}
	if ledger.Deletes(e.Change) {
		if d == nil || d.items[item] == nil {
			return refuse("is not there")
		}
		if user, used := t.user(e.Domain, item); used {
			return refuse("is used by %s %q", user.Kind, user.ID)
		}
	}
	if d != nil && e.Version > 0 && item.Kind != rulesv1.Kind_KIND_CANDIDATE && e.Version <= d.versions[item] {
		return refuse("had version %d before", e.Version)
	}
	if d != nil && e.Change.GetCandidate() != nil {
		if under := d.items[item].GetCandidate(); under != nil && under.GetRule().GetVersion() != e.Version {
			return refuse("has a rollout of version %d under way", under.GetRule().GetVersion())
		}
	}
	for _, needed := range needs(e.Change) {
		if t.find(e.Domain, needed.Kind, needed.ID) == nil {
			return refuse("needs %s %q, which is not there", needed.Kind, needed.ID)
		}
	}
	return nil
}

// anonymous is a plan that is always there.
const anonymous = "anonymous"

// needs are the items that one names.
func needs(c *rulesv1.Change) (items []ledger.Item) {
	rule := c.GetRule()
	if c.GetCandidate() != nil {
		rule = c.GetCandidate().GetRule()
	}
	if plan := rule.GetPlan(); plan != "" && plan != anonymous {
		items = append(items, ledger.Item{Kind: rulesv1.Kind_KIND_PLAN, ID: plan})
	}
	if route := rule.GetRoute(); route != "" {
		items = append(items, ledger.Item{Kind: rulesv1.Kind_KIND_ROUTE, ID: route})
	}
	if o := c.GetOverride(); o != nil {
		items = append(items, ledger.Item{Kind: rulesv1.Kind_KIND_RULE, ID: o.GetRule()})
	}
	return items
}

// user returns an item that will need one that is deleted.
func (t *tx) user(domain string, item ledger.Item) (ledger.Item, bool) {
	if item.Kind == rulesv1.Kind_KIND_OVERRIDE || item.Kind == rulesv1.Kind_KIND_CANDIDATE {
		return ledger.Item{}, false
	}
	for user := range t.domains[domain].items {
		for _, needed := range needs(t.find(domain, user.Kind, user.ID)) {
			if needed == item {
				return user, true
			}
		}
	}
	return ledger.Item{}, false
}

// apply brings an entry into force.
func (s *Store) apply(e *ledger.Entry) {
	d := s.domains[e.Domain]
	if d == nil {
		d = &domain{items: map[ledger.Item]*rulesv1.Change{}, versions: map[ledger.Item]int64{}, last: map[ledger.Item]int64{}}
		s.domains[e.Domain] = d
	}
	d.revision = e.Revision
	item := ledger.ItemOf(e.Change)
	if ledger.Deletes(e.Change) {
		delete(d.items, item)
	} else {
		d.items[item] = e.Change
	}
	if e.Version == 0 {
		return
	}
	if item.Kind == rulesv1.Kind_KIND_CANDIDATE {
		item.Kind = rulesv1.Kind_KIND_RULE
	} else {
		d.versions[item] = e.Version
	}
	d.last[item] = max(d.last[item], e.Version)
}
