package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// sweepEvery is how often a pod looks for leases to hand back and for shadow
// charges to tell: both go with the next ask of their subject if there is one.
const sweepEvery = 100 * time.Millisecond

// sweep leaves in the outbox what no ask has carried, an errand a subject.
func (c *core) sweep(now time.Duration) { c.collect(now, false) }

// drain leaves in the outbox all that this pod holds.
func (c *core) drain(now time.Duration) { c.collect(now, true) }

func (c *core) collect(now time.Duration, all bool) {
	c.table.Sweep(func(entry *table.Entry[record]) bool {
		r := &entry.Record
		e := errand{ask: store.Ask{Subject: entry.Subject()}}
		holds := false
		for i := range r.states {
			s := &r.states[i]
			s.lease.void(now)
			if len(e.ask.Entries) < store.EntriesMax {
				c.collectState(now, s, all, &e)
			}
			holds = holds || s.lease.held > 0 || s.shadow.tokens > 0
		}
		if len(e.ask.Entries) > 0 {
			c.out.add(e)
		}
		return holds || r.pinned()
	})
}

func (c *core) collectState(now time.Duration, s *state, all bool, e *errand) {
	if s.shadow.tokens > 0 {
		e.add(c.shadowEntry(s), s.shadow.take())
	}
	keep := s.waiting + s.ahead(now, c.pods())
	if all {
		keep = 0
	}
	if all && s.lease.held > 0 || s.lease.surplus(now, keep, leaseGrace) {
		from := s.lease.from
		e.add(store.Entry{Rule: s.rule, Limit: s.limit, Give: s.lease.release(now, keep), GivenFrom: from}, tally{})
	}
}

func (e *errand) add(entry store.Entry, t tally) {
	e.ask.Entries = append(e.ask.Entries, entry)
	e.tallies = append(e.tallies, t)
}

func (c *core) shadowEntry(s *state) store.Entry {
	return store.Entry{Rule: s.rule, Limit: s.limit, Want: s.shadow.tokens, Member: c.next()}
}

// count adds an admitted request to the tallies of the group's shadow rules. A
// tally that is full is told at once, the others with the next ask or sweep.
func (c *core) count(now time.Duration, g *group, charges []limit.Charge) {
	if !shadowed(charges) {
		return
	}
	g.shard.Lock()
	defer g.shard.Unlock()
	g.entry = g.shard.Again(g.entry, &charges[0].Subject)
	c.tally(now, &g.entry.Record, charges)
	g.shard.Mark(g.entry)
}

// tally counts a group's shadow charges in its record.
func (c *core) tally(now time.Duration, r *record, charges []limit.Charge) {
	for i := range charges {
		ch := &charges[i]
		if ch.Rule.Mode != limit.Shadow || ch.Cost == 0 {
			continue
		}
		s := r.state(now, ch, &c.out)
		s.shadow.add(ch.Cost)
		if s.shadow.full(s.limit) {
			e := errand{ask: store.Ask{Subject: ch.Subject}}
			e.add(c.shadowEntry(s), s.shadow.take())
			c.out.add(e)
		}
	}
}

func shadowed(charges []limit.Charge) bool {
	for i := range charges {
		if charges[i].Rule.Mode == limit.Shadow && charges[i].Cost > 0 {
			return true
		}
	}
	return false
}

// settle takes the reply to an errand.
func (c *core) settle(now time.Duration, e *errand, result *store.Result) {
	shard := c.table.Shard(&e.ask.Subject)
	shard.Lock()
	c.learn(now, e.sent, &shard.Get(&e.ask.Subject).Record, &e.ask, e.tallies, result)
	shard.Unlock()
}
