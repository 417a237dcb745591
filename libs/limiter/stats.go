package limiter

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

const (
	// rulesCounted is how many rules are counted apart. They come from people, a
	// few hundred at most; what comes beyond is counted together, without a name.
	rulesCounted = 4096
	// HotPeriod is the time over which the hottest subject of a rule is looked for.
	// Sweeps tell when one ends: it may be off by 100 ms.
	HotPeriod = 10 * time.Second
)

// Stats is what a core has done since it was made.
type Stats struct {
	Asks    int64       // calls to the store that requests waited for
	Errands int64       // calls that none waited for: tokens that go back, charges that are counted later
	Rules   []RuleStats // in no order
}

// RuleStats is one rule's part, over all its subjects: of rules that requests
// wait for, not of those in shadow or counted after. All but Held, Stranded and
// Hottest are sums. Whenever nothing is on its way,
//
//	Leased = what requests that passed have spent + Returned + Lost + Held
type RuleStats struct {
	Domain, ID string // both empty: the rules beyond the first 4,096

	Leased   int64 // tokens that the store has granted, for requests that waited and ahead of others
	Returned int64 // tokens that the store has been given back
	Lost     int64 // tokens that were neither spent nor returned: their window ended, or a hand-back was given up or not answered
	Holds    int64 // times that the store found a subject short and was left alone for a while, for others compete for it

	// Held is the tokens on lease at the last sweep, 100 ms ago at most: all
	// pods' together is what may be admitted late, above the limit.
	Held int64
	// Stranded is those of them whose lease has ended, a second after its last
	// grant, and that no demand of this pod supports. They go back with the
	// subject's next ask, or half a second later.
	Stranded int64
	// Hottest is the subject that was admitted most of what it is entitled to,
	// by this pod in the last whole HotPeriod.
	Hottest Hot
}

// Hot is what a subject was admitted in a HotPeriod by one pod. The zero Hot is
// nobody: nothing was.
type Hot struct {
	Subject  limit.Subject
	Admitted int64 // tokens
	// Entitled is what all pods together may admit meanwhile: burst + rate · 10 s,
	// or the count of a window or log, as often as it fits, once at least.
	Entitled float64
}

// Ratio is the part of what the subject is entitled to that this pod admitted.
func (h Hot) Ratio() float64 {
	if h.Entitled == 0 {
		return 0
	}
	return float64(h.Admitted) / h.Entitled
}

// entitled is what may be admitted of a limit in a HotPeriod.
func entitled(l limit.Limit) float64 {
	if l.Window > 0 {
		return float64(l.Count) * max(1, HotPeriod.Seconds()/l.Window.Seconds())
	}
	return float64(l.Burst) + float64(l.Rate)*HotPeriod.Seconds()
}

// counts is what is counted of one rule: sums beside calls to the store, where an
// atomic costs nothing, and what sweeps see.
type counts struct {
	leased, returned, lost, holds atomic.Int64

	sweep sight // under book.sweeping
	shown sight // of the last sweep that has ended; under book.mu
}

// sight is what a sweep sees of a rule's subjects.
type sight struct {
	held, stranded int64
	running, last  Hot // of the period that runs, and of the one before
}

type ruleName struct{ domain, id string }

// book keeps the counts of the rules that a core has met. The zero book is empty.
type book struct {
	asks, errands atomic.Int64

	mu     sync.RWMutex // taken under a shard's lock
	rules  map[ruleName]*counts
	beyond counts // rulesCounted

	sweeping sync.Mutex // one sweep at a time; taken before a shard's lock
	period   int64      // HotPeriods since the clock's zero
}

// of returns the counts of a rule.
func (b *book) of(r *limit.Rule) *counts {
	name := ruleName{r.Domain, r.ID}
	b.mu.RLock()
	n := b.rules[name]
	b.mu.RUnlock()
	if n != nil {
		return n
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch n := b.rules[name]; {
	case n != nil:
		return n
	case len(b.rules) >= rulesCounted:
		return &b.beyond
	case b.rules == nil:
		b.rules = map[ruleName]*counts{}
	}
	n = &counts{}
	b.rules[name] = n
	return n
}

// lose counts the tokens of a call that is given up, or was not answered.
func (b *book) lose(ask *store.Ask) {
	for i := range ask.Entries {
		if e := &ask.Entries[i]; e.Give > 0 {
			b.of(e.Rule).lost.Add(e.Give)
		}
	}
}

// settled counts the store's answer to an entry of a rule that requests wait for.
func (b *book) settled(e *store.Entry, o *store.Outcome) {
	if e.Give == 0 && o.Granted == 0 {
		return
	}
	n := b.of(e.Rule)
	n.leased.Add(o.Granted)
	n.returned.Add(e.Give)
}

// begin begins a sweep; end, which has to follow, shows what it saw.
func (b *book) begin(now time.Duration) {
	b.sweeping.Lock()
	period := int64(now / HotPeriod)
	b.mu.RLock()
	defer b.mu.RUnlock()
	for n := range b.all() {
		n.sweep.held, n.sweep.stranded = 0, 0
		if period == b.period {
			continue
		}
		if n.sweep.last = n.sweep.running; period > b.period+1 {
			n.sweep.last = Hot{}
		}
		n.sweep.running = Hot{}
	}
	b.period = period
}

func (b *book) end() {
	b.mu.Lock()
	for n := range b.all() {
		n.shown = n.sweep
	}
	b.mu.Unlock()
	b.sweeping.Unlock()
}

// all visits the counts of each rule and of those beyond, with the name. mu must be held.
func (b *book) all() iter.Seq2[*counts, ruleName] {
	return func(visit func(*counts, ruleName) bool) {
		for name, n := range b.rules {
			if !visit(n, name) {
				return
			}
		}
		visit(&b.beyond, ruleName{})
	}
}

// seen adds what a sweep sees of a state to its rule's counts. keep is what the
// demand of this pod supports.
func (s *state) seen(now time.Duration, subject limit.Subject, keep, period int64) {
	sweep := &s.counts.sweep
	sweep.held += s.lease.held
	if s.lease.surplus(now, keep, 0) {
		sweep.stranded += s.lease.held - keep
	}
	if s.period != int32(period) {
		s.period, s.passed = int32(period), 0
	}
	s.passed, s.fresh = s.passed+s.fresh, 0
	if hot := (Hot{subject, s.passed, entitled(s.limit)}); hot.Ratio() > sweep.running.Ratio() {
		sweep.running = hot
	}
}

// Stats returns what the core has done. It takes no shard's lock.
func (c *Core) Stats() Stats {
	b := &c.book
	all := Stats{Asks: b.asks.Load(), Errands: b.errands.Load()}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for n, name := range b.all() {
		if n == &b.beyond && len(b.rules) < rulesCounted {
			continue
		}
		all.Rules = append(all.Rules, RuleStats{
			Domain: name.domain, ID: name.id,
			Leased: n.leased.Load(), Returned: n.returned.Load(), Lost: n.lost.Load(), Holds: n.holds.Load(),
			Held: n.shown.held, Stranded: n.shown.stranded, Hottest: n.shown.last,
		})
	}
	return all
}
