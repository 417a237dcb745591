package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The time between two looks at servers: short at first, for what is there at
// once, then longer by half each time. A look at a cluster of 32 nodes costs them
// some 10 ms of CPU, which a busy machine needs for what is waited for.
const (
	pollFirst = 5 * time.Millisecond
	pollLast  = 250 * time.Millisecond
)

// errGone ends a wait for a server that has ended.
var errGone = errors.New("server has ended")

// until looks again and again until holds returns nil. It gives up when ctx
// ends, with the context's error and the last one of holds, and when that wraps
// errGone.
func until(ctx context.Context, holds func(context.Context) error) error {
	pause := pollFirst
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var last error
	for {
		err := holds(ctx)
		if err == nil || errors.Is(err, errGone) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err // once ctx has ended, err says no more than that
		}
		timer.Reset(pause)
		pause = min(pause*3/2, pollLast)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-timer.C:
		}
	}
}
