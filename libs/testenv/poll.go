package testenv

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is the time between two looks at a server. A look costs it some
// 100 µs, and servers change within some 100 ms.
const pollEvery = 25 * time.Millisecond

// errGone ends a wait for a server that has ended.
var errGone = errors.New("server has ended")

// until looks every pollEvery until holds returns nil. It gives up when ctx
// ends, with the context's error and the last one of holds, and when that wraps
// errGone.
func until(ctx context.Context, holds func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		err := holds(ctx)
		if err == nil || errors.Is(err, errGone) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err // once ctx has ended, err says no more than that
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}
