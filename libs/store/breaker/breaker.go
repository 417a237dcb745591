// Package breaker stops calls to a server that does not answer, and lets one at a time
// find out whether it is back.
//
// It opens at the third timeout in a row, at once where a server says that it cannot,
// and where half of the calls of a second fail. Timeouts of calls that were in flight
// together are one piece of evidence, and a deadline that fires late is this process's
// own stall, which is none.
package breaker

import (
	"sync"
	"time"
)

// The constants of the breaker.
const (
	tripTimeouts  = 3                      // consecutive timeouts that open it
	tripFailures  = 0.5                    // part of the calls of a window that fail
	tripCalls     = 20                     // and how many the window must have seen
	tripSlot      = 100 * time.Millisecond // a tenth of the window
	tripSlots     = 10
	probeInterval = time.Second
	probeHurry    = 100 * time.Millisecond // between probes of a server for which another has taken over,
	hurryFor      = 3 * time.Second        // for so long: by then the client sends calls there
	stallSlack    = 2 * time.Millisecond   // a deadline that fires later than this is our own stall
)

// State is what a pod thinks of a server.
type State uint8

// The states, as the seed draws them.
const (
	Closed  State = iota // every call goes to the server
	Open                 // none does: rules fall back
	Probing              // one real call finds out whether it is back
)

// String returns closed, open or probing.
func (s State) String() string { return [...]string{"closed", "open", "probing"}[s] }

// Breaker is the breaker of one server. Random and Changed are set before its use. Time
// is passed in, on one monotonic clock. Safe for concurrent use.
type Breaker struct {
	Random  func() float64       // within [0, 1)
	Changed func(from, to State) // told under the lock

	mu       sync.Mutex
	state    State
	timeouts int // consecutive
	counted  time.Duration
	slots    [tripSlots]struct{ slot, calls, failures int64 }
	probeAt  time.Duration
	hurried  time.Duration // until when probes hurry
}

// Allow reports whether a call may go to the server, and whether it is the probe.
func (b *Breaker) Allow(now time.Duration) (ok, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.state == Closed:
		return true, false
	case now >= b.probeAt: // a probe whose end was never told must not be the last
		b.become(Probing)
		b.schedule(now)
		return true, true
	}
	return false, false
}

// Hurry lets an open breaker look at once, and often for a while: there is reason
// to think that the server is back.
func (b *Breaker) Hurry(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != Closed {
		b.hurried, b.probeAt = now+hurryFor, now
	}
}

// Closed reports whether every call goes to the server.
func (b *Breaker) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == Closed
}

// Outcome is how a call ended.
type Outcome uint8

// How calls end.
const (
	Replied     Outcome = iota // with whatever: the server is there
	TimedOut                   // no reply in time
	Failed                     // the connection broke, or the like: evidence, but not enough by itself
	Unreachable                // the server says that it cannot, or is not there
	Unjudged                   // our own doing: no evidence
)

// Done takes the end of a call that Allow let through: sent is when it was,
// deadline when its reply was due.
func (b *Breaker) Done(now, sent, deadline time.Duration, end Outcome, probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if end == TimedOut && now > deadline+stallSlack {
		end = Unjudged
	}
	switch {
	case probe && end == Replied:
		b.timeouts, b.counted = 0, now
		clear(b.slots[:])
		b.become(Closed)
	case probe:
		b.become(Open)
		b.schedule(now)
	case b.state == Closed:
		b.judge(now, sent, end)
	}
}

// judge counts a call while the breaker is closed.
func (b *Breaker) judge(now, sent time.Duration, end Outcome) {
	switch end {
	case Replied:
		b.timeouts = 0
		b.count(now, 0)
		return
	case Unjudged:
		return
	case TimedOut, Failed:
		// Calls that were in flight when the last failure was counted say the same.
		if sent < b.counted {
			return
		}
		b.counted = now
		if end == TimedOut {
			b.timeouts++
		}
	}
	calls, failures := b.count(now, 1)
	if end == Unreachable || b.timeouts >= tripTimeouts || calls >= tripCalls && float64(failures) >= tripFailures*float64(calls) {
		b.become(Open)
		b.schedule(now)
	}
}

// count adds a call to the window and returns the window's sums.
func (b *Breaker) count(now time.Duration, failed int64) (calls, failures int64) {
	slot := int64(now / tripSlot)
	s := &b.slots[slot%tripSlots]
	if s.slot != slot {
		s.slot, s.calls, s.failures = slot, 0, 0
	}
	s.calls++
	s.failures += failed
	for i := range b.slots {
		if b.slots[i].slot > slot-tripSlots {
			calls += b.slots[i].calls
			failures += b.slots[i].failures
		}
	}
	return calls, failures
}

// schedule sets the next probe, with jitter: pods must not probe in step.
func (b *Breaker) schedule(now time.Duration) {
	interval := probeInterval
	if now < b.hurried {
		interval = probeHurry
	}
	b.probeAt = now + time.Duration(float64(interval)*(0.75+0.5*b.Random()))
}

func (b *Breaker) become(to State) {
	if from := b.state; from != to {
		b.state = to
		b.Changed(from, to)
	}
}
