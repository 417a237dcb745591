package client_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shiplane/limits/client"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store/memory"
)

// api is an API behind a real limiter, reached without a network.
type api struct {
	rule    *limit.Rule
	subject limit.Subject
	limiter *limiter.Limiter
	latency time.Duration

	mu       sync.Mutex
	arrivals []time.Time
	refused  int
	bodies   []string
}

func newAPI(t *testing.T, algorithm limit.Algorithm, l limit.Limit) *api {
	t.Helper()
	store, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := limiter.New(limiter.Config{Store: store, Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limits.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	subject, err := limit.NewSubject("public-api", limit.Account, "acct_7Q2")
	if err != nil {
		t.Fatal(err)
	}
	rule := &limit.Rule{
		Domain: "public-api", ID: "growth-global", Kind: limit.Account, Algorithm: algorithm, Limit: l, Mode: limit.Enforce, FailMode: limit.FailOpen,
		Counts: limit.CountRequests, Tag: limit.TagOf("public-api", "growth-global", algorithm),
	}
	return &api{rule: rule, subject: subject, limiter: limits, latency: time.Millisecond}
}

// RoundTrip answers a request as the gateway does.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(a.latency)
	request := limit.Request{Charges: []limit.Charge{{Subject: a.subject, Rule: a.rule, Limit: a.rule.Limit, Cost: 1}}}
	var decision limit.Decision
	a.limiter.Check(r.Context(), &request, &decision)
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
	fields := httplimit.Describe(&decision, false)
	fields.Set(answer.Header)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.arrivals = append(a.arrivals, time.Now())
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		a.bodies = append(a.bodies, string(text))
	}
	if decision.Verdict != limit.Allowed {
		a.refused++
		answer.StatusCode = http.StatusTooManyRequests
	}
	return answer, nil
}

func get(ctx context.Context, t *testing.T, transport http.RoundTripper) int {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.example/v1/labels", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	return answer.StatusCode
}

// A client that obeys is not refused: from the last token on it comes at the pace
// of the refill; a window is left alone until it ends.
func TestObeyingClientIsNotRefused(t *testing.T) {
	for name, c := range map[string]struct {
		algorithm limit.Algorithm
		limit     limit.Limit
		refusals  int
	}{
		"bucket": {limit.TokenBucket, limit.Limit{Rate: 10, Burst: 20}, 0},
		"slow":   {limit.TokenBucket, limit.Limit{Rate: 0.5, Burst: 1}, 0},
		"window": {limit.FixedWindow, limit.Limit{Count: 30, Window: 20 * time.Second}, 0},
		"log":    {limit.SlidingLog, limit.Limit{Count: 30, Window: 20 * time.Second}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newAPI(t, c.algorithm, c.limit)
				transport := &client.Transport{Base: server}
				for range 100 {
					if status := get(t.Context(), t, transport); status != http.StatusOK {
						t.Fatalf("a caller saw %d", status)
					}
				}
				if server.refused > c.refusals {
					t.Errorf("%d requests were refused, want %d at most", server.refused, c.refusals)
				}
			})
		})
	}
}

// Many goroutines of one client share what it knows.
func TestConcurrentRequestsOfAClientShareItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPI(t, limit.TokenBucket, limit.Limit{Rate: 10, Burst: 20})
		transport := &client.Transport{Base: server}
		get(t.Context(), t, transport) // tells the policy
		start := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				for range 10 {
					if status := get(t.Context(), t, transport); status != http.StatusOK {
						t.Errorf("a caller saw %d", status)
					}
				}
			})
		}
		all.Wait()
		if took := time.Since(start); server.refused > 0 || took > 12*time.Second {
			t.Errorf("%d refusals in %v, want none in about 8 s", server.refused, took)
		}
	})
}

// Clients that were refused at the same time come back spread out: no tenth of a
// second sees more than a twentieth of them.
func TestRefusedClientsDoNotStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 1000
		server := newAPI(t, limit.FixedWindow, limit.Limit{Count: 1_000_000, Window: 10 * time.Second})
		server.rule.Limit.Count = 1
		get(t.Context(), t, server) // uses it up
		var all sync.WaitGroup
		for range clients {
			transport := &client.Transport{Base: server, Attempts: 2}
			all.Go(func() { get(t.Context(), t, transport) })
		}
		all.Wait()
		came := server.arrivals[1+clients:]
		counts := map[time.Duration]int{}
		for _, at := range came {
			counts[at.Sub(server.arrivals[0]).Truncate(100*time.Millisecond)]++
		}
		most := 0
		for _, n := range counts {
			most = max(most, n)
		}
		spread := slices.MaxFunc(came, time.Time.Compare).Sub(slices.MinFunc(came, time.Time.Compare))
		t.Logf("%d came back over %v, at most %d in 100 ms", len(came), spread, most)
		if len(came) != clients || most > clients/20 || spread < 5*time.Second {
			t.Errorf("%d of %d came back over %v, at most %d in 100 ms", len(came), clients, spread, most)
		}
	})
}

// What would wait for too long is not sent, and says for how long; what is waiting
// ends with its context.
func TestLongWaitsFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPI(t, limit.FixedWindow, limit.Limit{Count: 1, Window: time.Hour})
		transport := &client.Transport{Base: server}
		get(t.Context(), t, transport)
		status := get(t.Context(), t, &client.Transport{Base: server}) // knows of nothing, and is told an hour
		if status != http.StatusTooManyRequests {
			t.Errorf("got %d", status)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		var wait *client.WaitError
		if _, err := transport.RoundTrip(r); !errors.As(err, &wait) || wait.Wait < 50*time.Minute {
			t.Errorf("got %v", err)
		}
		patient := &client.Transport{Base: server, MaxWait: 2 * time.Hour}
		get(t.Context(), t, &client.Transport{Base: server})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if status := get(ctx, t, patient); status != http.StatusTooManyRequests {
			t.Errorf("a caller whose context ends first saw %d", status)
		}
		if _, err := patient.RoundTrip(r.WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// A refused request is sent again with the whole of its body, and one whose body
// cannot be had again is not.
func TestRetriesSendTheBodyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newAPI(t, limit.TokenBucket, limit.Limit{Rate: 1, Burst: 1})
		get(t.Context(), t, server)
		post := func(body io.Reader) int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api.example/", body)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := (&client.Transport{Base: server}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil {
				t.Error(err)
			}
			return answer.StatusCode
		}
		if status := post(strings.NewReader("a label")); status != http.StatusOK || !slices.Equal(server.bodies, []string{"a label", "a label"}) {
			t.Errorf("got %d with the bodies %q", status, server.bodies)
		}
		if status := post(io.MultiReader(strings.NewReader("once"))); status != http.StatusTooManyRequests {
			t.Errorf("a body that is gone was sent again: %d", status)
		}
	})
}

// outage answers everything with 503.
type outage struct{ calls int }

func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	o.calls++
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// An outage is not multiplied: retries are a fifth of the requests, and what may
// have been done is not done again.
func TestOutageIsNotMultiplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &outage{}
		transport := &client.Transport{Base: server, MaxWait: math.MaxInt64}
		const requests = 500
		for range requests {
			if status := get(t.Context(), t, transport); status != http.StatusServiceUnavailable {
				t.Fatalf("got %d", status)
			}
		}
		if most := requests*12/10 + 10; server.calls > most || server.calls == requests {
			t.Errorf("%d requests became %d, want %d at most", requests, server.calls, most)
		}
		before := server.calls
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://api.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := (&client.Transport{Base: server}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || server.calls != before+1 {
			t.Errorf("a POST was sent %d times (%v)", server.calls-before, err)
		}
	})
}
