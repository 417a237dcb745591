package lanes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const due = 5 * time.Millisecond

// A wait ends with the answer, after its time, or with its caller, and says whether the
// waiter is free for another.
func TestWaiterEnds(t *testing.T) {
	for _, c := range []struct {
		name     string
		answerAt time.Duration // -1: never
		leaveAt  time.Duration // 0: never
		want     error
		after    time.Duration
		again    bool
	}{
		{"answered before", 0, 0, nil, 0, true},
		{"answered", due / 2, 0, nil, due / 2, true},
		{"never answered", -1, 0, context.DeadlineExceeded, due, false},
		{"answered too late", 2 * due, 0, context.DeadlineExceeded, due, false},
		{"left by its caller", -1, due / 2, context.Canceled, due / 2, false},
		{"answered, while its caller could leave", due / 2, due, nil, due / 2, true},
		{"overdue, while its caller could leave", -1, 2 * due, context.DeadlineExceeded, due, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, begin, w := context.Background(), time.Now(), NewWaiter[int]()
				if c.leaveAt > 0 {
					within, cancel := context.WithTimeout(ctx, c.leaveAt)
					defer cancel()
					ctx = within
				}
				switch {
				case c.answerAt == 0:
					w.Answer(7)
				case c.answerAt > 0:
					time.AfterFunc(c.answerAt, func() { w.Answer(7) })
				}
				got, again, err := w.Wait(ctx, due)
				if !errors.Is(err, c.want) || again != c.again || time.Since(begin) != c.after || (err == nil) != (got == 7) {
					t.Errorf("%d, again %v, %v after %v: want again %v, %v after %v", got, again, err, time.Since(begin), c.again, c.want, c.after)
				}
				time.Sleep(3 * due) // of the bubble: what is said late must not hold anybody up
			})
		})
	}
}

// An answer that is there when the time is over is the answer: this process was late.
func TestWaiterLateToLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWaiter[int]()
		w.timer.Reset(due)
		time.Sleep(2 * due)
		w.Answer(7)
		if got, _, err := w.Wait(context.Background(), due); got != 7 || err != nil {
			t.Errorf("%d, %v: want the answer", got, err)
		}
		left, leave := context.WithCancel(context.Background())
		leave()
		w = NewWaiter[int]()
		w.Answer(8)
		if got, again, err := w.Wait(left, due); got != 8 || !again || err != nil {
			t.Errorf("%d, again %v, %v of a caller who is about to leave: want the answer, and the waiter free", got, again, err)
		}
	})
}

// A waiter that was answered waits again, many times, and hears each call's answer alone.
func TestWaiterAgain(t *testing.T) {
	w := NewWaiter[int]()
	for i := range 1000 {
		go w.Answer(i)
		got, again, err := w.Wait(context.Background(), time.Minute)
		if got != i || !again || err != nil {
			t.Fatalf("%d, again %v, %v: want %d", got, again, err, i)
		}
	}
}
