package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/store/storetest"
)

func newMemory(t testing.TB) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newLimiter(t testing.TB, cfg limiter.Config) *limiter.Limiter {
	t.Helper()
	l, err := limiter.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l
}

// request charges a subject for each rule; one that is of another kind is
// charged to that kind's subject.
func request(t testing.TB, id string, cost int64, rules ...*limit.Rule) *limit.Request {
	t.Helper()
	r := &limit.Request{}
	for _, rule := range rules {
		r.Charges = append(r.Charges, limit.Charge{Subject: storetest.Subject(t, rule.Kind, id), Rule: rule, Limit: rule.Limit, Cost: rule.Charge(cost)})
	}
	return r
}

func of(kind limit.Kind, r *limit.Rule) *limit.Rule { r.Kind = kind; return r }

// Of many requests at once, on every path, exactly as many are admitted as
// there are tokens.
func TestLastTokenIsSpentOnce(t *testing.T) {
	l := newLimiter(t, limiter.Config{Store: newMemory(t)})
	account, quota := storetest.Bucket("account", 0.001, 500), storetest.Window("quota", 300, 24*time.Hour)
	var admitted atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			request := request(t, "acme", 1, account, quota)
			var decision limit.Decision
			for range 100 {
				if l.Check(t.Context(), request, &decision); decision.Verdict == limit.Allowed {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := admitted.Load(); n != 300 {
		t.Errorf("admitted %d of 300", n)
	}
}

// What is decided in the process allocates nothing, whoever decides it, and
// neither does a whole decision over the in-process store.
func TestLocalDecisionsAllocateNothing(t *testing.T) {
	l := newLimiter(t, limiter.Config{Store: newMemory(t)})
	account, route, quota := storetest.Bucket("account", 1e6, 1e6), storetest.Bucket("route", 1e6, 1e6), storetest.Window("quota", 1e9, 24*time.Hour)
	empty, log := storetest.Bucket("empty", 0.001, 1), storetest.Log("log", 1, time.Hour)
	banned := request(t, "banned", 1, account)
	banned.Charges[0].Banned = true
	for _, c := range []struct {
		name    string
		by      limit.DecidedBy
		request *limit.Request
	}{
		{"store", limit.ByStore, request(t, "acme", 1, account, route, quota)},
		{"cap", limit.ByCap, request(t, "acme", 1, account, empty)},
		{"knowledge", limit.ByKnowledge, request(t, "acme", 1, log)},
		{"ban", limit.ByBan, banned},
		{"free", limit.ByNoRule, request(t, "acme", 0, account)},
	} {
		var decision limit.Decision
		for range 3 { // to the state in which the stage decides, and so that slices have grown
			l.Check(t.Context(), c.request, &decision)
		}
		if decision.DecidedBy != c.by {
			t.Fatalf("%s: decided by %s", c.name, decision.DecidedBy)
		}
		if n := testing.AllocsPerRun(1000, func() { l.Check(t.Context(), c.request, &decision) }); n != 0 && !raceEnabled {
			t.Errorf("%s: %v allocations a decision", c.name, n)
		}
	}
}

// A decision that asks the store is told with what it waited, one that is made in the
// process is not.
func TestWaitsAreTold(t *testing.T) {
	var o observer
	l := newLimiter(t, limiter.Config{Store: newMemory(t), Observer: &o})
	var decision limit.Decision
	for _, c := range []struct {
		request *limit.Request
		waited  int64
	}{
		{request(t, "acme", 0, storetest.Bucket("account", 0.001, 1)), 0},
		{request(t, "acme", 1, storetest.Bucket("account", 0.001, 1)), 1},
		{request(t, "acme", 1, storetest.Bucket("account", 0.001, 1)), 1}, // known to be empty
	} {
		l.Check(t.Context(), c.request, &decision)
		if got := o.waited.Load(); got != c.waited {
			t.Errorf("decided by %s: %d waits are told, want %d", decision.DecidedBy, got, c.waited)
		}
	}
}

// What an address was charged for a login that its user name refused comes
// back, at the latest when the limiter is closed.
func TestRefusedLoginIsHandedBack(t *testing.T) {
	s := newMemory(t)
	l, err := limiter.New(limiter.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	ip, user := of(limit.IP, storetest.Log("ip", 5, time.Hour)), of(limit.User, storetest.Log("user", 1, time.Hour))
	logIn := func(name string) limit.Decision {
		var decision limit.Decision
		request := request(t, "203.0.113.9", 1, ip)
		request.Charges = append(request.Charges, limit.Charge{Subject: storetest.Subject(t, limit.User, name), Rule: user, Limit: user.Limit, Cost: 1})
		l.Check(t.Context(), request, &decision)
		return decision
	}
	if d := logIn("bob"); d.Verdict != limit.Allowed {
		t.Fatalf("the first login: %+v", d)
	}
	if d := logIn("bob"); d.Verdict != limit.Denied || d.Outcomes[d.Refused].Rule != user {
		t.Fatalf("the second login: %+v", d)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatalf("closed twice: %v", err)
	}
	var result store.Result
	ask := store.Ask{Subject: storetest.Subject(t, limit.IP, "203.0.113.9"), Entries: []store.Entry{{Rule: ip, Limit: ip.Limit}}}
	if err := s.Take(t.Context(), &ask, &result); err != nil || result.Outcomes[0].Remaining != 4 {
		t.Errorf("the address has %d of 5 left after one login, want 4 (%v)", result.Outcomes[0].Remaining, err)
	}
}

// stuck is a store that answers nobody until it is told to.
type stuck struct {
	store.Store
	release chan struct{}
}

func (s stuck) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	select {
	case <-s.release:
		return s.Store.Take(ctx, ask, result)
	case <-ctx.Done():
		return fmt.Errorf("stuck: %w", store.ErrTimeout)
	}
}

type observer struct{ shadowed, short, dropped, waited atomic.Int64 }

func (o *observer) Shadow(_ *limit.Rule, requests, short int64) {
	o.shadowed.Add(requests)
	o.short.Add(short)
}
func (o *observer) Dropped(n int64)      { o.dropped.Add(n) }
func (o *observer) Waited(time.Duration) { o.waited.Add(1) }

// Requests with nothing but shadow rules wait for no store, what waits to be
// counted is told as dropped if the store does not answer. Close gives up with
// its context.
func TestErrandsAreDropped(t *testing.T) {
	s := stuck{newMemory(t), make(chan struct{})}
	var o observer
	l, err := limiter.New(limiter.Config{Store: s, Observer: &o})
	if err != nil {
		t.Fatal(err)
	}
	soft := storetest.Shadowed(storetest.Bucket("soft", 1, 1))
	const sent = 10_000
	for i := range sent {
		var decision limit.Decision
		if l.Check(t.Context(), request(t, fmt.Sprint("acct_", i), 1, soft), &decision); decision.Verdict != limit.Allowed {
			t.Fatalf("%+v", decision)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v, want its context's error", err)
	}
	if dropped := o.dropped.Load(); dropped != sent {
		t.Errorf("%d of %d are told as dropped", dropped, sent)
	}
}

// A shadow rule's word is told once for each admitted request, whether the
// request waited for it or not.
func TestShadowIsTold(t *testing.T) {
	var o observer
	l, err := limiter.New(limiter.Config{Store: newMemory(t), Observer: &o})
	if err != nil {
		t.Fatal(err)
	}
	hard, soft := storetest.Bucket("hard", 0.001, 3), storetest.Shadowed(storetest.Bucket("soft", 0.001, 1))
	alone := of(limit.IP, storetest.Shadowed(storetest.Bucket("alone", 0.001, 2)))
	for range 4 { // the last is refused by hard
		var decision limit.Decision
		l.Check(t.Context(), request(t, "acme", 1, alone, hard, soft), &decision)
	}
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o.shadowed.Load() != 6 || o.short.Load() != 3 || o.dropped.Load() != 0 {
		t.Errorf("told %d, short %d, dropped %d; want 6, 3, 0", o.shadowed.Load(), o.short.Load(), o.dropped.Load())
	}
}

// A malformed ask is a bug of the process: it is decided by the fail mode and
// logged, once a second however many requests it strikes.
func TestMalformedAskIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	l := newLimiter(t, limiter.Config{Store: newMemory(t), Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Duration { return 0 }})
	r := storetest.Bucket("twice", 1, 1000)
	for range 10 {
		var decision limit.Decision
		if l.Check(t.Context(), request(t, "acme", 1, r, r), &decision); decision.DecidedBy != limit.ByFallback || !errors.Is(decision.Cause, store.ErrInvalid) {
			t.Fatalf("%+v", decision)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "rules twice and twice share tag") {
		t.Errorf("%d lines were logged:\n%s", n, log.String())
	}
}

// A limiter without a store is refused by name.
func TestConfig(t *testing.T) {
	if _, err := limiter.New(limiter.Config{}); err == nil || err.Error() != "limiter: no store" {
		t.Error(err)
	}
}
