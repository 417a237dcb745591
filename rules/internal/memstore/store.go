// Package memstore keeps the rules in memory: for trying the service out, and as
// the plain reading of the ledger's contract that other stores are compared with.
// It is not durable: what was written is gone with the process.
//
// It refuses what breaks the order of versions or names what is not there, as a
// database with foreign keys does. Whether the numbers of a rule are in their bounds
// it does not look at.
package memstore

import (
	"context"
	"sort"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Store implements ledger.Store.
type Store struct {
	writing chan struct{} // held by the one write under way

	mu       sync.RWMutex
	log      []ledger.Entry // its messages are not modified
	domains  map[string]*domain
	rollouts []*rollout // by their beginning
	pods     map[podID]*rulesv1.PodStatus
	tokens   map[string]ledger.Token
	changed  chan struct{} // closed and replaced with every revision
}

// domain is what is in force in one.
type domain struct {
	revision int64
	items    map[ledger.Item]*rulesv1.Change // not modified
	versions map[ledger.Item]int64           // the last one in force of rules and routes, deletions included
	last     map[ledger.Item]int64           // the same with candidates
}

// New makes an empty store.
func New() *Store {
	return &Store{
		writing: make(chan struct{}, 1), changed: make(chan struct{}),
		domains: map[string]*domain{}, pods: map[podID]*rulesv1.PodStatus{}, tokens: map[string]ledger.Token{},
	}
}

var _ ledger.Store = (*Store)(nil)

// Close does nothing.
func (*Store) Close() {}

// Head implements ledger.Store.
func (s *Store) Head(context.Context) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.head(), nil
}

func (s *Store) head() int64 {
	if len(s.log) == 0 {
		return 0
	}
	return s.log[len(s.log)-1].Revision
}

// Snapshot implements ledger.Store.
func (s *Store) Snapshot(context.Context) (*ledger.State, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	state := &ledger.State{Revision: s.head(), Domains: map[string]*rulesv1.Ruleset{}}
	for name, d := range s.domains {
		set := &rulesv1.Ruleset{Domain: name, Revision: d.revision}
		for _, item := range d.sorted(func(ledger.Item) bool { return true }) {
			switch c := proto.CloneOf(d.items[item]).GetItem().(type) {
			case *rulesv1.Change_Plan:
				set.Plans = append(set.Plans, c.Plan)
			case *rulesv1.Change_Route:
				set.Routes = append(set.Routes, c.Route)
			case *rulesv1.Change_Rule:
				set.Rules = append(set.Rules, c.Rule)
			case *rulesv1.Change_Override:
				set.Overrides = append(set.Overrides, c.Override)
			case *rulesv1.Change_Candidate:
				set.Candidates = append(set.Candidates, c.Candidate)
			}
		}
		state.Domains[name] = set
	}
	return state, nil
}

// Since implements ledger.Store.
func (s *Store) Since(_ context.Context, after int64, most int) ([]ledger.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if after > s.head() {
		return nil, ledger.ErrCompacted
	}
	from := sort.Search(len(s.log), func(i int) bool { return s.log[i].Revision > after })
	to := min(from+max(most, 1), len(s.log))
	for to > from && to < len(s.log) && s.log[to].Revision == s.log[to-1].Revision {
		to++
	}
	return cloned(s.log[from:to]), nil
}

func cloned(entries []ledger.Entry) []ledger.Entry {
	var own []ledger.Entry
	for _, e := range entries {
		own = append(own, clone(e))
	}
	return own
}

func clone(e ledger.Entry) ledger.Entry {
	e.Change = proto.CloneOf(e.Change)
	if e.Before != nil {
		e.Before = proto.CloneOf(e.Before)
	}
	return e
}

// Wait implements ledger.Store.
func (s *Store) Wait(ctx context.Context, after int64) error {
	s.mu.RLock()
	changed, head := s.changed, s.head()
	s.mu.RUnlock()
	if head > after {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now is the clock, never before the last entry.
func (s *Store) now() time.Time {
	now := time.Now().UTC().Truncate(ledger.Resolution)
	if n := len(s.log); n > 0 && s.log[n-1].At.After(now) {
		return s.log[n-1].At
	}
	return now
}
