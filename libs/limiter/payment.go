package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// payment is how a charge was paid, so that it can be handed back. The zero
// payment is none.
type payment struct {
	leased   int64         // tokens from the lease
	window   time.Duration // of that lease: lease.window
	stored   int64         // tokens that the store granted to this request alone
	at       time.Duration // the store's time of that
	fallback bool          // by the fallback, all of it
	member   uint64        // names it in a log
}

// spend pays a group's charges from the lease. Those that are new, not back
// from the queue, are counted as demand.
func (c *Core) spend(now time.Duration, r *record, charges []limit.Charge, outcomes []limit.Outcome, payments []payment, isNew bool) limit.DecidedBy {
	var by limit.DecidedBy
	for i := range charges {
		ch := &charges[i]
		if !enforced(ch) {
			continue
		}
		s := r.again(now, ch, &c.out)
		if isNew {
			s.demand.add(now, ch.Cost)
		}
		if outcomes[i].DecidedBy != limit.ByLease || payments != nil && payments[i].leased > 0 {
			continue // it is not the lease that pays, or it has paid
		}
		s.spend(ch.Cost)
		s.admitted(now, ch, ch.Cost)
		if payments != nil {
			payments[i] = payment{leased: ch.Cost, window: s.lease.window}
		}
		by = limit.ByLease
	}
	return by
}

// takeBack undoes what a group paid, of a request that another one refused.
func (c *Core) takeBack(now time.Duration, call *Call, g *group) {
	if g.by == 0 {
		return
	}
	charges := call.charges(g)
	g.shard.Lock()
	defer g.shard.Unlock()
	g.entry = g.shard.Again(g.entry, &charges[0].Subject)
	c.takeBackGroup(now, &g.entry.Record, charges, call.paid(g), g)
}

// takeBackGroup is takeBack under the shard's lock.
func (c *Core) takeBackGroup(now time.Duration, r *record, charges []limit.Charge, payments []payment, g *group) {
	var e Errand
	for i := range charges {
		c.takeBackCharge(now, r, &charges[i], &payments[i], g, &e)
	}
	if len(e.Ask.Entries) > 0 {
		e.Ask.Subject = charges[0].Subject
		c.out.add(e)
	}
}

// takeBackCharge undoes one payment: the lease's part at once, the store's by
// an entry of the errand.
func (c *Core) takeBackCharge(now time.Duration, r *record, ch *limit.Charge, p *payment, g *group, e *Errand) {
	if p.leased == 0 && p.stored == 0 && !p.fallback {
		*p = payment{}
		return
	}
	s := r.state(now, ch, &c.out)
	if p.leased == ch.Cost || p.stored > 0 || p.fallback { // it was admitted
		s.admitted(now, ch, -ch.Cost)
	}
	switch {
	case p.fallback:
		c.unfail(now, s, ch, p.member)
	case p.leased > 0:
		s.unspend(now, p.leased, p.window)
		g.shard.Mark(g.entry)
	}
	if p.stored > 0 {
		e.add(store.Entry{Rule: ch.Rule, Limit: ch.Limit, Give: p.stored, GivenFrom: p.at, Member: p.member}, tally{})
	}
	*p = payment{}
}
