package lanes

import (
	"context"
	"time"
)

// Waiter is a caller's wait for the answer to its call. NewWaiter makes one.
type Waiter[A any] struct {
	timer *time.Timer
	said  chan said[A]
}

// said is an answer, or that the time for it is over.
type said[A any] struct {
	answer A
	over   bool
}

// NewWaiter makes a waiter.
func NewWaiter[A any]() Waiter[A] {
	// There is room for all that is said, the answer and the time, so that neither waits
	// for a listener who has left. One channel to listen at is cheaper than a select.
	w := Waiter[A]{said: make(chan said[A], 2)}
	w.timer = time.AfterFunc(time.Hour, func() { w.said <- said[A]{over: true} })
	w.timer.Stop()
	return w
}

// Answer tells the caller, who may have left. It is called once for each call.
func (w *Waiter[A]) Answer(a A) { w.said <- said[A]{answer: a} }

// Wait returns the answer. The error is context.DeadlineExceeded if there was none for
// so long, and context.Canceled if ctx ended before, by its deadline too: that says
// nothing of whom was asked. Where both were there, for this process was late to look, it
// is the answer. Again: the waiter can wait for another call's.
func (w *Waiter[A]) Wait(ctx context.Context, timeout time.Duration) (a A, again bool, err error) {
	w.timer.Reset(timeout)
	first, err := w.listen(ctx)
	stopped := w.timer.Stop()
	if err == nil {
		return first, stopped, nil
	}
	select {
	case late := <-w.said:
		if !late.over {
			return late.answer, stopped, nil
		}
	default:
	}
	return a, false, err
}

// listen returns what is said first.
func (w *Waiter[A]) listen(ctx context.Context) (a A, err error) {
	var first said[A]
	if left := ctx.Done(); left == nil {
		first = <-w.said
	} else {
		select {
		case first = <-w.said:
		case <-left:
			return a, context.Canceled
		}
	}
	if first.over {
		return a, context.DeadlineExceeded
	}
	return first.answer, nil
}
