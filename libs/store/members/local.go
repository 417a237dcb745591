package members

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Local is a roster in this process: of those that share its counters over a network,
// and of the process itself, which always lives. Safe for concurrent use.
type Local struct {
	mu   sync.Mutex
	seen map[string]time.Time // by pod
}

// NewLocal makes an empty roster.
func NewLocal() *Local { return &Local{seen: map[string]time.Time{}} }

// Beat implements Roster. Pods beyond the most that a region may have are not noted.
func (l *Local) Beat(_ context.Context, pod string, alive bool) (live int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.seen[pod]
	switch {
	case !alive:
		delete(l.seen, pod)
	case !known && len(l.seen) >= podsMax:
		return 0, fmt.Errorf("%d pods live: more are not counted", podsMax)
	default:
		l.seen[pod] = time.Now()
	}
	return l.live(), nil
}

// Count is how many live.
func (l *Local) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live()
}

// live forgets who has been silent for Life. It is called under the lock.
func (l *Local) live() int {
	for pod, at := range l.seen {
		if time.Since(at) > Life {
			delete(l.seen, pod)
		}
	}
	return len(l.seen) + 1
}
