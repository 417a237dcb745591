package limiter

import (
	"math"
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
)

// look walks one charge down the stages in the process, in their order, and
// says in o which of them speaks for it: a refusal if o.Short, a payment if
// DecidedBy is ByLease, and where none does, DecidedBy is ByStore: only the
// store can tell. It changes nothing.
func (s *state) look(now time.Duration, c *limit.Charge, o *limit.Outcome) {
	lacks, bound := s.lacks(c.Cost), s.known.bound(now, s.limit)
	switch {
	case c.Banned:
		o.Short, o.DecidedBy = true, limit.ByBan
	case c.Cost == 0:
		s.describe(now, o, bound, 0)
	case c.Cost > c.Limit.Size():
		s.describe(now, o, bound, 0)
		o.Short, o.Never, o.DecidedBy = true, true, limit.ByKnowledge
	case s.capped(now, c):
		s.describe(now, o, bound, 0)
		o.Retry = max(s.cap.Wait(now, c.Limit, float64(c.Cost)), s.retry(now, c.Limit, lacks))
		o.Short, o.DecidedBy = true, limit.ByCap
	case lacks == 0:
		s.describe(now, o, bound, c.Cost)
		o.DecidedBy = limit.ByLease
	case bound < float64(lacks) && s.known.believed(now):
		s.describe(now, o, bound, 0)
		o.Retry = max(s.hold.rest(now, lacks), s.known.wait(now, c.Limit, lacks))
		o.Short, o.DecidedBy = true, limit.ByKnowledge
	case s.hold.rest(now, lacks) > 0:
		s.describe(now, o, bound, 0)
		o.Retry = s.hold.rest(now, lacks)
		o.Short, o.DecidedBy = true, limit.ByHold
	default:
		s.describe(now, o, bound, 0)
		o.DecidedBy = limit.ByStore
	}
}

// retry is the time until a request that lacks so much could be admitted, as
// far as this pod knows.
func (s *state) retry(now time.Duration, l limit.Limit, lacks int64) time.Duration {
	retry := s.hold.rest(now, lacks)
	if s.known.excludes(now, l, lacks) {
		retry = max(retry, s.known.wait(now, l, lacks))
	}
	return retry
}

// describe says what is left of a rule after n more are spent, as far as this
// pod knows: what it holds on lease, and at most bound, what the store can have.
func (s *state) describe(now time.Duration, o *limit.Outcome, bound float64, n int64) {
	if o.Known = !math.IsInf(bound, 1); !o.Known {
		return
	}
	left := min(bound+float64(s.lease.held-s.waiting), float64(s.limit.Size())) - float64(n)
	if s.limit.Window > 0 {
		o.Remaining, o.Reset = bucket.Whole(left), max(0, s.known.reset-now)
		return
	}
	o.Remaining, o.Reset = bucket.Whole(left), s.limit.Rate.Time(float64(s.limit.Burst)-left)
}
