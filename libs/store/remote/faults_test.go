package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// Asks are spread over all checkers.
func TestAsksAreSpread(t *testing.T) {
	shared := counting(t)
	all := []*checker{startChecker(t, shared), startChecker(t, shared), startChecker(t, shared)}
	s, _ := open(t, Config{Timeout: ample}, all...)
	for range 30 {
		if _, err := take(t, s, "acct"); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range all {
		if got := c.asks.Load(); got != 10 {
			t.Errorf("checker %d was asked %d times, want 10", i, got)
		}
	}
}

// Asks that wait leave together, and no more at once than a checker takes; each is
// answered by its own result.
func TestAsksThatWaitLeaveTogether(t *testing.T) {
	const waiting = 2*batchMax + 10
	c := startChecker(t, counting(t))
	s, _ := open(t, Config{Timeout: ample}, c)
	release := make(chan struct{})
	c.answerWith(func(ctx context.Context, q *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
		<-release
		c.acquire.Store(nil)
		return c.Acquire(ctx, q)
	})
	var granted atomic.Int64
	go func() {
		poll(t, "all wait", func() bool { return s.endpoints[0].inFlight.Load() == waiting })
		close(release)
	}()
	together(waiting, func(i int) {
		left, err := take(t, s, fmt.Sprint("acct-", i))
		if err != nil || left != hourly.Limit.Burst-1 {
			t.Errorf("ask %d: %d left, %v", i, left, err)
		}
		granted.Add(1)
	})
	if calls := c.calls.Load(); granted.Load() != waiting || calls > 20 {
		t.Errorf("%d asks took %d calls", granted.Load(), calls)
	}
}

// An ask that could not be sent goes to another checker at once, and the checker that
// refuses connections is asked no more until it is back.
func TestUnsentAskGoesElsewhere(t *testing.T) {
	shared := counting(t)
	gone, there := startChecker(t, shared), startChecker(t, shared)
	gone.server.Close()
	s, o := open(t, Config{Timeout: ample}, gone, there)
	for range 100 {
		if _, err := take(t, s, "acct"); err != nil {
			t.Fatal(err)
		}
	}
	if got := there.asks.Load(); got != 100 {
		t.Errorf("the other was asked %d times", got)
	}
	if refused := o.told(gone, classRefused); refused < 1 || refused > 1+o.told(there, classNone)/10 {
		t.Errorf("%d asks were refused before they went elsewhere", refused)
	}
}

// Without any checker Take fails at once, and says that it was not asked.
func TestNoCheckerIsUnavailable(t *testing.T) {
	c := startChecker(t, counting(t))
	c.server.Close()
	s, _ := open(t, Config{Timeout: ample}, c)
	for range 10 {
		if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
}

// An ask whose connection breaks may have been executed: it is sent to nobody again,
// and nothing is said to be known of it.
func TestBrokenConnectionIsNotRepeated(t *testing.T) {
	shared := counting(t)
	one, other := startChecker(t, shared), startChecker(t, shared)
	for _, c := range []*checker{one, other} {
		c.answerWith(func(ctx context.Context, q *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
			ask, err := read(q.GetAsks()[0])
			if err == nil {
				err = shared.Take(ctx, ask, &store.Result{})
			}
			if err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		})
	}
	s, _ := open(t, Config{Timeout: ample}, one, other)
	const asked = 10
	for range asked {
		if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	}
	if got := one.asks.Load() + other.asks.Load(); got != asked {
		t.Errorf("%d asks were sent for %d", got, asked)
	}
	var r store.Result
	if err := shared.Take(t.Context(), askOf(t, "acct"), &r); err != nil || r.Outcomes[0].Remaining != hourly.Limit.Burst-asked-1 {
		t.Errorf("%+v, %v: want that each was charged once", r, err)
	}
}

// A checker that hangs costs each ask its timeout until three have run out, then
// nothing: no calls, a bounded number of connections. When it is back it is used again,
// without a request that finds out.
func TestHangingCheckerIsLeftAlone(t *testing.T) {
	c := startChecker(t, counting(t))
	hang := make(chan struct{})
	s, o := open(t, Config{Timeout: 20 * time.Millisecond}, c)
	<-s.Reached()
	c.sick.Store(true) // as one that hangs: its health is not told either
	c.answerWith(func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
		<-hang
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("late"))
	})
	for i := 0; s.endpoints[0].breaker.Closed(); i++ {
		if i > 100 {
			t.Fatal("100 timeouts did not open the breaker")
		}
		if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	}
	calls := c.calls.Load()
	for range 1000 {
		if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
	}
	if more := c.calls.Load() - calls; more > 0 {
		t.Errorf("%d calls went to a checker that hangs", more)
	}
	if got := c.connections.Load(); got > connectionsMax+10 { // and those of its health
		t.Errorf("%d connections were made", got)
	}
	close(hang)
	c.answerWith(nil)
	c.sick.Store(false)
	poll(t, "the breaker closes without a request", s.endpoints[0].breaker.Closed)
	poll(t, "it is used", func() bool { _, err := take(t, s, "acct"); return err == nil })
	if states := o.became(c); states[:len("open probing ")] != "open probing " {
		t.Errorf("the breaker became %s", states)
	}
}

