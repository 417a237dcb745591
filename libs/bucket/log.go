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

// Log is the state of a sliding log: the accepted attempts of one window, the
// oldest first. Refused attempts are not in it, so a client that keeps trying
// recovers. Its methods change the slice in place; a log never written is nil.
type Log []Attempt

// Trim drops the attempts that are no longer within the window and moves those
// in the future (the clock stepped back) to now.
func (g Log) Trim(now, window time.Duration) Log {
	live := 0
	for live < len(g) && g[live].At+window <= now {
		live++
	}
	if live > 0 {
		g = slices.Delete(g, 0, live)
	}
	for i := len(g) - 1; i >= 0 && g[i].At > now; i-- {
		g[i].At = now
	}
	return g
}

// Count is what a trimmed log counts.
func (g Log) Count() int64 {
	var n int64
	for i := range g {
		n += g[i].Count
	}
	return n
}

// Take adds an attempt to a trimmed log.
func (g Log) Take(now time.Duration, n int64, member uint64) Log {
	return append(g, Attempt{At: now, Member: member, Count: n})
}

// Give removes an attempt; one that is not there is nothing to remove.
func (g Log) Give(member uint64) Log {
	return slices.DeleteFunc(g, func(a Attempt) bool { return a.Member == member })
}

// Wait is the time from now until a trimmed log has room for n more within
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

// Rest is the time from now until a trimmed log is empty.
func (g Log) Rest(now, window time.Duration) time.Duration {
	if len(g) == 0 {
		return 0
	}
	return g[len(g)-1].At + window - now
}
