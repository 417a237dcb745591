package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shiplane/limits/client"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store/memory"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// checkBytesMax bounds a message, as a checker does.
const checkBytesMax = 1 << 20

// fakeChecker is a checker of token buckets of accounts, over a real limiter.
type fakeChecker struct {
	checkv1.UnimplementedCheckServiceHandler
	limiter *limiter.Limiter
	rules   map[string]limit.Limit

	mu     sync.Mutex
	calls  int
	frozen bool  // it does not answer
	fails  error // it answers so
}

func newFakeChecker(rules map[string]limit.Limit) (*fakeChecker, error) {
	store, err := memory.New(memory.Config{})
	if err != nil {
		return nil, err
	}
	limits, err := limiter.New(limiter.Config{Store: store, Unpaced: true})
	return &fakeChecker{limiter: limits, rules: rules}, err
}

func startFakeChecker(t *testing.T, rules map[string]limit.Limit) *fakeChecker {
	t.Helper()
	k, err := newFakeChecker(rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.limiter.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return k
}

// become says how the checker answers from now on.
func (k *fakeChecker) become(frozen bool, fails error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen, k.fails = frozen, fails
}

func (k *fakeChecker) called() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls
}

// Check implements CheckService.
func (k *fakeChecker) Check(ctx context.Context, q *checkv1.CheckRequest) (*checkv1.CheckResponse, error) {
	k.mu.Lock()
	k.calls++
	frozen, fails := k.frozen, k.fails
	k.mu.Unlock()
	if frozen {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if fails != nil {
		return nil, fails
	}
	var request limit.Request
	for _, e := range q.GetEntries() {
		l, ok := k.rules[e.GetRule()]
		subject, err := limit.NewSubject(q.GetDomain(), limit.Account, e.GetKey())
		if !ok || err != nil {
			return nil, connect.NewError(connect.CodeNotFound, errors.New("unknown rule "+e.GetRule()))
		}
		rule := &limit.Rule{
			Domain: q.GetDomain(), ID: e.GetRule(), Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: l, Mode: limit.Enforce, FailMode: limit.FailOpen,
			Counts: limit.CountRequests, Tag: limit.TagOf(q.GetDomain(), e.GetRule(), limit.TokenBucket),
		}
		cost := int64(1)
		if e.Cost != nil {
			cost = e.GetCost()
		}
		request.Charges = append(request.Charges, limit.Charge{Subject: subject, Rule: rule, Limit: l, Cost: cost})
	}
	var d limit.Decision
	k.limiter.Check(ctx, &request, &d)
	return answerOf(q, &d), nil
}

func answerOf(q *checkv1.CheckRequest, d *limit.Decision) *checkv1.CheckResponse {
	a := &checkv1.CheckResponse{Verdict: checkv1.Verdict_VERDICT_ALLOWED, DecidedBy: checkv1.DecidedBy_DECIDED_BY_STORE}
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		remaining := o.Remaining
		made := &checkv1.Outcome{
			Rule: o.Rule.ID, Key: q.GetEntries()[i].GetKey(), Cost: o.Cost, Remaining: &remaining, Reset_: durationpb.New(o.Reset), Short: o.Short, Never: o.Never,
			Size: o.Limit.Size(), Rate: float64(o.Limit.Rate),
		}
		if o.Short && !o.Never {
			made.RetryAfter = durationpb.New(o.Retry)
		}
		a.Entries = append(a.Entries, made)
	}
	if d.Verdict != limit.Allowed {
		refused := int32(d.Refused)
		a.Verdict, a.Refused = checkv1.Verdict_VERDICT_DENIED, &refused
		if after, ok := d.RetryAfter(); ok {
			a.RetryAfter = durationpb.New(after)
		}
	}
	return a
}

func (k *fakeChecker) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(checkv1.NewCheckServiceHandler(k, connect.WithReadMaxBytes(checkBytesMax)))
	return mux
}

// inMemory reaches a handler without a network, so that time can be virtual.
type inMemory struct {
	handler http.Handler
	latency time.Duration
}

// Do implements connect.HTTPClient.
func (m inMemory) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(m.latency)
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// RoundTrip implements http.RoundTripper.
func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) { return m.Do(r) }

// clientOf makes a client of checkers that are reached without a network.
func clientOf(t *testing.T, handler http.Handler, edit func(*client.Config)) *client.Client {
	t.Helper()
	cfg := client.Config{URLs: []string{"http://checker:8081"}, HTTPClient: inMemory{handler: handler}}
	if edit != nil {
		edit(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
