package remote

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/breaker"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

var (
	// errDial says that no connection could be made.
	errDial = errors.New("no connection to the checker")
	// errBusy says that there are as many asks at a checker as there may be.
	errBusy = errors.New("too many asks are on their way")
	// errOwing says that a checker owes as many answers as may be awaited.
	errOwing = errors.New("too many answers of the checker are overdue")
	// errOpen says that the breaker of a checker has opened.
	errOpen = errors.New("the checker does not answer")
	// errAnswer says that an answer is not one to what was asked.
	errAnswer = errors.New("the answer does not fit the asks")
)

// class is what kind of failure an ask met: a small closed set, for metrics.
type class string

const (
	classNone       class = "ok"
	classTimeout    class = "timeout"           // asked, no answer in time: nothing is known
	classConnection class = "connection"        // broken or closed, or a balancer found no checker: nothing is known
	classCancelled  class = "cancelled"         // the caller gave up before the timeout: nothing is known
	classStoreLate  class = "store_timeout"     // the checker's store did not answer it in time
	classStoreAway  class = "store_unavailable" // the checker's store could not be asked
	classBug        class = "bug"               // any other error of the checker, or an answer to another question
	classRefused    class = "refused"           // no connection could be made
	classAuth       class = "auth"              // the checker does not know us, or not as a pod
	classNoChecker  class = "no_checker"        // whoever answers is none
	classOverload   class = "overload"          // too many asks of this pod are on their way
	classOwing      class = "owing"             // the checker owes answers to all calls that may be on their way
	classOpen       class = "open"              // the breaker let no ask through
	classInvalid    class = "invalid"           // the checker refuses the ask as malformed
)

// classify says what class a call's error is of.
func classify(err error) class {
	switch {
	case err == nil:
		return classNone
	case errors.Is(err, errDial):
		return classRefused
	case errors.Is(err, errBusy):
		return classOverload
	case errors.Is(err, errOwing):
		return classOwing
	case errors.Is(err, errOpen):
		return classOpen
	case errors.Is(err, context.DeadlineExceeded):
		return classTimeout
	case errors.Is(err, context.Canceled):
		return classCancelled
	}
	switch connect.CodeOf(err) {
	case connect.CodeDeadlineExceeded:
		return classTimeout
	// Canceled is what connect makes of a broken pipe; unavailable is also what a
	// balancer says that could not reach a checker.
	case connect.CodeCanceled, connect.CodeUnavailable:
		return classConnection
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		return classAuth
	case connect.CodeUnimplemented, connect.CodeNotFound:
		return classNoChecker
	case connect.CodeInvalidArgument:
		return classInvalid
	}
	return classBug
}

// unsent reports whether an ask that met this certainly was not executed.
func (c class) unsent() bool {
	switch c {
	case classRefused, classAuth, classNoChecker, classOverload, classOwing, classOpen:
		return true
	}
	return false
}

// outcome is what a class tells of the checker.
func (c class) outcome() breaker.Outcome {
	switch c {
	case classNone, classStoreLate, classStoreAway, classInvalid, classBug:
		return breaker.Replied
	case classTimeout:
		return breaker.TimedOut
	case classConnection, classOwing:
		return breaker.Failed
	case classOverload, classOpen, classCancelled:
		return breaker.Unjudged
	}
	return breaker.Unreachable
}

// wrap makes the error that Take returns: it wraps the store's sentinel and names the
// checker.
func (c class) wrap(checker string, err error) error {
	sentinel := store.ErrTimeout // the charge may have been made
	switch {
	case c == classInvalid:
		sentinel = store.ErrInvalid
	case c == classStoreAway || c.unsent():
		sentinel = store.ErrUnavailable
	}
	if err == nil {
		return fmt.Errorf("checker %s: %w: %s", checker, sentinel, c)
	}
	return fmt.Errorf("checker %s: %w: %s: %w", checker, sentinel, c, err)
}

// classOf is the class of what a checker says of one ask.
func classOf(r *checkv1.AskResult) class {
	switch r.GetCause() {
	case checkv1.Cause_CAUSE_UNSPECIFIED:
		return classNone
	case checkv1.Cause_CAUSE_STORE_UNAVAILABLE:
		return classStoreAway
	default: // one that is not known yet too: the charge may have been made
		return classStoreLate
	}
}
