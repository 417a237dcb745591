package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/storetest"
)

// said is a decision as text: the verdict, and what is left.
func said(d *limit.Decision) string {
	text := d.Verdict.String()
	if d.Refused >= 0 {
		text += fmt.Sprint(" by ", d.Refused)
	}
	for i := range d.Outcomes {
		if o := &d.Outcomes[i]; o.Known {
			text += fmt.Sprintf(" %s=%d", o.Rule.ID, o.Remaining)
		} else {
			text += fmt.Sprintf(" %s=?", o.Rule.ID)
		}
	}
	return text
}

// A peek says of every algorithm whether the next charge would pass, as often as it
// is asked, from the first time on, and takes nothing.
func TestPeekSaysWhatTheNextChargeGets(t *testing.T) {
	l := newLimiter(t, limiter.Config{Store: newMemory(t), Unpaced: true})
	for _, rule := range []*limit.Rule{storetest.Bucket("bucket", 0.001, 5), storetest.Window("window", 3, 24*time.Hour), storetest.Log("log", 2, time.Hour)} {
		one := request(t, "acme", 1, rule)
		var d limit.Decision
		for left := rule.Limit.Size(); left >= 0; left-- {
			want, then := fmt.Sprintf("allowed %s=%d", rule.ID, left), fmt.Sprintf("allowed %s=%d", rule.ID, left-1)
			if left == 0 {
				want, then = fmt.Sprintf("denied by 0 %s=0", rule.ID), fmt.Sprintf("denied by 0 %s=0", rule.ID)
			}
			for range 3 {
				if l.Peek(one, &d); said(&d) != want {
					t.Fatalf("a peek at %d left: got %s, want %s", left, said(&d), want)
				}
				if retry, ok := d.RetryAfter(); left == 0 && (!ok || retry <= 0) {
					t.Errorf("%s: refused without a wait: %v %v", rule.ID, retry, ok)
				}
			}
			if l.Check(t.Context(), one, &d); said(&d) != then {
				t.Fatalf("a charge at %d left: got %s, want %s", left, said(&d), then)
			}
		}
	}
}

// A peek names who would refuse, and rules in shadow refuse nobody.
func TestPeekKnowsBansCostsAndShadow(t *testing.T) {
	l := newLimiter(t, limiter.Config{Store: newMemory(t)})
	bucket, shadow := storetest.Bucket("bucket", 0.001, 5), storetest.Bucket("shadow", 0.001, 1)
	shadow.Mode = limit.Shadow
	banned := request(t, "banned", 1, bucket)
	banned.Charges[0].Banned = true
	for _, c := range []struct {
		request *limit.Request
		want    string
		by      limit.DecidedBy
	}{
		{banned, "denied by 0 bucket=?", limit.ByBan},
		{request(t, "acme", 6, bucket), "denied by 0 bucket=?", limit.ByKnowledge},
		{request(t, "acme", 5, shadow, bucket), "allowed shadow=? bucket=5", limit.ByStore},
		{request(t, "acme", 5, shadow), "allowed shadow=?", limit.ByNoRule},
	} {
		var d limit.Decision
		if l.Peek(c.request, &d); said(&d) != c.want || d.DecidedBy != c.by {
			t.Errorf("got %s by %s, want %s by %s", said(&d), d.DecidedBy, c.want, c.by)
		}
	}
}

// counting counts the calls to a store, and fails them if err is set.
type counting struct {
	store.Store
	calls int
	err   error
}

func (s *counting) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	if s.calls++; s.err != nil {
		return s.err
	}
	return s.Store.Take(ctx, ask, result)
}

// A flood of peeks at what is empty reaches the store once a second at most.
func TestPeeksAtTheEmptyStayInTheProcess(t *testing.T) {
	s := &counting{Store: newMemory(t)}
	l := newLimiter(t, limiter.Config{Store: s, Now: func() time.Duration { return time.Second }})
	other := newLimiter(t, limiter.Config{Store: s.Store})
	all, one := request(t, "acme", 5, storetest.Bucket("bucket", 0.001, 5)), request(t, "acme", 1, storetest.Bucket("bucket", 0.001, 5))
	var d limit.Decision
	other.Check(t.Context(), all, &d)
	for range 100 {
		if l.Peek(one, &d); d.Verdict != limit.Denied {
			t.Fatalf("what another pod has emptied: %s", said(&d))
		}
	}
	if s.calls != 1 {
		t.Errorf("%d calls to the store", s.calls)
	}
}

// A closed rule whose counter cannot be read refuses, an open one does not.
func TestPeekKeepsFailModes(t *testing.T) {
	l := newLimiter(t, limiter.Config{Store: &counting{err: store.ErrTimeout}})
	open, closed := storetest.Bucket("open", 0.001, 5), storetest.Bucket("closed", 0.001, 5)
	open.FailMode, closed.FailMode = limit.FailOpen, limit.FailClosed
	var d limit.Decision
	if l.Peek(request(t, "acme", 1, open), &d); said(&d) != "allowed open=?" || d.DecidedBy != limit.ByFallback || !errors.Is(d.Cause, store.ErrTimeout) {
		t.Errorf("open: %s by %s for %v", said(&d), d.DecidedBy, d.Cause)
	}
	if l.Peek(request(t, "acme", 1, open, closed), &d); said(&d) != "unavailable by 1 open=? closed=?" || !errors.Is(d.Cause, store.ErrTimeout) {
		t.Errorf("closed: %s for %v", said(&d), d.Cause)
	}
}

// A peek is right whoever would decide the next charge: the lease, the cap, or the
// store.
func TestPeekIsRightUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, limiter.Config{Store: newMemory(t), Unpaced: true})
		one := request(t, "acme", 1, storetest.Bucket("busy", 1000, 100))
		by, verdicts := map[limit.DecidedBy]int{}, map[limit.Verdict]int{}
		var peek, got limit.Decision
		for step := range 2000 {
			time.Sleep(500 * time.Microsecond) // twice the rate
			l.Peek(one, &peek)
			l.Check(t.Context(), one, &got)
			by[got.DecidedBy]++
			if verdicts[got.Verdict]++; peek.Verdict != got.Verdict {
				t.Fatalf("step %d: the peek said %s, the charge got %s", step, said(&peek), said(&got))
			}
		}
		for _, stage := range []limit.DecidedBy{limit.ByLease, limit.ByStore, limit.ByCap} {
			if by[stage] == 0 {
				t.Errorf("%s decided nothing: %v", stage, by)
			}
		}
		if verdicts[limit.Allowed] < 1000 || verdicts[limit.Denied] < 500 {
			t.Errorf("verdicts %v", verdicts)
		}
	})
}
