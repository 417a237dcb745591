package feed

import (
	"sync"
	"sync/atomic"
	"time"
)

// clockSamples is how many of the service's last messages the time is taken from:
// a minute of heartbeats, in which two quartz clocks part by some ms at most.
const clockSamples = 12

// clock is the service's time. Each message carries the time when it was made, and
// comes later than that: every sample makes the clock slow by its delay, none makes
// it fast. So the best of the last samples is the one that makes it latest.
//
// Time goes on by the machine's monotonic clock, so that nobody who sets this
// machine's clock moves an override. Before the first message it is the machine's
// time. Safe for concurrent use; add is called by one goroutine.
type clock struct {
	best atomic.Pointer[sample]

	mu   sync.Mutex // of the samples
	last []sample   // of one watch, the latest last
}

// sample says that it was server at the service when it was local here, or later.
type sample struct{ server, local time.Time }

// at returns the service's time at a moment of this machine.
func (s *sample) at(local time.Time) time.Time { return s.server.Add(local.Sub(s.local)) }

// add notes a message; local has a monotonic reading.
func (c *clock) add(server, local time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.last) == clockSamples {
		c.last = append(c.last[:0], c.last[1:]...)
	}
	c.last = append(c.last, sample{server, local})
	best := c.last[0]
	for _, s := range c.last[1:] {
		if s.at(local).After(best.at(local)) {
			best = s
		}
	}
	c.best.Store(&best)
}

// forget begins anew with the next message: another instance of the service has
// another clock. Until then time goes on as it did.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.last[:0]
}

// now returns the service's time as well as it is known. It allocates nothing.
func (c *clock) now() time.Time {
	local := time.Now()
	if best := c.best.Load(); best != nil {
		return best.at(local)
	}
	return local
}
