package client

import (
	"context"
	"errors"
	"net"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store/breaker"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// decided returns the answer in the details of an error: a rule that fails closed
// could not be decided. Nil if there is none.
func decided(err error) *checkv1.CheckResponse {
	var failure *connect.Error
	if !errors.As(err, &failure) || !connect.IsWireError(err) {
		return nil
	}
	for _, detail := range failure.Details() {
		if m, err := detail.Value(); err == nil {
			if answer, ok := m.(*checkv1.CheckResponse); ok {
				return answer
			}
		}
	}
	return nil
}

// callersFault reports whether a checker answered that it cannot decide such a
// request.
func callersFault(err error) bool {
	if !connect.IsWireError(err) {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted, connect.CodeNotFound, connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return true
	}
	return false
}

// left returns why a call that was due then ended with its caller, nil if it did not.
func left(caller context.Context, due time.Time, err error) error {
	if caller.Err() != nil {
		return context.Cause(caller)
	}
	// The checker is told of the deadline, and may see it pass first.
	if end, ok := caller.Deadline(); ok && end.Before(due) && outcome(err) == breaker.TimedOut {
		return context.DeadlineExceeded
	}
	return nil
}

// unsent reports whether a request never left: nobody is at the address.
func unsent(err error) bool {
	var failure *net.OpError
	return errors.As(err, &failure) && failure.Op == "dial"
}

// outcome is what the end of a call says of a checker.
func outcome(err error) breaker.Outcome {
	switch {
	case err == nil || callersFault(err):
		return breaker.Replied
	case errors.Is(err, context.DeadlineExceeded), connect.CodeOf(err) == connect.CodeDeadlineExceeded:
		return breaker.TimedOut
	case unsent(err):
		return breaker.Unreachable
	default:
		return breaker.Failed
	}
}
