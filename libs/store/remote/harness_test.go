package remote

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/members"
	"github.com/shiplane/limits/libs/store/memory"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

const (
	// patience bounds what a test waits for; only a failing test comes near it.
	patience = 20 * time.Second
	// ample is a timeout of asks that are to be answered, on a busy machine.
	ample = 5 * time.Second
)

// checker is a checker of a test: the contract over a store of its own.
type checker struct {
	checkv1.UnimplementedCheckServiceHandler

	store  store.Store
	roster *members.Local
	url    string
	server *httptest.Server

	sick        atomic.Bool // health says that it does not serve
	draining    atomic.Bool // each answer closes its connection
	calls       atomic.Int64
	asks        atomic.Int64
	connections atomic.Int64
	acquire     atomic.Pointer[func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error)] // nil: the store
}

// startChecker serves a store until the test ends.
func startChecker(t testing.TB, s store.Store, options ...func(*httptest.Server)) *checker {
	t.Helper()
	c := &checker{store: s, roster: members.NewLocal()}
	mux := http.NewServeMux()
	mux.Handle(checkv1.NewCheckServiceHandler(c))
	mux.Handle(grpchealth.NewHandler(health{c}))
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.draining.Load() { // as libs/serve does: idle connections stay for now
			w.Header().Set("Connection", "close")
		}
		mux.ServeHTTP(w, r)
	}))
	c.server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.connections.Add(1)
		}
	}
	for _, o := range options {
		o(c.server)
	}
	if c.server.URL == "" {
		c.server.Start()
	}
	c.url = c.server.URL
	t.Cleanup(c.server.Close)
	return c
}

// health implements grpchealth.Checker.
type health struct{ *checker }

func (h health) Check(context.Context, *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if h.sick.Load() {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}

// answerWith has the checker answer in another way than from its store; nil: from it.
func (c *checker) answerWith(acquire func(context.Context, *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error)) {
	if acquire == nil {
		c.acquire.Store(nil)
		return
	}
	c.acquire.Store(&acquire)
}

// Acquire implements checkv1.CheckServiceHandler.
func (c *checker) Acquire(ctx context.Context, q *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
	c.calls.Add(1)
	c.asks.Add(int64(len(q.GetAsks())))
	if other := c.acquire.Load(); other != nil {
		return (*other)(ctx, q)
	}
	r := &checkv1.AcquireResponse{}
	for _, wire := range q.GetAsks() {
		ask, err := read(wire)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		var result store.Result
		switch err := c.store.Take(ctx, ask, &result); {
		case errors.Is(err, store.ErrTimeout):
			r.Results = append(r.Results, &checkv1.AskResult{Cause: checkv1.Cause_CAUSE_STORE_TIMEOUT})
			continue
		case err != nil:
			r.Results = append(r.Results, &checkv1.AskResult{Cause: checkv1.Cause_CAUSE_STORE_UNAVAILABLE})
			continue
		}
		made := &checkv1.AskResult{AtUs: result.At.Microseconds(), Allowed: result.Allowed}
		for _, o := range result.Outcomes {
			made.Outcomes = append(made.Outcomes, &checkv1.AskOutcome{
				Granted: o.Granted, Remaining: o.Remaining, RetryUs: o.Retry.Microseconds(), ResetUs: o.Reset.Microseconds(), Never: o.Never, Short: o.Short,
			})
		}
		r.Results = append(r.Results, made)
	}
	return r, nil
}

// read is the inverse of encode.
func read(wire *checkv1.Ask) (*store.Ask, error) {
	var kind limit.Kind
	for k, v := range kinds {
		if v == wire.GetKind() {
			kind = k
		}
	}
	subject, err := limit.RestoreSubject(wire.GetDomain(), kind, string(wire.GetId()), wire.GetHashed())
	if err != nil {
		return nil, err
	}
	ask := &store.Ask{Subject: subject}
	for _, e := range wire.GetEntries() {
		rule := &limit.Rule{Domain: wire.GetDomain(), ID: e.GetRule(), Tag: e.GetTag(), Mode: limit.Enforce}
		for a, v := range counters {
			if v == e.GetCounter() {
				rule.Algorithm = a
			}
		}
		if e.GetShadow() {
			rule.Mode = limit.Shadow
		}
		rule.Limit = limit.Limit{Rate: limit.Rate(e.GetRate()), Burst: e.GetSize()}
		if e.GetWindowUs() > 0 {
			rule.Limit = limit.Limit{Count: e.GetSize(), Window: micros(e.GetWindowUs())}
		}
		ask.Entries = append(ask.Entries, store.Entry{
			Rule: rule, Limit: rule.Limit, Give: e.GetGive(), GivenFrom: micros(e.GetGivenFromUs()), Need: e.GetNeed(), Want: e.GetWant(), Member: e.GetMember(),
		})
	}
	return ask, ask.Validate()
}

// Join implements checkv1.CheckServiceHandler.
func (c *checker) Join(ctx context.Context, q *checkv1.JoinRequest) (*checkv1.JoinResponse, error) {
	live, err := c.roster.Beat(ctx, q.GetPod(), !q.GetLeaves())
	return &checkv1.JoinResponse{Pods: int32(live)}, err //nolint:gosec // pods of a test
}

// observed is what a store tells.
type observed struct {
	mu      sync.Mutex
	classes map[string]int    // by checker and class
	states  map[string]string // by checker: all, in order
}

func (o *observed) Call(checker, class string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.classes == nil {
		o.classes = map[string]int{}
	}
	o.classes[checker+" "+class]++
}

func (o *observed) Breaker(checker string, _, to breaker.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.states == nil {
		o.states = map[string]string{}
	}
	o.states[checker] += to.String() + " "
}

// told is what was told of a checker.
func (o *observed) told(c *checker, class class) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.classes[c.name()+" "+string(class)]
}

func (o *observed) became(c *checker) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.states[c.name()]
}

func (c *checker) name() string {
	_, name := base(c.url)
	return name
}

// open makes a store before checkers that ends with the test.
func open(t testing.TB, cfg Config, checkers ...*checker) (*Store, *observed) {
	t.Helper()
	o := &observed{}
	cfg.Observer, cfg.Logger = o, slog.New(slog.DiscardHandler)
	for _, c := range checkers {
		cfg.URLs = append(cfg.URLs, c.url)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, o
}

// counting is a store in this process.
func counting(t testing.TB) store.Store {
	t.Helper()
	s, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// hourly refills so slowly that no test sees it: what is spent is gone.
var hourly = &limit.Rule{
	Domain: "public-api", ID: "growth-global", Tag: 7, Algorithm: limit.TokenBucket, Mode: limit.Enforce, Limit: limit.Limit{Rate: 1.0 / 3600, Burst: 1000},
}

// askOf takes one token of an account.
func askOf(t testing.TB, account string) *store.Ask {
	t.Helper()
	subject, err := limit.NewSubject("public-api", limit.Account, account)
	if err != nil {
		t.Fatal(err)
	}
	return &store.Ask{Subject: subject, Entries: []store.Entry{{Rule: hourly, Limit: hourly.Limit, Need: 1, Want: 1}}}
}

// take takes a token and returns what is left.
func take(t testing.TB, s *Store, account string) (left int64, err error) {
	t.Helper()
	var r store.Result
	if err := s.Take(t.Context(), askOf(t, account), &r); err != nil {
		return 0, err
	}
	return r.Outcomes[0].Remaining, nil
}

// poll waits until something holds.
func poll(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("it does not hold that %s", what)
		}
	}
}

// together runs n calls at once and waits for them.
func together(n int, call func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { call(i) })
	}
	group.Wait()
}
