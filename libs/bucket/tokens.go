package bucket

import (
	"math"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// Tokens is the state of a token bucket. A bucket that was never written is Full.
type Tokens struct {
	Level float64       // tokens when it was last written
	At    time.Duration // when that was
}

// Full is the state of a bucket that nobody has used.
func Full(now time.Duration, l limit.Limit) Tokens {
	return Tokens{Level: float64(l.Burst), At: now}
}

// LevelAt is the number of tokens, fractions included, that the bucket holds under l.
func (b Tokens) LevelAt(now time.Duration, l limit.Limit) float64 {
	level := b.Level
	if elapsed := now - b.At; elapsed > 0 {
		level += float64(micros(elapsed) * l.Rate.PerMicrosecond()) // rounded before it is added, as the store's script does
	}
	return min(level, float64(l.Burst))
}

// Mend returns the state with its time not in the future, and whether it was.
func (b Tokens) Mend(now time.Duration) (Tokens, bool) {
	if b.At <= now {
		return b, false
	}
	return Tokens{Level: b.Level, At: now}, true
}

// Take returns the state after n tokens are taken. The caller has seen that
// LevelAt holds them.
func (b Tokens) Take(now time.Duration, l limit.Limit, n int64) Tokens {
	return Tokens{Level: b.LevelAt(now, l) - float64(n), At: now}
}

// Give returns the state after n tokens, granted at the time from, are handed
// back; never above full. A state older than from has not seen the grant (a
// failover lost it): it is returned unchanged, for the tokens were never taken
// from it. The refill since the last write stays to be reckoned, at the rate of
// whoever looks next: what is handed back late, under a limit that has been
// edited since, refills nothing at the old rate.
func (b Tokens) Give(l limit.Limit, n int64, from time.Duration) Tokens {
	if b.At < from {
		return b
	}
	return Tokens{Level: min(b.Level+float64(n), float64(l.Burst)), At: b.At}
}

// Wait is the time from now until the bucket holds n tokens if nobody takes
// any, in whole microseconds, rounded up: waiting that long is enough. It is 0
// if they are there, and at most 100 years: for n above the burst, which it never
// holds, just that.
func (b Tokens) Wait(now time.Duration, l limit.Limit, n float64) time.Duration {
	b, _ = b.Mend(now)
	switch {
	case b.LevelAt(now, l) >= n:
		return 0
	case n > float64(l.Burst):
		return waitMax
	}
	wait := math.Ceil((n - b.Level) / l.Rate.PerMicrosecond())
	if wait >= micros(waitMax) {
		return waitMax
	}
	at := b.At + time.Duration(wait)*time.Microsecond
	// The division and the product round differently, by more the larger the burst is beside the rate.
	for more := time.Microsecond; b.LevelAt(at, l) < n; more *= 2 {
		at += more
	}
	return max(at-now, time.Microsecond)
}

// waitMax is the longest time that Wait returns: a bucket of 1e9 tokens at one
// a year would not fit a time.Duration.
const waitMax = 100 * 365 * 24 * time.Hour

// Whole is the number of whole tokens in a level, 0 if it is negative.
func Whole(level float64) int64 { return int64(max(0, level)) }

func micros(d time.Duration) float64 { return float64(d / time.Microsecond) }
