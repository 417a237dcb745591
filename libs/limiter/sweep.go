package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// SweepEvery is how often a pod looks for leases to hand back and for shadow
// charges to tell: both go with the next ask of their subject if there is one.
const SweepEvery = 100 * time.Millisecond

// Sweep leaves in the outbox what no ask has carried, an errand a subject, as
// long as there is room for it.
func (c *Core) Sweep(now time.Duration) { c.collect(now, false) }

// Drain leaves in the outbox all that this pod holds, as long as there is room
// for it, and reports whether it was all.
func (c *Core) Drain(now time.Duration) (all bool) { return c.collect(now, true) }

func (c *Core) collect(now time.Duration, everything bool) (all bool) {
	all = true
	c.table.Sweep(func(entry *table.Entry[record]) bool {
		if !c.out.room() {
			all = false
			return true
		}
		r := &entry.Record
		e := Errand{Ask: store.Ask{Subject: entry.Subject()}}
		holds := false
		for i := range r.states {
			s := &r.states[i]
			s.lease.void(now)
			if len(e.Ask.Entries) < store.EntriesMax {
				c.collectState(now, s, everything, &e)
			}
			holds = holds || s.lease.held > 0 || s.shadow.tokens > 0
		}
		if len(e.Ask.Entries) > 0 {
			c.out.add(e)
		}
		if everything {
			all = all && !holds
		}
		return holds || r.pinned()
	})
	return all
}

// collectState adds what one rule has for the store: a rule in shadow has
// charges to tell, another tokens to hand back.
func (c *Core) collectState(now time.Duration, s *state, everything bool, e *Errand) {
	if s.rule.Mode == limit.Shadow {
		if s.shadow.tokens > 0 {
			sum := s.shadow.take()
			e.add(c.shadowEntry(s, sum), sum)
		}
		return
	}
	keep := s.waiting + s.ahead(now, c.pods())
	if everything {
		keep = 0
	}
	if everything && s.lease.held > 0 || s.lease.surplus(now, keep, leaseGrace) {
		from := s.lease.from
		e.add(store.Entry{Rule: s.rule, Limit: s.limit, Give: s.lease.release(now, keep), GivenFrom: from}, tally{})
	}
}

func (e *Errand) add(entry store.Entry, t tally) {
	e.Ask.Entries = append(e.Ask.Entries, entry)
	e.tallies = append(e.tallies, t)
}

func (c *Core) shadowEntry(s *state, sum tally) store.Entry {
	return store.Entry{Rule: s.rule, Limit: s.limit, Want: sum.tokens, Member: c.next()}
}

// count adds an admitted request to the tallies of the group's shadow rules. A
// tally that is full is told at once, the others with the next ask or sweep.
func (c *Core) count(now time.Duration, g *group, charges []limit.Charge) {
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
func (c *Core) tally(now time.Duration, r *record, charges []limit.Charge) {
	for i := range charges {
		ch := &charges[i]
		if ch.Rule.Mode != limit.Shadow || ch.Cost == 0 {
			continue
		}
		s := r.state(now, ch, &c.out)
		if s.rule.Mode != limit.Shadow { // a newer ruleset enforces it
			continue
		}
		s.shadow.add(tally{tokens: ch.Cost, requests: 1})
		if s.shadow.full(s.limit) {
			c.out.tell(ch.Subject, s)
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

// Errands empties the outbox: each is to be carried to the store, and its
// reply, if there is one, to Settle. Each may be carried by a goroutine of its own.
func (c *Core) Errands() []Errand { return c.out.take() }

// Settle takes the reply to an errand. What is learned of a subject whose record
// is gone is of no use: none is made for it.
func (c *Core) Settle(now time.Duration, e *Errand, result *store.Result) {
	shard := c.table.Shard(&e.Ask.Subject)
	shard.Lock()
	defer shard.Unlock()
	r := &record{}
	if entry := shard.Find(&e.Ask.Subject); entry != nil {
		r = &entry.Record
	}
	c.learn(now, e.Sent, r, &e.Ask, e.tallies, result)
}
