package limit

import (
	"fmt"
	"time"
)

// Bounds of a limit. Within them the arithmetic of a bucket is exact to a
// millionth of a token, in Go and in the store's script alike.
const (
	BurstMax    int64 = 1e9                 // tokens
	CountMax    int64 = 1e12                // requests (or cost) a window
	LogCountMax int64 = 1000                // attempts a log keeps: its memory, and its time in the store, grow with them
	WindowMin         = time.Second         //
	WindowMax         = 31 * 24 * time.Hour //
	CostMax     int64 = 1e6                 // tokens one request may cost
)

// Limit is how much is allowed: Rate and Burst for a token bucket, Count and
// Window for a fixed window or a sliding log; the other two are zero. It is a
// plain comparable value; a limit that came out of a ruleset is valid.
type Limit struct {
	Rate   Rate          // tokens per second
	Burst  int64         // tokens a full bucket holds
	Count  int64         // requests (or cost, if the rule says so) per window
	Window time.Duration // length of the window
}

// spanMax is the longest Span: a time.Duration must hold it.
const spanMax = 100 * 365 * 24 * time.Hour

// Size is the largest charge that can ever be granted: Burst or Count.
func (l Limit) Size() int64 {
	if l.Window > 0 {
		return l.Count
	}
	return l.Burst
}

// Span is the time in which the limit renews itself whole: the window, or the
// time in which an empty bucket fills (100 years at most).
func (l Limit) Span() time.Duration {
	if l.Window > 0 {
		return l.Window
	}
	return l.Rate.Time(float64(l.Burst))
}

// String returns "10/s burst 20" or "5 per 1m0s".
func (l Limit) String() string {
	if l.Window > 0 {
		return fmt.Sprintf("%d per %s", l.Count, l.Window)
	}
	return fmt.Sprintf("%s burst %d", l.Rate, l.Burst)
}

// Share is the part of a limit that one region holds, in parts per million.
type Share int32

// WholeShare is the share of a region that is alone.
const WholeShare Share = 1e6

// Of returns the part of a token bucket's limit that the share gives: rate and
// burst scaled, the burst floored to largest (the largest cost of one request),
// so that no request becomes impossible. A window or a log is not split by
// share: its limit returns unchanged.
func (s Share) Of(l Limit, largest int64) Limit {
	if l.Window > 0 || s == WholeShare {
		return l
	}
	l.Rate = l.Rate * Rate(s) / Rate(WholeShare)
	l.Burst = max(l.Burst*int64(s)/int64(WholeShare), largest, 1)
	return l
}
