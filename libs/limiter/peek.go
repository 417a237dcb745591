package limiter

import (
	"context"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// Peek says what Check would say of a request now, and overwrites decision with
// it, but takes nothing and counts nobody's demand. Where the process cannot tell
// it reads the store, once for each subject, until it has waited for Config.Budget:
// a peek waits in no queue. Rules in shadow are not looked at. What the store does not
// answer is the fail mode's word: an open rule lets pass, whatever its fallback has left.
// It returns how long it took, for the Waited of a request that depends on it.
func (l *Limiter) Peek(request *limit.Request, decision *limit.Decision) time.Duration {
	decision.Reset(request)
	by, began := limit.ByNoRule, l.now()-request.Waited
	charges := request.Charges
	for first := 0; first < len(charges); {
		end := first + 1
		for end < len(charges) && charges[end].Subject == charges[first].Subject {
			end++
		}
		by = max(by, l.peek(began, charges[first:end], decision.Outcomes[first:end], decision))
		first = end
	}
	decision.Verdict, decision.DecidedBy = limit.Allowed, by
	name(decision)
	return l.now() - began
}

// peek is Peek for the charges of one subject. It returns who spoke for them.
func (l *Limiter) peek(began time.Duration, charges []limit.Charge, outcomes []limit.Outcome, d *limit.Decision) (by limit.DecidedBy) {
	var ask store.Ask
	sent := l.now()
	if !l.core.peek(sent, charges, outcomes, &ask) {
		return limit.ByNoRule
	}
	var result store.Result
	err := errBudget
	if !l.core.spent(sent, began) {
		l.core.book.asks.Add(1)
		err = l.take(context.Background(), &ask, &result)
	}
	if err != nil {
		d.Cause = err
		unread(outcomes)
		return limit.ByFallback
	}
	l.core.peeked(l.now(), sent, charges, &ask, &result)
	read := 0
	for i := range outcomes {
		if o := &outcomes[i]; o.DecidedBy == limit.ByStore {
			tell(o, &result.Outcomes[read])
			read++
		}
	}
	return limit.ByStore
}

// peek takes the charges of one subject down the stages in the process. It reports
// whether the store has to be read, and makes the ask that does so: of each outcome
// that is ByStore, in their order.
func (c *Core) peek(now time.Duration, charges []limit.Charge, outcomes []limit.Outcome, ask *store.Ask) bool {
	shard := c.table.Shard(&charges[0].Subject)
	shard.Lock()
	defer shard.Unlock()
	r := &shard.Get(&charges[0].Subject).Record
	said := c.look(now, r, charges, outcomes)
	c.unspent(now, r, charges, outcomes)
	if said != lacking {
		return false
	}
	ask.Subject = charges[0].Subject
	for i := range outcomes {
		if o := &outcomes[i]; o.DecidedBy == limit.ByStore {
			ask.Entries = append(ask.Entries, store.Entry{Rule: o.Rule, Limit: o.Limit})
		}
	}
	return true
}

// peeked takes the reply to a peek's ask into the record: a flood of peeks at what
// is empty must not reach the store. A log's reply tells nothing that lasts.
func (c *Core) peeked(now, sent time.Duration, charges []limit.Charge, ask *store.Ask, result *store.Result) {
	shard := c.table.Shard(&charges[0].Subject)
	shard.Lock()
	defer shard.Unlock()
	r := &shard.Get(&charges[0].Subject).Record
	for i := range ask.Entries {
		e := &ask.Entries[i]
		s := r.find(e.Rule.Tag)
		if s == nil || s.limit != e.Limit || e.Rule.Algorithm == limit.SlidingLog {
			continue // forgotten or edited meanwhile
		}
		s.known.learn(sent, result.At, e.Rule, e.Limit, 0, &result.Outcomes[i])
		s.recovered(now)
	}
}

// unread is the fail mode's word for what the store was to tell.
func unread(outcomes []limit.Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		if o.DecidedBy != limit.ByStore {
			continue
		}
		o.Known, o.DecidedBy = false, limit.ByFallback
		if o.Rule.FailMode == limit.FailClosed {
			o.DecidedBy = limit.ByFailClosed
		}
	}
}

// tell takes over what the store has left. What this process holds on lease does
// not suffice for the charge, and is not counted. A log does not say when its
// oldest attempt ends: the wait told is for the newest.
func tell(o *limit.Outcome, reply *store.Outcome) {
	o.Known, o.Remaining, o.Reset = true, reply.Remaining, reply.Reset
	if reply.Remaining >= o.Cost {
		return
	}
	o.Short, o.Retry = true, reply.Reset
	if o.Limit.Window == 0 {
		o.Retry = o.Limit.Rate.Time(float64(o.Cost - reply.Remaining))
	}
}
