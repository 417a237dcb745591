package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// However many ask a checker that hangs, no more wait than may, the others fail at
// once, and nothing is left behind.
func TestWaitingAsksAreBounded(t *testing.T) {
	const most, asked = 64, 5000
	c := startChecker(t, counting(t))
	hang := make(chan struct{})
	c.answerWith(func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
		<-hang
		return nil, connect.NewError(connect.CodeInternal, errors.New("late"))
	})
	s, o := open(t, Config{Timeout: ample, InFlight: most}, c)
	var waited, unavailable atomic.Int64
	go func() {
		poll(t, "the others have failed", func() bool { return unavailable.Load() == asked-most })
		close(hang)
	}()
	together(asked, func(int) {
		switch _, err := take(t, s, "acct"); {
		case errors.Is(err, store.ErrUnavailable):
			unavailable.Add(1)
		case errors.Is(err, store.ErrTimeout):
			waited.Add(1)
		}
	})
	if waited.Load() != most || o.told(c, classOverload) != asked-most {
		t.Errorf("%d waited, %d were too many", waited.Load(), o.told(c, classOverload))
	}
	e := s.endpoints[0]
	poll(t, "nothing is left", func() bool { return e.inFlight.Load() == 0 && e.connections.Load() == 0 })
}

// A caller that leaves fails nobody else, and says nothing of the checker.
func TestCallerThatLeaves(t *testing.T) {
	c := startChecker(t, counting(t))
	s, o := open(t, Config{Timeout: ample}, c)
	ctx, cancel := context.WithCancel(t.Context())
	c.answerWith(func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
		cancel()
		return nil, connect.NewError(connect.CodeInternal, errors.New("late"))
	})
	if err := s.Take(ctx, askOf(t, "acct"), &store.Result{}); !errors.Is(err, store.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	c.answerWith(nil)
	if _, err := take(t, s, "acct"); err != nil || o.became(c) != "" {
		t.Errorf("the next: %v, %q", err, o.became(c))
	}
}
