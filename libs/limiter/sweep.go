package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// SweepEvery is how often a pod looks for leases to hand back and for charges
// to tell: both go with the next ask of their subject if there is one.
const SweepEvery = 100 * time.Millisecond

// Sweep leaves in the outbox what no ask has carried, an errand a subject, as
// long as there is room for it.
func (c *Core) Sweep(now time.Duration) { c.collect(now, false) }

// Drain leaves in the outbox all that this pod holds, as long as there is room
// for it, and reports whether it was all.
func (c *Core) Drain(now time.Duration) (all bool) { return c.collect(now, true) }

func (c *Core) collect(now time.Duration, everything bool) (all bool) {
	all = true
	c.book.begin(now)
	defer c.book.end()
	c.table.Sweep(func(entry *table.Entry[record]) bool {
		room := c.out.room()
		all = all && room
		r := &entry.Record
		e := Errand{Ask: store.Ask{Subject: entry.Subject()}}
		holds := false
		for i := range r.states {
			s := &r.states[i]
			s.void(now)
			keep := s.target(now, c.pods())
			if room && len(e.Ask.Entries) < store.EntriesMax {
				c.collectState(now, s, keep, everything, &e)
			}
			if s.rule.Waits() {
				s.seen(now, e.Ask.Subject, keep, c.book.period)
			}
			holds = holds || s.lease.held > 0 || s.uncounted.tokens > 0
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

// collectState adds what one rule has for the store: one that no request waits
// for has charges to tell, another tokens to hand back.
func (c *Core) collectState(now time.Duration, s *state, keep int64, everything bool, e *Errand) {
	if !s.rule.Waits() {
		if s.uncounted.tokens > 0 && !s.counting {
			e.add(s.tell(c.next()))
		}
		return
	}
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

// tell takes the charges that the store has not been told, as an entry of an
// ask; member names them in a log.
func (s *state) tell(member uint64) (store.Entry, tally) {
	sum := s.uncounted.take()
	s.counting, s.unheard = true, false
	return store.Entry{Rule: s.rule, Limit: s.limit, Want: sum.tokens, Member: member}, sum
}

// count adds an admitted request to the tallies of the group's rules that it
// does not wait for. A tally that is full is told at once, the others with the
// next ask or sweep.
func (c *Core) count(now time.Duration, g *group, charges []limit.Charge) {
	if !anyDeferred(charges) {
		return
	}
	g.shard.Lock()
	defer g.shard.Unlock()
	g.entry = g.shard.Again(g.entry, &charges[0].Subject)
	c.tally(now, &g.entry.Record, charges)
	g.shard.Mark(g.entry)
}

// tally counts a group's charges that no request waits for in its record.
func (c *Core) tally(now time.Duration, r *record, charges []limit.Charge) {
	for i := range charges {
		ch := &charges[i]
		if !deferred(ch) {
			continue
		}
		s := r.state(now, ch, &c.out)
		if s.rule.Waits() { // in a newer ruleset
			continue
		}
		s.uncounted.add(tally{tokens: ch.Cost, requests: 1})
		if s.full(c.pods()) && !s.counting && !s.unheard && c.out.room() {
			c.out.tell(ch.Subject, s)
		}
	}
}

func anyDeferred(charges []limit.Charge) bool {
	for i := range charges {
		if deferred(&charges[i]) {
			return true
		}
	}
	return false
}

// Errands empties the outbox: each is to be carried to the store, and its
// reply to Settle, or, if there is none, the errand to Unsettled. Each may be carried by a goroutine of its own.
func (c *Core) Errands() []Errand {
	errands := c.out.take()
	c.book.errands.Add(int64(len(errands)))
	return errands
}

// Unsettled takes an errand that was not answered: tokens are lost, charges to
// tell wait for the next.
func (c *Core) Unsettled(e *Errand) {
	shard := c.table.Shard(&e.Ask.Subject)
	shard.Lock()
	defer shard.Unlock()
	entry := shard.Find(&e.Ask.Subject)
	if entry == nil {
		c.book.lose(&e.Ask)
		return
	}
	c.untold(&entry.Record, &e.Ask, e.tallies)
	shard.Mark(entry)
}

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
