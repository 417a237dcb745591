package memstore

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// sorted returns the items that are chosen, by kind and id.
func (d *domain) sorted(chosen func(ledger.Item) bool) []ledger.Item {
	var items []ledger.Item
	for item := range d.items {
		if chosen(item) {
			items = append(items, item)
		}
	}
	slices.SortFunc(items, func(x, y ledger.Item) int {
		if x.Kind != y.Kind {
			return int(x.Kind - y.Kind)
		}
		return strings.Compare(x.ID, y.ID)
	})
	return items
}

// list returns copies of the items of a kind that are chosen, after an id.
func list[T proto.Message](s *Store, name string, kind rulesv1.Kind, after string, most int, of func(*rulesv1.Change) T, chosen func(T) bool) ([]T, int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d := s.domains[name]
	if d == nil {
		return nil, 0, nil
	}
	items := d.sorted(func(i ledger.Item) bool { return i.Kind == kind && i.ID > after && chosen(of(d.items[i])) })
	var page []T
	for _, item := range items[:min(max(most, 1), len(items))] {
		page = append(page, proto.CloneOf(of(d.items[item])))
	}
	return page, d.revision, nil
}

// Rules implements ledger.Store.
func (s *Store) Rules(_ context.Context, domain string, q ledger.RuleQuery, after string, most int) ([]*rulesv1.Rule, int64, error) {
	return list(s, domain, rulesv1.Kind_KIND_RULE, after, most, (*rulesv1.Change).GetRule, func(r *rulesv1.Rule) bool {
		mode := r.GetMode()
		if mode == rulesv1.Mode_MODE_UNSPECIFIED {
			mode = rulesv1.Mode_MODE_ENFORCE
		}
		return (q.Plan == "" || q.Plan == r.GetPlan()) && (q.Route == "" || q.Route == r.GetRoute()) &&
			(q.Identity == 0 || q.Identity == r.GetIdentity()) && (q.Mode == 0 || q.Mode == mode)
	})
}

// Routes implements ledger.Store.
func (s *Store) Routes(_ context.Context, domain, after string, most int) ([]*rulesv1.Route, int64, error) {
	return list(s, domain, rulesv1.Kind_KIND_ROUTE, after, most, (*rulesv1.Change).GetRoute, func(*rulesv1.Route) bool { return true })
}

// Overrides implements ledger.Store.
func (s *Store) Overrides(_ context.Context, domain string, q ledger.OverrideQuery, after string, most int) ([]*rulesv1.Override, int64, error) {
	return list(s, domain, rulesv1.Kind_KIND_OVERRIDE, after, most, (*rulesv1.Change).GetOverride, func(o *rulesv1.Override) bool {
		return (q.Rule == "" || q.Rule == o.GetRule()) && (q.Key == "" || q.Key == o.GetKey())
	})
}

// Plans implements ledger.Store.
func (s *Store) Plans(_ context.Context, domain string) ([]*rulesv1.Plan, int64, error) {
	const all = 1 << 30
	return list(s, domain, rulesv1.Kind_KIND_PLAN, "", all, (*rulesv1.Change).GetPlan, func(*rulesv1.Plan) bool { return true })
}

// Item implements ledger.Store.
func (s *Store) Item(_ context.Context, domain string, kind rulesv1.Kind, id string) (*rulesv1.Change, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if d := s.domains[domain]; d != nil {
		if c := d.items[ledger.Item{Kind: kind, ID: id}]; c != nil {
			return proto.CloneOf(c), nil
		}
	}
	return nil, ledger.ErrNotFound
}

// History implements ledger.Store.
func (s *Store) History(_ context.Context, q ledger.HistoryQuery, before ledger.Position, most int) ([]ledger.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var page []ledger.Entry
	for i := len(s.log) - 1; i >= 0 && len(page) < max(most, 1); i-- {
		if e := s.log[i]; earlier(ledger.Position{Revision: e.Revision, Ordinal: e.Ordinal}, before) && asked(&e, q) {
			page = append(page, clone(e))
		}
	}
	return page, nil
}

func asked(e *ledger.Entry, q ledger.HistoryQuery) bool {
	item := ledger.ItemOf(e.Change)
	kind := item.Kind == q.Kind || q.Kind == 0 || q.Kind == rulesv1.Kind_KIND_RULE && item.Kind == rulesv1.Kind_KIND_CANDIDATE
	return kind && (q.Domain == "" || q.Domain == e.Domain) && (q.ID == "" || q.ID == item.ID) && (q.Author == "" || q.Author == e.Author)
}

// earlier reports whether a position lies before one, of which the zero one is the
// end of the log.
func earlier(p, before ledger.Position) bool {
	return before.Revision == 0 || p.Revision < before.Revision || p.Revision == before.Revision && p.Ordinal < before.Ordinal
}

// Rollouts implements ledger.Store.
func (s *Store) Rollouts(_ context.Context, q ledger.RolloutQuery, before ledger.Position, most int) ([]ledger.Rollout, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var page []ledger.Rollout
	for i := len(s.rollouts) - 1; i >= 0 && len(page) < max(most, 1); i-- {
		r := s.rollouts[i].Rollout
		if (q.Domain == "" || q.Domain == r.Domain) && (q.Rule == "" || q.Rule == r.Rule.GetId()) && (!q.Active || s.rollouts[i].active()) && earlier(r.Position, before) {
			r.Rule = proto.CloneOf(r.Rule)
			page = append(page, r)
		}
	}
	return page, nil
}
