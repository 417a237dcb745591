package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/counter"
)

// fallbackFactor is how many times its fair share a pod admits while the store
// does not answer: traffic is never spread evenly, and an outage of the limiter
// must not become one of the API.
const fallbackFactor = 2

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
func (c *Core) fail(now time.Duration, r *record, charges []limit.Charge, outcomes []limit.Outcome) (passes bool) {
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
			fresh := counter.Fresh(now, &e)
			s.fallback = &fresh
		}
		s.fallback.Prepare(now, &e)
		if !s.fallback.Holds(now, &e) {
			o.Short, o.Never, passes = true, ch.Cost > ch.Limit.Size(), false
			o.Retry = s.fallback.Wait(now, &e)
		}
	}
	if !passes {
		return false
	}
	for i := range charges {
		ch, o := &charges[i], &outcomes[i]
		if o.DecidedBy != limit.ByFallback {
			continue
		}
		s := r.state(now, ch, &c.out)
		e := c.fallbackEntry(ch)
		e.Member = c.next()
		s.fallback.Take(now, &e)
		o.Known = true
		o.Remaining, o.Reset = s.fallback.Rest(now, &e)
		s.admitted(now, ch, ch.Cost)
	}
	return true
}

func (c *Core) fallbackEntry(ch *limit.Charge) store.Entry {
	return store.Entry{Rule: ch.Rule, Limit: fallbackLimit(ch.Limit, c.cfg.Pods(), max(ch.Rule.Largest, ch.Cost)), Need: ch.Cost, Want: ch.Cost}
}
