// Package counter is what a store does with one rule's counter, as steps on its
// state. The in-process store keeps the state and takes the steps itself; the
// Redis store's script takes them in Lua and returns the state, from which this
// package says the rest.
package counter

import (
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// Counter is the state of one rule for one subject; which field counts is the
// rule's algorithm.
type Counter struct {
	Tokens bucket.Tokens
	Window bucket.Window
	Log    bucket.Log
}

// Fresh is the state of a counter that nobody has used.
func Fresh(now time.Duration, e *store.Entry) Counter {
	return Counter{Tokens: bucket.Full(now, e.Limit)}
}

func (c *Counter) live(now time.Duration, e *store.Entry) bucket.Log {
	return c.Log.Live(now, e.Limit.Window)
}

// Prepare brings the counter to now: a time in the future is mended, and what
// is handed back is there again.
func (c *Counter) Prepare(now time.Duration, e *store.Entry) {
	l := e.Limit
	switch e.Rule.Algorithm {
	case limit.TokenBucket:
		c.Tokens, _ = c.Tokens.Mend(now)
		if e.Give > 0 {
			c.Tokens = c.Tokens.Give(l, e.Give, e.GivenFrom)
		}
	case limit.FixedWindow:
		c.Window, _ = c.Window.Mend(now, l.Window)
		if e.Give > 0 {
			c.Window = c.Window.Give(now, l.Window, e.Give, e.GivenFrom)
		}
	case limit.SlidingLog:
		c.Log = c.Log.Mend(now)
		if e.Give > 0 {
			c.Log = c.Log.Give(e.Member)
		}
	}
}

// left is what the counter could grant.
func (c *Counter) left(now time.Duration, e *store.Entry) float64 {
	switch e.Rule.Algorithm {
	case limit.FixedWindow:
		return float64(e.Limit.Count - c.Window.CountAt(now, e.Limit.Window))
	case limit.SlidingLog:
		return float64(e.Limit.Count - c.live(now, e).Count())
	default:
		return c.Tokens.LevelAt(now, e.Limit)
	}
}

// Holds reports whether the entry's need is there. Nothing is always there,
// also after an edit that left the count above the limit.
func (c *Counter) Holds(now time.Duration, e *store.Entry) bool {
	return e.Need == 0 || c.left(now, e) >= float64(e.Need)
}

// Take takes what is to be granted and returns it: at least the need, which is there.
func (c *Counter) Take(now time.Duration, e *store.Entry) int64 {
	n := grant(e, bucket.Whole(c.left(now, e)))
	switch {
	case n == 0:
	case e.Rule.Algorithm == limit.FixedWindow:
		c.Window = c.Window.Take(now, e.Limit.Window, n)
	case e.Rule.Algorithm == limit.SlidingLog:
		c.Log = c.live(now, e).Take(now, n, e.Member)
	default:
		c.Tokens = c.Tokens.Take(now, e.Limit, n)
	}
	return n
}

// grant is how much of what is left an entry gets.
func grant(e *store.Entry, left int64) int64 {
	if e.Rule.Algorithm == limit.SlidingLog && e.Rule.Mode != limit.Shadow {
		return e.Need
	}
	return min(e.Want, left)
}

// Wait is the time until the need, which is not there, will be.
func (c *Counter) Wait(now time.Duration, e *store.Entry) time.Duration {
	switch e.Rule.Algorithm {
	case limit.FixedWindow:
		return bucket.Rest(now, e.Limit.Window)
	case limit.SlidingLog:
		return c.live(now, e).Wait(now, e.Limit.Window, e.Need, e.Limit.Count)
	default:
		return c.Tokens.Wait(now, e.Limit, float64(e.Need))
	}
}

// Rest is what is left in whole tokens, and the time until nothing is used.
func (c *Counter) Rest(now time.Duration, e *store.Entry) (int64, time.Duration) {
	left := bucket.Whole(c.left(now, e))
	switch e.Rule.Algorithm {
	case limit.FixedWindow:
		return left, bucket.Rest(now, e.Limit.Window)
	case limit.SlidingLog:
		return left, c.live(now, e).Rest(now, e.Limit.Window)
	default:
		return left, c.Tokens.Wait(now, e.Limit, float64(e.Limit.Burst))
	}
}
