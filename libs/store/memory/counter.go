package memory

import (
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// counter is the state of one rule for one subject; which field counts is the
// rule's algorithm, which is part of the tag.
type counter struct {
	tag     uint32
	expires time.Duration // from when on it is full, as it was last seen
	tokens  bucket.Tokens
	window  bucket.Window
	log     bucket.Log
}

func fresh(now time.Duration, e *store.Entry) counter {
	return counter{tag: e.Rule.Tag, tokens: bucket.Full(now, e.Limit)}
}

// prepare brings the counter to now: a time in the future is mended, a log's
// old attempts go, and what is handed back is there again.
func (c *counter) prepare(now time.Duration, e *store.Entry) {
	l := e.Limit
	switch e.Rule.Algorithm {
	case limit.TokenBucket:
		c.tokens, _ = c.tokens.Mend(now)
		if e.Give > 0 {
			c.tokens = c.tokens.Give(now, l, e.Give, e.GivenFrom)
		}
	case limit.FixedWindow:
		c.window, _ = c.window.Mend(now, l.Window)
		if e.Give > 0 {
			c.window = c.window.Give(now, l.Window, e.Give, e.GivenFrom)
		}
	case limit.SlidingLog:
		c.log = c.log.Trim(now, l.Window)
		if e.Give > 0 {
			c.log = c.log.Give(e.Member)
		}
	}
}

// left is what the counter could grant.
func (c *counter) left(now time.Duration, e *store.Entry) float64 {
	switch e.Rule.Algorithm {
	case limit.FixedWindow:
		return float64(e.Limit.Count - c.window.CountAt(now, e.Limit.Window))
	case limit.SlidingLog:
		return float64(e.Limit.Count - c.log.Count())
	default:
		return c.tokens.LevelAt(now, e.Limit)
	}
}

// holds reports whether the entry's need is there. Nothing is always there,
// also after an edit that left the count above the limit.
func (c *counter) holds(now time.Duration, e *store.Entry) bool {
	return e.Need == 0 || c.left(now, e) >= float64(e.Need)
}

// take takes what is to be granted and returns it: at least the need, which is there.
func (c *counter) take(now time.Duration, e *store.Entry) int64 {
	n := grant(e, bucket.Whole(c.left(now, e)))
	switch {
	case n == 0:
	case e.Rule.Algorithm == limit.FixedWindow:
		c.window = c.window.Take(now, e.Limit.Window, n)
	case e.Rule.Algorithm == limit.SlidingLog:
		c.log = c.log.Take(now, n, e.Member)
	default:
		c.tokens = c.tokens.Take(now, e.Limit, n)
	}
	return n
}

// grant is how much of what is left an entry gets.
func grant(e *store.Entry, left int64) int64 {
	lends := e.Rule.Algorithm == limit.TokenBucket ||
		e.Rule.Algorithm == limit.FixedWindow && left > store.LendReserve*e.Want
	if lends || e.Rule.Mode == limit.Shadow {
		return min(e.Want, left)
	}
	return e.Need
}

// wait is the time until the need, which is not there, will be.
func (c *counter) wait(now time.Duration, e *store.Entry) time.Duration {
	switch e.Rule.Algorithm {
	case limit.FixedWindow:
		return bucket.Rest(now, e.Limit.Window)
	case limit.SlidingLog:
		return c.log.Wait(now, e.Limit.Window, e.Need, e.Limit.Count)
	default:
		return c.tokens.Wait(now, e.Limit, float64(e.Need))
	}
}

// rest is what is left in whole tokens, and the time until nothing is used.
func (c *counter) rest(now time.Duration, e *store.Entry) (int64, time.Duration) {
	left := bucket.Whole(c.left(now, e))
	switch e.Rule.Algorithm {
	case limit.FixedWindow:
		return left, bucket.Rest(now, e.Limit.Window)
	case limit.SlidingLog:
		return left, c.log.Rest(now, e.Limit.Window)
	default:
		return left, c.tokens.Wait(now, e.Limit, float64(e.Limit.Burst))
	}
}
