package limiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/store/storetest"
	"github.com/shiplane/limits/libs/table"
)

// watched is a store that yields while it is asked, so that others arrive, and
// counts how many asks of one subject are in flight at once. Every failth ask
// fails after it was carried out, as a lost reply does.
type watched struct {
	store.Store
	failth  int64
	calls   atomic.Int64
	mu      sync.Mutex
	flying  map[limit.Subject]int
	most    int
	unknown map[uint32]int64 // tokens by tag whose reply was lost
}

func (w *watched) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	w.mu.Lock()
	w.flying[ask.Subject]++
	w.most = max(w.most, w.flying[ask.Subject])
	w.mu.Unlock()
	for range 20 {
		runtime.Gosched()
	}
	err := w.Store.Take(ctx, ask, result)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying[ask.Subject]--
	if n := w.calls.Add(1); err == nil && w.failth > 0 && n%w.failth == 0 {
		for i := range ask.Entries {
			w.unknown[ask.Entries[i].Rule.Tag] += result.Outcomes[i].Granted
		}
		return fmt.Errorf("reply %d is lost: %w", n, store.ErrTimeout)
	}
	return err
}

func (w *watched) left(t *testing.T, kind limit.Kind, id string, r *limit.Rule) int64 {
	t.Helper()
	var result store.Result
	ask := store.Ask{Subject: storetest.Subject(t, kind, id), Entries: []store.Entry{{Rule: r, Limit: r.Limit}}}
	if err := w.Store.Take(t.Context(), &ask, &result); err != nil {
		t.Fatal(err)
	}
	return result.Outcomes[0].Remaining
}

// However many requests of one subject come at once, one ask is in flight, all
// are settled, and after Close every token is either spent or back.
func TestTokensBalance(t *testing.T) {
	w := &watched{Store: newMemory(t), flying: map[limit.Subject]int{}}
	l, err := limiter.New(limiter.Config{Store: w, Pods: func() int { return 2 }})
	if err != nil {
		t.Fatal(err)
	}
	account, route := storetest.Bucket("account", 1e-6, 20_000), storetest.Bucket("route", 1e-6, 9_000)
	ip := of(limit.IP, storetest.Bucket("ip", 1e-6, 15_000))
	var spentAccount, spentRoute, spentIP atomic.Int64
	var group sync.WaitGroup
	for worker := range 32 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 0))
			var decision limit.Decision
			for range 1000 {
				cost := random.Int64N(3)
				r := request(t, "acme", cost, ip, account)
				if worker%2 == 0 {
					r = request(t, "acme", cost, ip, account, route)
				}
				if l.Check(t.Context(), r, &decision); decision.Verdict == limit.Allowed {
					spentIP.Add(cost)
					spentAccount.Add(cost)
					if worker%2 == 0 {
						spentRoute.Add(cost)
					}
				}
			}
		})
	}
	group.Wait()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.most > 2 { // one for the queue, and at times one that hands back
		t.Errorf("%d asks of one subject were in flight at once", w.most)
	}
	for _, c := range []struct {
		rule  *limit.Rule
		spent int64
	}{{ip, spentIP.Load()}, {account, spentAccount.Load()}, {route, spentRoute.Load()}} {
		if left := w.left(t, c.rule.Kind, "acme", c.rule); left+c.spent != c.rule.Limit.Burst {
			t.Errorf("%s: %d spent and %d left of %d", c.rule.ID, c.spent, left, c.rule.Limit.Burst)
		}
		t.Logf("%s: %d spent", c.rule.ID, c.spent)
	}
	t.Logf("%d calls for 32,000 requests", w.calls.Load())
}

// Near the end of a quota, too, requests that wait together are settled together.
func TestQuotaNearItsEndIsAskedForTogether(t *testing.T) {
	w := &watched{Store: newMemory(t), flying: map[limit.Subject]int{}}
	l := newLimiter(t, limiter.Config{Store: w})
	quota := storetest.Window("quota", 5_000, 24*time.Hour)
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			var decision limit.Decision
			for range 20 {
				if l.Check(t.Context(), request(t, "acme", 1, quota), &decision); decision.Verdict != limit.Allowed {
					t.Errorf("refused within the quota: %+v", decision)
				}
			}
		})
	}
	group.Wait()
	if calls := w.calls.Load(); calls > 1000 {
		t.Errorf("%d calls for 4,000 requests by 200 at once", calls)
	}
}

// Close hands everything back, however many subjects hold tokens, and a full
// table's evictions lose none.
func TestAllLeasesComeBack(t *testing.T) {
	for name, bounds := range map[string]table.Bounds{"drained": {}, "evicted": {IPs: 64, Users: 64, Accounts: 64}} {
		t.Run(name, func(t *testing.T) {
			frozen, err := memory.New(memory.Config{Now: func() time.Duration { return time.Hour }}) // nothing refills
			if err != nil {
				t.Fatal(err)
			}
			w := &watched{Store: frozen, flying: map[limit.Subject]int{}}
			var now atomic.Int64
			var o observer
			l, err := limiter.New(limiter.Config{Store: w, Bounds: bounds, Observer: &o, Now: func() time.Duration { return time.Duration(now.Load()) }})
			if err != nil {
				t.Fatal(err)
			}
			r := storetest.Bucket("r", 1000, 1000)
			const subjects, each = 6_000, 5
			for i := range subjects {
				for range each {
					now.Add(int64(11 * time.Millisecond))
					var decision limit.Decision
					l.Check(t.Context(), request(t, fmt.Sprint("acct_", i), 1, r), &decision)
				}
			}
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if o.dropped.Load() > 0 {
				t.Errorf("%d errands were dropped", o.dropped.Load())
			}
			for i := range subjects {
				if left := w.left(t, limit.Account, fmt.Sprint("acct_", i), r); left != 1000-each {
					t.Fatalf("account %d has %d left, want 1,000 less the %d it has spent", i, left, each)
				}
			}
		})
	}
}

// Where replies are lost, closed rules admit nothing unpaid, nobody waits for
// ever, and no token is made: what is gone is what was lost, no less.
func TestLostRepliesMakeNoTokens(t *testing.T) {
	w := &watched{Store: newMemory(t), failth: 3, flying: map[limit.Subject]int{}, unknown: map[uint32]int64{}}
	l, err := limiter.New(limiter.Config{Store: w, Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	closed := storetest.Bucket("closed", 1e-6, 5_000)
	closed.FailMode = limit.FailClosed
	var admitted, unavailable atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			var decision limit.Decision
			for range 1000 {
				switch l.Check(t.Context(), request(t, "acme", 1, closed), &decision); decision.Verdict {
				case limit.Allowed:
					admitted.Add(1)
				case limit.Unavailable:
					unavailable.Add(1)
				}
			}
		})
	}
	group.Wait()
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := w.left(t, limit.Account, "acme", closed)
	if got := admitted.Load() + left + w.unknown[closed.Tag]; got != 5_000 {
		t.Errorf("%d admitted, %d left and %d unknown of 5,000", admitted.Load(), left, w.unknown[closed.Tag])
	}
	if unavailable.Load() == 0 || admitted.Load() == 0 {
		t.Errorf("%d unavailable, %d admitted: the test has not met both", unavailable.Load(), admitted.Load())
	}
}
