package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// enqueue lets a call wait for the store's reply. If no ask is in flight, the
// call carries one.
func (c *Core) enqueue(now time.Duration, r *record, call *Call, g *group) Step {
	c.join(now, r, call, g)
	if r.asking {
		return StepWait
	}
	r.asking = true
	c.build(now, r, r.queue[0])
	g.shard.Mark(g.entry)
	return StepAsk
}

func (c *Core) join(now time.Duration, r *record, call *Call, g *group) {
	r.queue = append(r.queue, call)
	charges := call.charges(g)
	for i := range charges {
		if ch := &charges[i]; enforced(ch) {
			r.state(now, ch, &c.out).waiting += ch.Cost
		}
	}
}

// settleQueue takes the reply that the carrier brought into the record and goes
// through the queue in order. A request stays only if another ask can help it,
// so that each reply settles at least the head; nobody holds one rule's tokens
// while it waits for another's. It returns the carrier's step; the steps of the
// others are in its wakes.
func (c *Core) settleQueue(now time.Duration, r *record, carrier *Call, err error) (own Step) {
	r.asking = false
	f := &carrier.flight
	if err == nil {
		c.learn(now, f.sent, r, &f.ask, f.tallies, &f.result)
	}
	queue := r.queue
	r.queue = nil
	for i := range r.states {
		r.states[i].waiting = 0
	}
	own = StepWait
	for _, call := range queue {
		step := c.serve(now, r, call, err)
		switch {
		case step == StepWait:
		case call == carrier:
			own = step
		default:
			carrier.wakes = append(carrier.wakes, Wake{call, step})
		}
	}
	if len(r.queue) == 0 {
		clear(queue)
		r.queue = queue[:0] // for its memory
		return own
	}
	r.asking = true
	head := r.queue[0]
	c.build(now, r, head)
	if head == carrier {
		return StepAsk
	}
	carrier.wakes = append(carrier.wakes, Wake{head, StepAsk})
	return own
}

// serve decides a call of the queue after a reply: it goes on, ends, or joins
// the queue again.
func (c *Core) serve(now time.Duration, r *record, call *Call, err error) Step {
	g := &call.groups[call.at]
	charges, outcomes := call.charges(g), call.outcomes(g)
	switch c.look(now, r, charges, outcomes) {
	case refused:
		c.byStore(outcomes)
		return StepDone
	case paid:
		g.by = c.spend(now, r, charges, outcomes, call.payments[g.first:g.end], false)
		c.byStore(outcomes)
		g.by = max(g.by, limit.ByStore)
		return StepGo
	}
	if err == nil {
		c.join(now, r, call, g)
		return StepWait
	}
	if call.decision.Cause == nil {
		call.decision.Cause = err
	}
	if !c.fail(now, r, charges, outcomes) {
		return StepDone
	}
	c.spend(now, r, charges, outcomes, call.payments[g.first:g.end], false)
	g.by = limit.ByFallback
	return StepGo
}

// byStore says of what the stages found after a reply that the store decided it.
func (c *Core) byStore(outcomes []limit.Outcome) {
	for i := range outcomes {
		switch o := &outcomes[i]; o.DecidedBy {
		case limit.ByLease, limit.ByKnowledge, limit.ByHold:
			o.DecidedBy = limit.ByStore
		}
	}
}

// askAlone makes the ask of a group that charges a log: the log's attempt is
// this request's own. What the lease can pay is spent at once.
func (c *Core) askAlone(now time.Duration, r *record, call *Call, g *group) {
	charges, outcomes, payments := call.charges(g), call.outcomes(g), call.payments[g.first:g.end]
	g.by = c.spend(now, r, charges, outcomes, payments, true)
	f := &call.flight
	f.begin(now, charges[0].Subject, true)
	for i := range charges {
		ch := &charges[i]
		if !enforced(ch) || outcomes[i].DecidedBy == limit.ByLease {
			continue
		}
		s := r.state(now, ch, &c.out)
		s.known.asked(now)
		e := store.Entry{Need: ch.Cost, Want: ch.Cost}
		if ch.Rule.Algorithm == limit.SlidingLog {
			payments[i].member = c.next()
			e.Member = payments[i].member
		}
		f.add(s, e, tally{})
		f.charges = append(f.charges, i)
	}
}

// settleAlone takes the reply to askAlone's ask.
func (c *Core) settleAlone(now time.Duration, r *record, call *Call, g *group, err error) Step {
	charges, outcomes, payments := call.charges(g), call.outcomes(g), call.payments[g.first:g.end]
	f := &call.flight
	if err != nil {
		if !c.fail(now, r, charges, outcomes) {
			c.unspend(now, r, charges, payments, g)
			return StepDone
		}
		g.by = limit.ByFallback
		return StepGo
	}
	for i, j := range f.charges {
		ch, o, reply := &charges[j], &outcomes[j], &f.result.Outcomes[i]
		s := r.state(now, ch, &c.out)
		s.known.learn(f.sent, f.result.At, ch.Rule, ch.Limit, ch.Cost, reply)
		s.fallback = nil
		o.DecidedBy, o.Known = limit.ByStore, true
		o.Short, o.Never, o.Retry = reply.Short, reply.Never, reply.Retry
		o.Remaining, o.Reset = reply.Remaining, reply.Reset
		if f.result.Allowed {
			s.admitted(now, ch, ch.Cost)
			payments[j].from, payments[j].at = fromStore, f.result.At
		}
	}
	if !f.result.Allowed {
		c.unspend(now, r, charges, payments, g)
		return StepDone
	}
	g.by = limit.ByStore
	return StepGo
}

// takeBack undoes what a group paid.
func (c *Core) takeBack(now time.Duration, call *Call, g *group) {
	if g.by == 0 {
		return
	}
	charges, payments := call.charges(g), call.payments[g.first:g.end]
	g.shard.Lock()
	defer g.shard.Unlock()
	g.entry = g.shard.Again(g.entry, &charges[0].Subject)
	c.unspend(now, &g.entry.Record, charges, payments, g)
	var e Errand
	for i := range charges {
		ch, p := &charges[i], &payments[i]
		if p.from != fromStore {
			continue
		}
		g.entry.Record.state(now, ch, &c.out).admitted(now, ch, -ch.Cost)
		e.Ask.Subject = ch.Subject
		e.Ask.Entries = append(e.Ask.Entries, store.Entry{Rule: ch.Rule, Limit: ch.Limit, Give: ch.Cost, GivenFrom: p.at, Member: p.member})
		e.tallies = append(e.tallies, tally{})
	}
	if len(e.Ask.Entries) > 0 {
		c.out.add(e)
	}
}

// unspend puts a group's charges back that the lease paid.
func (c *Core) unspend(now time.Duration, r *record, charges []limit.Charge, payments []payment, g *group) {
	for i := range charges {
		if payments[i].from == fromLease {
			r.state(now, &charges[i], &c.out).unspend(now, &charges[i], payments[i].window)
			payments[i] = payment{}
			g.shard.Mark(g.entry)
		}
	}
}
