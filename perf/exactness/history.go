package exactness

import (
	"cmp"
	"slices"
	"time"
)

// Bucket is one token bucket of one account.
type Bucket struct {
	Account, Rule int
}

// Event is what happened to a bucket in the store.
type Event struct {
	Bucket
	At time.Duration // store time of the reply that told of it, whole microseconds
	N  int64         // tokens granted; handed back if below zero
}

// Sort brings the events of many processes into the order of the store. Of one
// reply, hand-backs come first, as the store settles them.
func Sort(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.N, b.N))
	})
}

// Verdict is what a replay says of one bucket.
type Verdict struct {
	Events         int
	Granted, Given int64         // tokens
	Excess         int64         // millionths of a token, at most, above burst + rate · t over some window; 0 if never
	ExcessAt       time.Duration // where that window ends
	Level          int64         // millionths of a token that were left after the last event
	Last           time.Duration // when that was
}

// micro is a token in millionths.
const micro = 1_000_000

// Replay follows a bucket that begins full through its events, sorted. rate is
// in whole tokens a second, or 0 for one that refills so slowly that the run
// sees nothing of it; rate and burst must keep rate · length of the history and
// burst · 1e6 within an int64.
func Replay(rate, burst int64, events []Event) Verdict {
	v := Verdict{Level: burst * micro, Events: len(events)}
	if len(events) > 0 {
		v.Last = events[0].At
	}
	for _, e := range events {
		elapsed := (e.At - v.Last).Microseconds()
		v.Level = min(burst*micro, v.Level+elapsed*rate)
		v.Last = e.At
		if e.N < 0 {
			v.Given -= e.N
			v.Level = min(burst*micro, v.Level-e.N*micro)
			continue
		}
		v.Granted += e.N
		v.Level -= e.N * micro
		if -v.Level > v.Excess {
			v.Excess, v.ExcessAt = -v.Level, e.At
		}
	}
	return v
}
