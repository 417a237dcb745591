package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/counter"
)

// The constants of the fallback.
const (
	// fallbackFactor is how many times its fair share a pod admits while the
	// store does not answer: traffic is never spread evenly, and an outage of the
	// limiter must not become one of the API.
	fallbackFactor = 2
	// fallbackLife is how long after the last failure its state lives on: a store
	// that answers now and then must not fill it each time.
	fallbackLife = 10 * time.Second
	// fallbackRetry is what a request is told that the fallback refuses, at most:
	// by then the store may be back.
	fallbackRetry = time.Second
)

// fallback is the counter of an open rule while the store does not answer: the
// pod's part of the limit, in process.
type fallback struct {
	counter counter.Counter
	failed  time.Duration // pod time of the last failure
}

// recovered drops the fallback's state once the store is back for good.
func (s *state) recovered(now time.Duration) {
	if s.fallback != nil && now-s.fallback.failed > fallbackLife {
		s.fallback = nil
	}
}

// fallbackLimit is what a pod may admit by itself of l: its fair share twice
// over, but never so little that a single request becomes impossible.
func fallbackLimit(l limit.Limit, pods int, largest int64) limit.Limit {
	part := func(n int64) int64 { return min(n, max(n*fallbackFactor/int64(pods), largest, 1)) }
	if l.Window > 0 {
		l.Count = part(l.Count)
		return l
	}
	l.Burst = part(l.Burst)
	l.Rate = min(l.Rate, l.Rate*fallbackFactor/limit.Rate(pods))
	return l
}

// fail decides a group's charges by their rules' fail modes, for the store gave
// no answer: those that no lease pays for. The strictest wins: one closed rule
// makes the request unavailable, and one open rule whose fallback is short
// refuses it. Only if it passes is anything taken.
func (c *Core) fail(now time.Duration, r *record, charges []limit.Charge, outcomes []limit.Outcome, payments []payment) (passes bool) {
	passes = true
	for i := range charges {
		ch, o := &charges[i], &outcomes[i]
		if !enforced(ch) || o.DecidedBy == limit.ByLease {
			continue
		}
		o.Known, o.DecidedBy = false, limit.ByFallback
		if ch.Rule.FailMode == limit.FailClosed {
			o.DecidedBy, passes = limit.ByFailClosed, false
			continue
		}
		s := r.state(now, ch, &c.out)
		e := c.fallbackEntry(ch)
		if s.fallback == nil {
			s.fallback = &fallback{counter: counter.Fresh(now, &e)}
		}
		s.fallback.failed = now
		s.fallback.counter.Prepare(now, &e)
		if !s.fallback.counter.Holds(now, &e) {
			o.Short, passes = true, false
			o.Retry = min(s.fallback.counter.Wait(now, &e), fallbackRetry)
		}
	}
	if !passes {
		return false
	}
	for i := range charges {
		ch := &charges[i]
		if outcomes[i].DecidedBy != limit.ByFallback {
			continue
		}
		s := r.state(now, ch, &c.out)
		e := c.fallbackEntry(ch)
		e.Member = c.next()
		s.fallback.counter.Take(now, &e)
		s.admitted(now, ch, ch.Cost)
		payments[i] = payment{fallback: true, member: e.Member}
	}
	return true
}

// unfail puts back what fail took, of a request that another subject refused.
func (c *Core) unfail(now time.Duration, s *state, ch *limit.Charge, member uint64) {
	if s.fallback == nil {
		return
	}
	e := c.fallbackEntry(ch)
	e.Need, e.Want, e.Give, e.GivenFrom, e.Member = 0, 0, ch.Cost, now, member
	if ch.Rule.Algorithm == limit.TokenBucket {
		e.GivenFrom = 0 // whenever it was last written
	}
	s.fallback.counter.Prepare(now, &e)
}

func (c *Core) fallbackEntry(ch *limit.Charge) store.Entry {
	return store.Entry{Rule: ch.Rule, Limit: fallbackLimit(ch.Limit, c.pods(), max(ch.Rule.Largest, ch.Cost)), Need: ch.Cost, Want: ch.Cost}
}