// Asks that find as many answers overdue as may be are not sent, and open the breaker,
// though each of those was this process's own stall as far as it knows.
func TestOwedAnswersOpenTheBreaker(t *testing.T) {
	c := startChecker(t, counting(t))
	s, o := open(t, Config{Timeout: ample}, c)
	<-s.Reached()
	c.sick.Store(true)
	s.endpoints[0].connections.Add(connectionsMax)
	for i := 0; s.endpoints[0].breaker.Closed(); i++ {
		if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrUnavailable) || i > 100 {
			t.Fatalf("ask %d: %v", i, err)
		}
	}
	if sent, owed := c.asks.Load(), o.told(c, classOwing); sent > 0 || owed == 0 {
		t.Errorf("%d asks were sent, %d were not as answers are owed", sent, owed)
	}
	s.endpoints[0].connections.Add(-connectionsMax)
	c.sick.Store(false)
	poll(t, "it is used", func() bool { _, err := take(t, s, "acct"); return err == nil })
}

// A checker that answers, though it says that it does not serve, is not taken for one
// that is back.
func TestSickCheckerStaysAway(t *testing.T) {
	c := startChecker(t, counting(t))
	s, o := open(t, Config{Timeout: ample}, c)
	<-s.Reached()
	c.sick.Store(true)
	c.answerWith(func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("who are you?"))
	})
	if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a checker that does not know us: %v", err)
	}
	poll(t, "it was looked at", func() bool { return o.became(c) == "open probing open " })
	c.sick.Store(false)
	poll(t, "the breaker closes", s.endpoints[0].breaker.Closed)
}

// A checker that refuses the token has executed nothing: another is asked.
func TestUnknownTokenGoesElsewhere(t *testing.T) {
	shared := counting(t)
	strange, other := startChecker(t, shared), startChecker(t, shared)
	strange.answerWith(func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("no pod"))
	})
	s, _ := open(t, Config{Timeout: ample}, strange, other)
	for range 10 {
		if _, err := take(t, s, "acct"); err != nil {
			t.Error(err)
		}
	}
}

// One dead shard behind a checker fails the asks of that shard, each in its own way,
// and neither the others that travel with them nor the checker.
func TestDeadShardBehindACheckerIsNotItsFailure(t *testing.T) {
	alive := counting(t)
	c := startChecker(t, halfDead{alive})
	s, o := open(t, Config{Timeout: ample}, c)
	together(300, func(i int) {
		account := []string{"alive", "late", "away"}[i%3]
		_, err := take(t, s, account)
		switch {
		case account == "alive" && err != nil,
			account == "late" && !errors.Is(err, store.ErrTimeout),
			account == "away" && !errors.Is(err, store.ErrUnavailable):
			t.Errorf("%s: %v", account, err)
		}
	})
	if states := o.became(c); states != "" {
		t.Errorf("the checker's breaker became %s", states)
	}
	if late, away := o.told(c, classStoreLate), o.told(c, classStoreAway); late != 100 || away != 100 {
		t.Errorf("%d were told as late, %d as away", late, away)
	}
	if got := c.asks.Load(); got != 300 {
		t.Errorf("%d asks were sent for 300", got)
	}
}

