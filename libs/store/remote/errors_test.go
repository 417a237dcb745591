package remote

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store/breaker"
)

// A connection that breaks is evidence against the checker, though connect calls a
// broken pipe cancelled; a caller that leaves is none. Neither is sent again.
func TestBrokenPipeIsNoCancellation(t *testing.T) {
	for _, c := range []struct {
		err     error
		class   class
		outcome breaker.Outcome
	}{
		{connect.NewError(connect.CodeCanceled, fmt.Errorf("write: %w", syscall.EPIPE)), classConnection, breaker.Failed},
		{connect.NewError(connect.CodeCanceled, context.Canceled), classCancelled, breaker.Unjudged},
	} {
		if got := classify(c.err); got != c.class || got.outcome() != c.outcome || got.unsent() {
			t.Errorf("%v is %s", c.err, got)
		}
	}
}
