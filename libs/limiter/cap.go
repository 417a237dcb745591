package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
)

// The cap: a pod never lets more through for a key than the key's whole limit,
// whatever the store says (a failover or an eviction refills a bucket there).
// It is a bucket of the full rate and burst on the pod's own clock. A fair
// share, even doubled, would refuse a client whose connections are pinned to
// two of fifty pods. Windows and logs have none: where a window begins is the
// store's to say.

// capped reports whether this pod alone has used up the limit.
func (s *state) capped(now time.Duration, c *limit.Charge) bool {
	return c.Rule.Algorithm == limit.TokenBucket && s.cap.LevelAt(now, c.Limit) < float64(c.Cost)
}

// spend counts what the store granted.
func (s *state) spend(now time.Duration, c *limit.Charge, n int64) {
	if c.Rule.Algorithm == limit.TokenBucket {
		s.cap = s.cap.Take(max(now, s.cap.At), c.Limit, n)
	}
}

// refund counts back what was handed back to the store.
func (s *state) refund(now time.Duration, c *limit.Charge, n int64) {
	if c.Rule.Algorithm == limit.TokenBucket && n > 0 {
		s.cap = s.cap.Give(max(now, s.cap.At), c.Limit, n, 0)
	}
}

// describeCap says what the cap holds: an upper bound of what is left.
func (s *state) describeCap(now time.Duration, c *limit.Charge, o *limit.Outcome) {
	o.Known = true
	o.Remaining = bucket.Whole(s.cap.LevelAt(now, c.Limit))
	o.Retry = s.cap.Wait(now, c.Limit, float64(c.Cost))
	o.Reset = s.cap.Wait(now, c.Limit, float64(c.Limit.Burst))
}
