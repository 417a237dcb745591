package bucket

import (
	"slices"
	"time"
)

// Attempt is one accepted attempt in a log.
type Attempt struct {
	At     time.Duration
	Member uint64 // names the attempt, so that it can be handed back
	Count  int64  // what it counts, at least 1
}

// Log is the state of a sliding log: its accepted attempts, the oldest first.
// Refused attempts are not in it, so a client that keeps trying recovers. Its
// methods may change the slice in place; a log never written is nil.
type Log []Attempt

// Mend moves the attempts in the future (the clock stepped back) to now.
func (g Log) Mend(now time.Duration) Log {
	for i := len(g) - 1; i >= 0 && g[i].At > now; i-- {
		g[i].At = now
	}
	return g
}

// Live is the part of a mended log that is within the window: what counts. The
// older part is kept until the next attempt is accepted, so that a refusal
// changes nothing, whatever the clock does next.
func (g Log) Live(now, window time.Duration) Log {
	old := 0
	for old < len(g) && g[old].At+window <= now {
		old++
	}
	return g[old:]
}

// Count is what a log counts that is live.
func (g Log) Count() int64 {
	var n int64
	for i := range g {
		n += g[i].Count
	}
	return n
}

// Take adds an attempt to a live log.
func (g Log) Take(now time.Duration, n int64, member uint64) Log {
	return append(g, Attempt{At: now, Member: member, Count: n})
}

// Give removes an attempt; one that is not there is nothing to remove.
func (g Log) Give(member uint64) Log {
	return slices.DeleteFunc(g, func(a Attempt) bool { return a.Member == member })
}

// Wait is the time from now until a live log has room for n more within
// size, rounded up to a microsecond; 0 if it has. It is meaningless for n above
// size.
func (g Log) Wait(now, window time.Duration, n, size int64) time.Duration {
	room := size - g.Count()
	for i := range g {
		if room >= n {
			break
		}
		if room += g[i].Count; room >= n {
			return g[i].At + window - now
		}
	}
	return 0
}

// Rest is the time from now until a live log is empty.
func (g Log) Rest(now, window time.Duration) time.Duration {
	if len(g) == 0 {
		return 0
	}
	return g[len(g)-1].At + window - now
}
