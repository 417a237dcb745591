package rediscluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A call ends with its answer, after its timeout, or with its caller, whatever the
// client is still waiting for.
func TestAwaitEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never, there := make(chan answer), make(chan answer, 1)
		begin := time.Now()
		if a := await(t.Context(), due, never); !errors.Is(a.err, context.DeadlineExceeded) || time.Since(begin) != due {
			t.Errorf("without an answer: %v after %v, want a deadline after %v", a.err, time.Since(begin), due)
		}
		ctx, cancel := context.WithTimeout(t.Context(), due/2)
		defer cancel()
		begin = time.Now()
		if a := await(ctx, due, never); classify(a.err) != classCancelled || time.Since(begin) != due/2 {
			t.Errorf("without a caller: %v after %v, want that it has left after %v", a.err, time.Since(begin), due/2)
		}
		there <- answer{reply: "said"}
		if a := await(ctx, due, there); a.reply != "said" || a.err != nil {
			t.Errorf("an answer that is there, looked at late: %+v", a)
		}
	})
}

// What has not been sent by its deadline is not sent any more; what has been is
// waited for.
func TestInTimeRefusesTheLateOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := inTime{context.WithoutCancel(t.Context()), time.Now().Add(due)}
		if ctx.Err() != nil {
			t.Errorf("refused before its deadline: %v", ctx.Err())
		}
		time.Sleep(due + 1) // of the bubble's clock
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("after the deadline: %v", ctx.Err())
		}
		if _, bounded := ctx.Deadline(); bounded || ctx.Done() != nil {
			t.Error("the deadline ends calls on the wire")
		}
	})
}
