package book

import (
	"sync"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// index finds the items of a domain by id. States of one domain share it: it is
// as new as the last of them, or newer while Run is between two. Safe for
// concurrent use.
type index struct {
	mu         sync.RWMutex
	items      map[ledger.Item]*rulesv1.Change // as what a Change puts; not modified
	candidates map[string]bool                 // ids of rules
}

func newIndex(set *rulesv1.Ruleset) *index {
	x := &index{items: map[ledger.Item]*rulesv1.Change{}, candidates: map[string]bool{}}
	for _, p := range set.GetPlans() {
		x.take(putPlan(p))
	}
	for _, r := range set.GetRoutes() {
		x.take(putRoute(r))
	}
	for _, r := range set.GetRules() {
		x.take(putRule(r))
	}
	for _, o := range set.GetOverrides() {
		x.take(putOverride(o))
	}
	for _, c := range set.GetCandidates() {
		x.take(putCandidate(c.GetRule(), c.GetStage()))
	}
	return x
}

// take brings the index up to date.
func (x *index) take(changes ...*rulesv1.Change) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range changes {
		item := ledger.ItemOf(c)
		gone := ledger.Deletes(c)
		if gone {
			delete(x.items, item)
		} else {
			x.items[item] = c
		}
		switch {
		case item.Kind != rulesv1.Kind_KIND_CANDIDATE:
		case gone:
			delete(x.candidates, item.ID)
		default:
			x.candidates[item.ID] = true
		}
	}
}

// find returns an item, nil for none.
func (x *index) find(item ledger.Item) *rulesv1.Change {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.items[item]
}

// underWay returns the ids of the rules that have a candidate.
func (x *index) underWay() []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ids := make([]string, 0, len(x.candidates))
	for id := range x.candidates {
		ids = append(ids, id)
	}
	return ids
}

func (x *index) rollingOut() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.candidates) > 0
}

// view is a domain as a write finds it: an index, and over it what was committed
// after the state that the write began with. While a write is under way nothing
// else is committed, so that the index, which follows what is, can be ahead of
// that state, and never of the view.
type view struct {
	index  *index
	recent map[ledger.Item]*rulesv1.Change // nil for what is gone
}

func (v *view) find(kind rulesv1.Kind, id string) *rulesv1.Change {
	item := ledger.Item{Kind: kind, ID: id}
	if c, changed := v.recent[item]; changed {
		return c
	}
	return v.index.find(item)
}

// take puts changes over the index.
func (v *view) take(changes []*rulesv1.Change) {
	for _, c := range changes {
		if ledger.Deletes(c) {
			v.recent[ledger.ItemOf(c)] = nil
		} else {
			v.recent[ledger.ItemOf(c)] = c
		}
	}
}

// rule returns a rule in force, nil for none; so do the others.
func (v *view) rule(id string) *rulesv1.Rule { return v.find(rulesv1.Kind_KIND_RULE, id).GetRule() }

func (v *view) route(id string) *rulesv1.Route { return v.find(rulesv1.Kind_KIND_ROUTE, id).GetRoute() }

func (v *view) plan(id string) *rulesv1.Plan { return v.find(rulesv1.Kind_KIND_PLAN, id).GetPlan() }

func (v *view) override(id string) *rulesv1.Override {
	return v.find(rulesv1.Kind_KIND_OVERRIDE, id).GetOverride()
}

func (v *view) candidate(id string) *rulesv1.Candidate {
	return v.find(rulesv1.Kind_KIND_CANDIDATE, id).GetCandidate()
}

// candidates returns all candidates.
func (v *view) candidates() (all []*rulesv1.Candidate) {
	for _, id := range v.index.underWay() {
		if _, changed := v.recent[ledger.Item{Kind: rulesv1.Kind_KIND_CANDIDATE, ID: id}]; !changed {
			all = append(all, v.candidate(id))
		}
	}
	for _, c := range v.recent {
		if c.GetCandidate() != nil {
			all = append(all, c.GetCandidate())
		}
	}
	return all
}
