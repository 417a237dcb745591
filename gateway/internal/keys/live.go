package keys

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/filewatch"
)

// Live is the keys in force, and follows their file. Safe for concurrent use.
type Live struct {
	current atomic.Pointer[Set]
	path    string          // "" if they come from no file
	plans   func() []string // the plans that the rules know now; nil: not checked
	log     *slog.Logger

	mu      sync.Mutex // held while a file is looked at
	text    []byte     // what was read last, good or bad
	waiting *Set       // good, but for plans that the rules do not know yet; nil if none
	lacking []string   // the plans of the rules that waiting was looked at with last
}

// recheck is how often keys that wait for a plan are looked at again: rules and
// keys that change together arrive in any order.
const recheck = 250 * time.Millisecond

// Empty is no keys, for ever: every request is anonymous.
func Empty() *Live {
	live := &Live{}
	live.current.Store(&Set{})
	return live
}

// Open loads the key file at path. Every key's plan must be one of plans(); nil
// plans are not checked. An error names the path and every fault. log is told of
// reloads.
func Open(path string, plans func() []string, log *slog.Logger) (*Live, error) {
	text, err := filewatch.Read(path, FileMax)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	live, err := OpenBytes(path, text, plans)
	if err != nil {
		return nil, err
	}
	live.path, live.log = path, log
	return live, nil
}

// OpenBytes loads a key file that is at hand and never changes. name stands for
// it in errors.
func OpenBytes(name string, text []byte, plans func() []string) (*Live, error) {
	live := &Live{plans: plans, text: text}
	set, err := Parse(text)
	if err == nil && plans != nil {
		err = set.CheckPlans(plans())
	}
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", name, err)
	}
	live.current.Store(set)
	return live, nil
}

// Current returns the keys in force; never nil.
func (l *Live) Current() *Set { return l.current.Load() }

// Run follows the file until ctx ends. A change is in force within a second if
// the whole file is good, else it changes nothing. Keys whose only fault is a plan
// that the rules do not know are in force as soon as the rules do. Each content is
// logged once, a bad one as an error. Run is called once.
func (l *Live) Run(ctx context.Context) {
	if l.path == "" {
		<-ctx.Done()
		return
	}
	var waiter sync.WaitGroup
	waiter.Go(func() {
		tick := time.NewTicker(recheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.retry()
			}
		}
	})
	filewatch.Watch(ctx, l.path, FileMax, l.reload)
	waiter.Wait()
}

func (l *Live) reload(text []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.log.Error("key file cannot be read: the keys in force stay", "path", l.path, "error", err)
		return
	}
	if bytes.Equal(text, l.text) {
		return
	}
	l.text, l.waiting = text, nil
	set, err := Parse(text)
	if err == nil {
		err = l.checkPlans(set)
	}
	if err != nil {
		l.log.Error("key file has faults: the keys in force stay", "path", l.path, "error", err)
		return
	}
	l.adopt(set)
}

// checkPlans returns the faults of a set's plans; a set with some waits for the rules.
func (l *Live) checkPlans(set *Set) error {
	if l.plans == nil {
		return nil
	}
	known := l.plans()
	err := set.CheckPlans(known)
	if err != nil {
		l.waiting, l.lacking = set, known
	}
	return err
}

// retry looks at waiting keys again, if the plans are not those of the last time.
func (l *Live) retry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		return
	}
	known := l.plans()
	if slices.Equal(known, l.lacking) {
		return
	}
	l.lacking = known
	if l.waiting.knownTo(known) {
		l.adopt(l.waiting)
	}
}

func (l *Live) adopt(set *Set) {
	l.waiting, l.lacking = nil, nil
	l.current.Store(set)
	l.log.Info("keys reloaded", "path", l.path, "keys", set.Len())
}
