package serve

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
)

// Exit codes of a process.
const (
	ExitClean  = 0 // ended as asked
	ExitFailed = 1 // failed while running
	ExitUsage  = 2 // was asked for what cannot be: flags, environment, files, addresses
)

// usageError is a fault of whoever started the process.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks err as a fault of configuration; nil stays nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// ExitCode is the exit code of a process that ends with err.
func ExitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return ExitClean
	case errors.As(err, &usage):
		return ExitUsage
	default:
		return ExitFailed
	}
}

// UntilSignal returns a context that ends with the first SIGTERM or SIGINT. The
// second one ends the process at once, as signals do by default. Call stop when
// done.
func UntilSignal(ctx context.Context) (until context.Context, stop context.CancelFunc) {
	until, stop = signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(until, stop)
	return until, stop
}
