package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/client"
	"github.com/shiplane/limits/libs/limit"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// exampleChecker serves a rule growth-global of two requests an hour.
func exampleChecker() *httptest.Server {
	k, err := newFakeChecker(map[string]limit.Limit{"growth-global": {Rate: 2.0 / 3600, Burst: 2}})
	if err != nil {
		return nil
	}
	return httptest.NewServer(k.handler())
}

func Example() {
	checker := exampleChecker()
	defer checker.Close()
	limits, err := client.New(client.Config{
		URLs:    []string{checker.URL},
		Timeout: 5 * time.Second, // patience for a busy machine
		Rules:   map[string]client.Fallback{"growth-global": client.Local(10, 20)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limits.Close()
	for range 3 {
		d, err := limits.Check(context.Background(), "public-api", client.Entry{Rule: "growth-global", Key: "acct_7Q2"})
		fmt.Println(d.Allowed, d.DecidedBy, d.Refused, d.RetryAfter.Round(time.Minute), err)
	}
	// Output:
	// true checker  0s <nil>
	// true checker  0s <nil>
	// false checker growth-global 30m0s <nil>
}

func ExampleMiddleware() {
	checker := exampleChecker()
	defer checker.Close()
	limits, err := client.New(client.Config{URLs: []string{checker.URL}, Timeout: 5 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limits.Close()
	limited := client.Middleware(client.MiddlewareConfig{
		Client: limits, Domain: "public-api",
		Entries: func(r *http.Request) []client.Entry {
			return []client.Entry{{Rule: "growth-global", Key: r.Header.Get("X-Account")}}
		},
	})
	api := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "labels") }))
	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/v1/labels", nil)
		r.Header.Set("X-Account", "acct_7Q2")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "growth-global";r=1;t=1800
	// 200 "growth-global";r=0;t=3600
	// 429 "growth-global";r=0;t=1800
}

func ExampleNewInterceptor() {
	checker := exampleChecker()
	defer checker.Close()
	limits, err := client.New(client.Config{URLs: []string{checker.URL}, Timeout: 5 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limits.Close()
	interceptor := client.NewInterceptor(client.InterceptorConfig{
		Client: limits, Domain: "public-api",
		Entries: func(_ context.Context, call client.Call) []client.Entry {
			return []client.Entry{{Rule: "growth-global", Key: call.Header.Get("X-Account")}}
		},
	})
	// Any service will do; this one is at hand.
	mux := http.NewServeMux()
	mux.Handle(checkv1.NewCheckServiceHandler(checkv1.UnimplementedCheckServiceHandler{}, connect.WithInterceptors(interceptor)))
	server := httptest.NewServer(mux)
	defer server.Close()
	for range 3 {
		ctx, call := connect.NewClientContext(context.Background())
		call.RequestHeader().Set("X-Account", "acct_7Q2")
		_, err := checkv1.NewCheckServiceClient(http.DefaultClient, server.URL).Check(ctx, &checkv1.CheckRequest{})
		fmt.Println(connect.CodeOf(err))
	}
	// Output:
	// unimplemented
	// unimplemented
	// resource_exhausted
}

func ExampleTransport() {
	// An API of ten requests a second, one at a time.
	bucket := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(bucket) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		bucket = time.Now().Add(100 * time.Millisecond)
		w.Header().Set("RateLimit-Policy", `"api";q=10;w=1`)
		w.Header().Set("RateLimit", `"api";r=0;t=1`)
	}))
	defer server.Close()
	polite := &http.Client{Transport: &client.Transport{}}
	for range 3 {
		answer, err := polite.Get(server.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode)
	}
	// Output:
	// 200
	// 200
	// 200
}