// halfDead is a store with a shard that is late, and one that is away.
type halfDead struct{ store.Store }

func (h halfDead) Take(ctx context.Context, ask *store.Ask, r *store.Result) error {
	switch ask.Subject.ID() {
	case "late":
		return store.ErrTimeout
	case "away":
		return store.ErrUnavailable
	}
	return h.Store.Take(ctx, ask, r)
}

// An ask that the checker refuses as malformed fails alone, though it travelled with
// others: nothing of its call was executed, and they go again without it.
func TestMalformedAskFailsAlone(t *testing.T) {
	c := startChecker(t, counting(t))
	gate := make(chan struct{})
	c.answerWith(func(_ context.Context, q *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
		<-gate
		for _, a := range q.GetAsks() {
			if string(a.GetId()) == "bad" {
				return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("bad"))
			}
		}
		r := &checkv1.AcquireResponse{}
		for range q.GetAsks() {
			r.Results = append(r.Results, &checkv1.AskResult{Allowed: true, Outcomes: []*checkv1.AskOutcome{{Granted: 1}}})
		}
		return r, nil
	})
	s, _ := open(t, Config{Timeout: ample}, c)
	go func() {
		poll(t, "all wait", func() bool { return s.endpoints[0].inFlight.Load() == 100 })
		close(gate)
	}()
	together(100, func(i int) {
		account := fmt.Sprint("acct-", i)
		if i == 50 {
			account = "bad"
		}
		if _, err := take(t, s, account); (account == "bad") != errors.Is(err, store.ErrInvalid) || account != "bad" && err != nil {
			t.Errorf("%s: %v", account, err)
		}
	})
}

// An answer that is not one to the asks leaves them unknown.
func TestAnswerThatDoesNotFit(t *testing.T) {
	c := startChecker(t, counting(t))
	s, _ := open(t, Config{Timeout: ample}, c)
	for name, r := range map[string]*checkv1.AcquireResponse{
		"no result":       {},
		"two results":     {Results: []*checkv1.AskResult{{}, {}}},
		"no outcome":      {Results: []*checkv1.AskResult{{Allowed: true}}},
		"a cause unknown": {Results: []*checkv1.AskResult{{Cause: 99}}},
	} {
		c.answerWith(func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) { return r, nil })
		if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrTimeout) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever answers and is no checker has executed nothing.
func TestNoCheckerAtAll(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	s, _ := open(t, Config{Timeout: ample, URLs: []string{server.URL}})
	if _, err := take(t, s, "acct"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

// A checker that drains is left to itself while there is another, and its idle
// connections are given up; where it is alone it is used on.
func TestDrainingCheckerIsLeft(t *testing.T) {
	shared := counting(t)
	draining, other := startChecker(t, shared), startChecker(t, shared)
	s, _ := open(t, Config{Timeout: ample}, draining, other)
	for range 10 {
		if _, err := take(t, s, "acct"); err != nil {
			t.Fatal(err)
		}
	}
	draining.draining.Store(true)
	before := draining.asks.Load()
	for range 100 {
		if _, err := take(t, s, "acct"); err != nil {
			t.Fatal(err)
		}
	}
	// One finds it out, and one more each second that this takes.
	if more := draining.asks.Load() - before; more < 1 || more > 10 {
		t.Errorf("the one that drains was asked %d times more", more)
	}
	// An ask that is written as a connection closes unannounced is unknown: first the
	// other must be known to be gone.
	other.server.Close()
	poll(t, "the other is known to be gone", func() bool {
		_, _ = take(t, s, "acct")
		return !s.endpoints[1].breaker.Closed()
	})
	for range 10 {
		if _, err := take(t, s, "acct"); err != nil {
			t.Errorf("a checker that drains alone: %v", err)
		}
	}
}
