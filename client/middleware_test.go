package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/shiplane/limits/client"
	"github.com/shiplane/limits/libs/limit"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// byKey counts requests by their API key, under the rule global.
func byKey(r *http.Request) []client.Entry {
	if key := r.Header.Get("X-Api-Key"); key != "" {
		return []client.Entry{{Rule: "global", Key: key}}
	}
	return nil
}

// counted is an API behind the middleware, which counts its answers.
type counted struct {
	inMemory
	mu       sync.Mutex
	refused  int
	arrivals []time.Time
}

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.inMemory.RoundTrip(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrivals = append(c.arrivals, time.Now())
	if err == nil && answer.StatusCode != http.StatusOK {
		c.refused++
	}
	return answer, err
}

// limitedAPI is an API behind a middleware behind a checker, without a network.
func limitedAPI(t *testing.T, l limit.Limit) *counted {
	t.Helper()
	c := clientOf(t, startFakeChecker(t, map[string]limit.Limit{"global": l}).handler(), nil)
	limited := client.Middleware(client.MiddlewareConfig{Client: c, Domain: "public-api", Entries: byKey})
	api := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	return &counted{inMemory: inMemory{handler: api, latency: time.Millisecond}}
}

func getAs(t *testing.T, transport http.RoundTripper, key string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example/v1/labels", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// A client that obeys is refused once at most through middleware and checker: when
// it starts on a limit that others have used up.
func TestObeyingClientOfTheMiddlewareIsNotRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := limitedAPI(t, limit.Limit{Rate: 10, Burst: 20})
		for range 20 {
			getAs(t, api, "acct")
		}
		transport := &client.Transport{Base: api}
		for i := range 200 {
			if status := getAs(t, transport, "acct"); status != http.StatusOK {
				t.Fatalf("request %d got %d", i, status)
			}
		}
		if api.refused != 1 {
			t.Errorf("%d refusals, want the first alone", api.refused)
		}
	})
}

// A thousand clients that the middleware refused at the same time come back spread
// out.
func TestClientsRefusedByTheMiddlewareDoNotStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 1000
		api := limitedAPI(t, limit.Limit{Rate: 0.1, Burst: 1})
		getAs(t, api, "acct")
		var all sync.WaitGroup
		for range clients {
			all.Go(func() { getAs(t, &client.Transport{Base: api, Attempts: 2}, "acct") })
		}
		all.Wait()
		counts := map[int64]int{}
		most := 0
		for _, at := range api.arrivals[1+clients:] {
			tenth := at.UnixMilli() / 100
			counts[tenth]++
			most = max(most, counts[tenth])
		}
		t.Logf("%d came back in %d tenths of a second, at most %d in one", len(api.arrivals)-1-clients, len(counts), most)
		if len(api.arrivals) != 1+2*clients || most > clients/20 {
			t.Errorf("%d arrivals, at most %d in 100 ms", len(api.arrivals), most)
		}
	})
}

// The middleware says what is left, and why and for how long a request is refused;
// who meets no rule is not limited, and an outage of checkers is the fallback's.
func TestMiddlewareSaysWhatWasDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startFakeChecker(t, map[string]limit.Limit{"global": {Rate: 1, Burst: 1}})
		c := clientOf(t, k.handler(), func(cfg *client.Config) { cfg.Fallback = client.Closed() })
		api := client.Middleware(client.MiddlewareConfig{Client: c, Domain: "public-api", Entries: byKey})(http.NotFoundHandler())
		ask := func(key string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Header.Set("X-Api-Key", key)
			api.ServeHTTP(w, r)
			return w
		}
		if w := ask("acct"); w.Code != http.StatusNotFound || w.Header().Get("RateLimit") != `"global";r=0;t=1` || w.Header().Get("RateLimit-Policy") != `"global";q=1;w=1` {
			t.Errorf("allowed: %d %v", w.Code, w.Header())
		}
		if w := ask("acct"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || w.Header().Get("RateLimit") != `"global";r=0;t=1` ||
			w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), `"code":"rate_limited","detail":"Limit \"global\" (1/s burst 1) is used up. Retry after 1 s.","violated-policies":["global"]`) {
			t.Errorf("denied: %d %v %s", w.Code, w.Header(), w.Body)
		}
		k.become(true, nil)
		if w := ask("acct"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), `"code":"store_unavailable"`) {
			t.Errorf("no checker: %d %v %s", w.Code, w.Header(), w.Body)
		}
		if w := ask(""); w.Code != http.StatusNotFound || w.Header().Get("RateLimit") != "" {
			t.Errorf("no rule: %d %v", w.Code, w.Header())
		}
	})
}

