package rediscluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shiplane/limits/libs/store/lanes"
)

const due = 5 * time.Millisecond

// A call ends with its answer, after its timeout, or with its caller, whatever the
// client is still waiting for.
func TestCallEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		sh := &shard{lanes: lanes.New(batchMax, func(batch []*call) { sent.Add(int64(len(batch))) })} // and nobody answers
		ask := func(ctx context.Context) (answer, time.Duration) {
			begin, c := time.Now(), newCall()
			c.shard = sh
			a, _ := c.do(ctx, due)
			return a, time.Since(begin)
		}
		if a, took := ask(t.Context()); !errors.Is(a.err, context.DeadlineExceeded) || took != due {
			t.Errorf("without an answer: %v after %v, want a deadline after %v", a.err, took, due)
		}
		ctx, cancel := context.WithTimeout(t.Context(), due/2)
		defer cancel()
		if a, took := ask(ctx); classify(a.err) != classCancelled || took != due/2 {
			t.Errorf("without a caller: %v after %v, want that it has left after %v", a.err, took, due/2)
		}
		if n := sent.Load(); n != 2 {
			t.Errorf("%d calls were sent, want 2", n)
		}
		late := newCall()
		late.shard = sh
		late.answered(answer{reply: "said"})
		if a, again := late.do(ctx, due); a.reply != "said" || a.err != nil || !again {
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

// A shard's clock is told with its first answer, and then ten times a second at most.
func TestClockIsToldNowAndThen(t *testing.T) {
	shard := newShards(nil, nil).of(0)
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {clockEvery - 1, false}, {clockEvery, true}, {clockEvery, false}, {2*clockEvery - 1, false}, {time.Hour, true}} {
		if got := shard.clockDue(c.at); got != c.want {
			t.Errorf("at %v: %v, want %v", c.at, got, c.want)
		}
	}
}
