package feed

import (
	"sync"
	"time"
)

// contact is how it stands with the service. Safe for concurrent use.
type contact struct {
	mu      sync.Mutex
	service *service // that is watched; nil: none is
	heard   time.Time
	watches int64
	failure error
}

// up notes a message of a service, and reports whether it is the first of a watch.
func (c *contact) up(s *service, now time.Time) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = now
	if c.service != nil {
		return false
	}
	c.service, c.failure = s, nil
	c.watches++
	return true
}

// down notes that a watch has ended, or did not come up, and reports whether it had
// come up.
func (c *contact) down(err error) (wasUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasUp = c.service != nil
	c.service, c.failure = nil, err
	return wasUp
}

// watched returns the service that is watched, nil for none.
func (c *contact) watched() *service {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.service
}

func (c *contact) status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{Heard: c.heard, Watching: c.service != nil, Watches: c.watches, Failure: c.failure}
}
