package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// Counting after: a rule for floods admits first and counts in sums, so that a
// request costs one look at a time in memory. Once the store says that a sum was
// more than there was, everything is refused until the excess has been paid off:
// over time the limit holds, and a flood costs the store a call now and then.

const (
	// mitigationMin is how long a rule refuses at least: it bounds the calls to
	// the store of a key that stays just above its limit.
	mitigationMin = 50 * time.Millisecond
	// mitigationMax is how long it refuses at most: a flood that has ended must
	// not keep an address out for what came long ago.
	mitigationMax = 10 * time.Second
)

// counted takes the store's reply to a sum of a rule that counts after. Every
// pod pays off its own excess, each at its part of the rate: a flood over all of
// them would else pass once a pod.
func (s *state) counted(now time.Duration, e *store.Entry, o *store.Outcome, pods int) {
	excess := e.Want - o.Granted
	if excess <= 0 {
		return
	}
	pause := s.limit.Rate.Time(float64(excess) * float64(pods))
	if s.limit.Window > 0 {
		pause = o.Reset // until the window ends: nothing refills
	}
	s.mitigated = now + min(max(pause, mitigationMin), mitigationMax)
}

// mitigate refuses a charge of a rule that counts after.
func (s *state) mitigate(now time.Duration, c *limit.Charge, o *limit.Outcome) {
	o.Short, o.DecidedBy = true, limit.ByMitigation
	if c.Banned {
		o.DecidedBy = limit.ByBan
		return
	}
	o.Known, o.Retry = true, s.mitigated-now
	o.Reset = s.limit.Span()
}

// deferred reports whether a charge is counted without the request waiting for
// it: a shadow rule's, and that of a rule that counts after.
func deferred(c *limit.Charge) bool { return c.Cost > 0 && !c.Rule.Waits() }