// While no checker answers a fallback's refusals are told too, without the numbers of
// its bucket, which is no limit of anybody's.
func TestMiddlewareTellsNoNumbersOfAFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startFakeChecker(t, twoRules)
		k.become(true, nil)
		c := clientOf(t, k.handler(), func(cfg *client.Config) { cfg.Fallback = client.Local(0.5, 1) })
		api := client.Middleware(client.MiddlewareConfig{Client: c, Domain: "public-api", Entries: func(r *http.Request) []client.Entry {
			return []client.Entry{{Rule: "global", Key: "acct", Cost: r.ContentLength}}
		}})(http.NotFoundHandler())
		for _, step := range []struct {
			cost         int
			status       int
			retry, words string
		}{
			{1, http.StatusNotFound, "", ""},
			{1, http.StatusTooManyRequests, "2", `"Limit \"global\" is used up. Retry after 2 s."`},
			{2, http.StatusTooManyRequests, "", `"The request costs more than limit \"global\" can ever hold. Waiting does not help."`},
		} {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", step.cost))))
			h := w.Header()
			if w.Code != step.status || h.Get("Retry-After") != step.retry || !strings.Contains(w.Body.String(), step.words) || h.Get("RateLimit")+h.Get("RateLimit-Policy") != "" {
				t.Errorf("cost %d: %d %v %s", step.cost, w.Code, h, w.Body)
			}
		}
	})
}

// The interceptor limits unary calls and streams, with RetryInfo for those who are
// refused and what is left for the others.
func TestInterceptorLimitsCallsAndStreams(t *testing.T) {
	c := clientOf(t, startFakeChecker(t, map[string]limit.Limit{"global": {Rate: limit.RateMin, Burst: 2}}).handler(), func(cfg *client.Config) { cfg.Timeout = 10 * time.Second })
	limits := client.NewInterceptor(client.InterceptorConfig{Client: c, Domain: "public-api", Entries: func(_ context.Context, call client.Call) []client.Entry {
		return []client.Entry{{Rule: "global", Key: call.Spec.Procedure}}
	}})
	mux := http.NewServeMux()
	mux.Handle(checkv1.NewCheckServiceHandler(startFakeChecker(t, twoRules), connect.WithInterceptors(limits)))
	mux.Handle(grpcreflect.NewHandlerV1(grpcreflect.NewStaticReflector(checkv1.CheckServiceName), connect.WithInterceptors(limits)))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)

	unary := checkv1.NewCheckServiceClient(server.Client(), server.URL, connect.WithInterceptors(limits)) // of clients: it passes
	var last error
	for i := range 3 {
		ctx, info := connect.NewClientContext(t.Context())
		_, last = unary.Check(ctx, &checkv1.CheckRequest{Domain: "public-api", Entries: []*checkv1.Entry{{Rule: "global", Key: "a"}}})
		if i < 2 && (last != nil || !strings.HasPrefix(info.ResponseHeader().Get("RateLimit"), `"global";r=`)) {
			t.Errorf("call %d: %v, %v", i, last, info.ResponseHeader())
		}
	}
	wantRetryInfo(t, last)

	for i := range 3 {
		stream := grpcreflect.NewClient(server.Client(), server.URL, connect.WithGRPC()).NewStream(t.Context())
		_, err := stream.ListServices()
		if i < 2 && err != nil {
			t.Errorf("stream %d: %v", i, err)
		}
		last = err
		_, _ = stream.Close()
	}
	wantRetryInfo(t, last)
}

func wantRetryInfo(t *testing.T, err error) {
	t.Helper()
	var failure *connect.Error
	if !errors.As(err, &failure) || failure.Code() != connect.CodeResourceExhausted || failure.Meta().Get("Retry-After") == "" {
		t.Fatalf("got %v", err)
	}
	for _, detail := range failure.Details() {
		if m, err := detail.Value(); err == nil {
			if info, ok := m.(*errdetails.RetryInfo); ok && info.GetRetryDelay().AsDuration() > time.Hour {
				return
			}
		}
	}
	t.Errorf("%v has no RetryInfo", err)
}
