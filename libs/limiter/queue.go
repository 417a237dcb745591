package limiter

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// queueMax bounds the requests of one subject that wait for the store. What
// comes beyond it is decided by the fail modes, as if the store had not answered.
const queueMax = 1024

// errQueue is what is then the decision's cause.
var errQueue = fmt.Errorf("%w: %d requests of the subject wait already", store.ErrUnavailable, queueMax)

// enqueue lets a call wait for the store's reply. If no ask is in flight, the
// call carries one.
func (c *Core) enqueue(now time.Duration, r *record, call *Call, g *group) Step {
	if len(r.queue) >= queueMax {
		return c.failCall(now, r, call, errQueue)
	}
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
	} else {
		c.untold(r, &f.ask, f.tallies)
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
		if err == nil {
			byStore(outcomes)
		}
		return StepDone
	case paid:
		g.by = c.spend(now, r, charges, outcomes, call.paid(g), false)
		if err == nil {
			byStore(outcomes)
			g.by = max(g.by, limit.ByStore)
		}
		return StepGo
	}
	if err == nil && c.spent(now, call.began) {
		err = errBudget
	}
	if err != nil {
		return c.failCall(now, r, call, err)
	}
	c.join(now, r, call, g)
	return StepWait
}

// failCall decides a call's group by the fail modes.
func (c *Core) failCall(now time.Duration, r *record, call *Call, err error) Step {
	g := &call.groups[call.at]
	charges, outcomes := call.charges(g), call.outcomes(g)
	if call.decision.Cause == nil {
		call.decision.Cause = err
	}
	if !c.fail(now, r, charges, outcomes, call.paid(g)) {
		return StepDone
	}
	c.spend(now, r, charges, outcomes, call.paid(g), false)
	g.by = limit.ByFallback
	return StepGo
}

// byStore says of what the stages found after a reply that the store decided it.
func byStore(outcomes []limit.Outcome) {
	for i := range outcomes {
		switch o := &outcomes[i]; o.DecidedBy {
		case limit.ByLease, limit.ByKnowledge, limit.ByHold:
			o.DecidedBy = limit.ByStore
		}
	}
}

// askAlone makes the ask of a group that charges a log: the log's attempt is
// this request's own. What is on lease is spent at once.
func (c *Core) askAlone(now time.Duration, r *record, call *Call, g *group) {
	charges, outcomes, payments := call.charges(g), call.outcomes(g), call.paid(g)
	g.by = c.spend(now, r, charges, outcomes, payments, true)
	f := &call.flight
	f.begin(now, charges[0].Subject, true)
	for i := range charges {
		ch, p := &charges[i], &payments[i]
		if !enforced(ch) || outcomes[i].DecidedBy == limit.ByLease {
			continue
		}
		s := r.state(now, ch, &c.out)
		s.known.asked(now)
		need := s.lacks(ch.Cost)
		if *p = (payment{leased: ch.Cost - need, window: s.lease.window}); p.leased > 0 {
			s.spend(p.leased)
			g.shard.Mark(g.entry)
		}
		e := store.Entry{Need: need, Want: need}
		if ch.Rule.Algorithm == limit.SlidingLog {
			p.member = c.next()
			e.Member = p.member
		}
		f.add(s, e, tally{})
		f.charges = append(f.charges, i)
	}
}

// settleAlone takes the reply to askAlone's ask.
func (c *Core) settleAlone(now time.Duration, r *record, call *Call, g *group, err error) Step {
	charges, outcomes, payments := call.charges(g), call.outcomes(g), call.paid(g)
	f := &call.flight
	g.shard.Mark(g.entry)
	if err != nil {
		// What the asked rules had on lease goes back: the fallback pays for all.
		for _, j := range f.charges {
			c.takeBackCharge(now, r, &charges[j], &payments[j], g, nil)
		}
		step := c.failCall(now, r, call, err)
		if step == StepDone {
			c.takeBackGroup(now, r, charges, payments, g)
		}
		return step
	}
	for i, j := range f.charges {
		ch, o, reply, e := &charges[j], &outcomes[j], &f.result.Outcomes[i], &f.ask.Entries[i]
		s := r.state(now, ch, &c.out)
		c.book.settled(e, reply)
		s.known.learn(f.sent, f.result.At, e.Rule, e.Limit, e.Need, reply)
		s.recovered(now)
		o.DecidedBy, o.Known = limit.ByStore, true
		o.Short, o.Never, o.Retry = reply.Short, reply.Never, reply.Retry
		o.Remaining, o.Reset = reply.Remaining, reply.Reset
		if f.result.Allowed {
			payments[j].stored, payments[j].at = e.Need, f.result.At
			s.admitted(now, ch, ch.Cost)
		}
	}
	if !f.result.Allowed {
		c.takeBackGroup(now, r, charges, payments, g)
		return StepDone
	}
	g.by = limit.ByStore
	return StepGo
}
