package client

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store/breaker"
)

// A connection that breaks while a request is written is a failure of the checker,
// though connect tells it as a call that was cancelled; a caller that leaves is none.
func TestBrokenConnectionIsTheCheckersFailure(t *testing.T) {
	broken := connect.NewError(connect.CodeCanceled, fmt.Errorf("write: %w", syscall.EPIPE))
	if got := outcome(broken); got != breaker.Failed {
		t.Errorf("a broken pipe is %v, want a failure", got)
	}
	due := time.Now().Add(time.Second)
	if why := left(t.Context(), due, broken); why != nil {
		t.Errorf("a caller that waits has left: %v", why)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if why := left(gone, due, broken); !errors.Is(why, context.Canceled) {
		t.Errorf("a caller that has left: %v", why)
	}
}
