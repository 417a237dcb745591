package limiter_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/storetest"
)

// The times of a store that answers late, and never too late.
const (
	answerTime  = 9 * time.Millisecond
	shortBudget = 8 * time.Millisecond  // is gone with the first answer
	longBudget  = 10 * time.Millisecond // with the second
)

// slow is a store that takes its time.
type slow struct {
	store.Store
	calls atomic.Int64
}

func (s *slow) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	s.calls.Add(1)
	time.Sleep(answerTime)
	return s.Store.Take(ctx, ask, result)
}

// A decision about several subjects begins no wait once its budget is gone: the fail
// modes decide what is left, and what was charged before a closed rule goes back.
func TestSeveralSubjectsShareOneBudget(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget time.Duration
		mode   limit.FailMode
		calls  int64
		want   string
	}{
		{"none", 0, limit.FailClosed, 3, "allowed ip=0 user=0 account=0"},
		{"gone after one, closed", shortBudget, limit.FailClosed, 1, "unavailable by 1 ip=0 user=?"},
		{"gone after one, open", shortBudget, limit.FailOpen, 1, "allowed ip=0 user=? account=?"},
		{"gone after two, closed", longBudget, limit.FailClosed, 2, "unavailable by 2 ip=0 user=0 account=?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{Store: newMemory(t)}
				l := newLimiter(t, limiter.Config{Store: s, Budget: c.budget})
				ip, user, account := of(limit.IP, storetest.Log("ip", 1, time.Hour)), of(limit.User, storetest.Log("user", 1, time.Hour)), storetest.Bucket("account", 0.001, 1)
				user.FailMode, account.FailMode = c.mode, c.mode
				login := request(t, "ada", 1, ip, user, account)
				var d limit.Decision
				begin := time.Now()
				l.Check(t.Context(), login, &d)
				if took := time.Since(begin); said(&d) != c.want || s.calls.Load() != c.calls || took != time.Duration(c.calls)*answerTime {
					t.Errorf("got %s by %d calls in %v, want %s by %d", said(&d), s.calls.Load(), took, c.want, c.calls)
				}
				if late := errors.Is(d.Cause, store.ErrTimeout); late != (c.budget > 0) {
					t.Errorf("cause: %v", d.Cause)
				}
				time.Sleep(time.Second) // the errands are done
				if l.Check(t.Context(), request(t, "ada", 1, ip), &d); (d.Verdict == limit.Allowed) != (c.budget > 0 && c.mode == limit.FailClosed) {
					t.Errorf("afterwards the address: %s", said(&d))
				}
			})
		})
	}
}

// A peek at several subjects reads no more once its budget is gone, and a closed rule
// that was not read refuses.
func TestPeekKeepsItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: newMemory(t)}
		l := newLimiter(t, limiter.Config{Store: s, Budget: shortBudget})
		ip, user := of(limit.IP, storetest.Log("ip", 1, time.Hour)), of(limit.User, storetest.Log("user", 1, time.Hour))
		user.FailMode = limit.FailClosed
		var d limit.Decision
		if l.Peek(request(t, "ada", 1, ip, user), &d); said(&d) != "unavailable by 1 ip=1 user=?" || s.calls.Load() != 1 {
			t.Errorf("%s by %d reads", said(&d), s.calls.Load())
		}
	})
}

// A request that has waited for a peek has that much less to wait: a decision and what it
// depends on share one budget.
func TestPeekCountsAsTheDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: newMemory(t)}
		l := newLimiter(t, limiter.Config{Store: s, Budget: longBudget})
		ip, user := of(limit.IP, storetest.Log("ip", 1, time.Hour)), of(limit.User, storetest.Log("user", 1, time.Hour))
		account := storetest.Bucket("account", 0.001, 1)
		var d limit.Decision
		charged := request(t, "ada", 1, user, account)
		charged.Waited = l.Peek(request(t, "ada", 1, ip), &d)
		if charged.Waited != answerTime {
			t.Errorf("the peek took %v", charged.Waited)
		}
		if l.Check(t.Context(), charged, &d); said(&d) != "allowed user=0 account=?" || s.calls.Load() != 2 {
			t.Errorf("%s by %d calls: want no third", said(&d), s.calls.Load())
		}
	})
}

// Who has waited its budget for another's ask, which brought nothing for it, asks no
// more; who came later does.
func TestBudgetCountsTheWaitForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{Store: newMemory(t)}
		l := newLimiter(t, limiter.Config{Store: s, Budget: shortBudget})
		one := request(t, "acme", 1, storetest.Bucket("bucket", 0.001, 10))
		var by [3]limit.DecidedBy
		var group sync.WaitGroup
		for i, wait := range [...]time.Duration{0, 0, answerTime - shortBudget/2} {
			group.Go(func() {
				var d limit.Decision
				time.Sleep(wait)
				l.Check(t.Context(), one, &d)
				by[i] = d.DecidedBy
			})
			synctest.Wait()
		}
		group.Wait()
		if want := [...]limit.DecidedBy{limit.ByStore, limit.ByFallback, limit.ByStore}; by != want || s.calls.Load() != 2 {
			t.Errorf("decided by %v with %d asks, want %v", by, s.calls.Load(), want)
		}
	})
}
