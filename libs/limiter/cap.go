package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// The cap: a pod never lets more through for a key than the key's whole limit,
// whatever the store says (a failover or an eviction refills a bucket there).
// It is a bucket of the full rate and burst over what this pod admits, on the
// pod's own clock: whom it refuses, one exact bucket for all pods would refuse
// too. A fair share, even doubled, would refuse a client whose connections are
// pinned to two of fifty pods. Windows and logs have none: where a window
// begins is the store's to say.

// capped reports whether this pod alone has used up the limit.
func (s *state) capped(now time.Duration, c *limit.Charge) bool {
	need := float64(c.Cost)
	return s.cap.Level < need && c.Rule.Algorithm == limit.TokenBucket && s.cap.LevelAt(now, c.Limit) < need
}

// admitted counts what this pod let through; a negative n takes it back.
func (s *state) admitted(now time.Duration, c *limit.Charge, n int64) {
	s.fresh += n
	if c.Rule.Algorithm == limit.TokenBucket {
		s.cap = s.cap.Take(max(now, s.cap.At), c.Limit, n)
	}
}
