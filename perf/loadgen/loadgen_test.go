package loadgen

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/shiplane/limits/libs/limit"
)

// config is a valid run against a server, short enough for a test.
func config(t *testing.T, target string, streams ...string) Config {
	t.Helper()
	cfg, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Target, cfg.Duration = target, 500*time.Millisecond
	for _, text := range streams {
		var s Stream
		if err := s.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		cfg.Streams = append(cfg.Streams, s)
	}
	return cfg
}

func run(t *testing.T, cfg Config) *Report {
	t.Helper()
	report, err := Run(t.Context(), cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// limited is a server that holds each key to a limit by x/time/rate.
func limited(t *testing.T, l limit.Limit) string {
	t.Helper()
	var mu sync.Mutex
	buckets := map[string]*rate.Limiter{}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("X-Api-Key")
		if buckets[key] == nil {
			buckets[key] = rate.NewLimiter(rate.Limit(l.Rate), int(l.Burst))
		}
		if !buckets[key].Allow() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
}

// hangUp closes the connection instead of replying.
func hangUp(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// A server that stalls for half a second delays every request that was due in
// it, and the latencies show each of them, though the one worker that the run
// is given sends none while it waits. A closed loop would show one.
func TestStallIsSeenByEveryRequestItDelays(t *testing.T) {
	const stall, perSecond, stalled = 500 * time.Millisecond, 100, 10
	var mu sync.Mutex
	served := 0
	target := serve(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if served++; served == stalled {
			<-time.After(stall)
		}
	})
	cfg := config(t, target, "plan=p,rate=100/s")
	cfg.Duration, cfg.Workers = time.Second, 1
	s := run(t, cfg).Streams[0]

	if s.Sent != perSecond || s.Admitted != perSecond {
		t.Fatalf("sent %d, admitted %d, want %d: the plan is sent whole, however late", s.Sent, s.Admitted, perSecond)
	}
	// The requests due in the first 250 ms of the stall, 25 of 100, wait for at
	// least the other 250 ms.
	if s.Latency.P90 < 250 {
		t.Errorf("p90 is %v ms, want >= 250: the stall was seen by fewer requests than it delayed", s.Latency.P90)
	}
	if !s.Behind {
		t.Error("the one worker could not keep the plan, and the report does not say so")
	}
}

// A correct limiter is within B + R·t and gives an overloaded key its burst and
// more.
func TestCorrectLimiterIsWithinTheBound(t *testing.T) {
	l := limit.Limit{Rate: 50, Burst: 10}
	cfg := config(t, limited(t, l), "plan=p,key=k,rate=200/s,limit=50/s,burst=10")
	r := run(t, cfg)
	p := r.Plans[0]
	if p.OverLimit || float64(p.Tokens) > p.Bound {
		t.Errorf("admitted %d of B + R·t = %v, and x/time/rate holds its limit", p.Tokens, p.Bound)
	}
	if p.Tokens < p.Burst || p.Bound <= float64(p.Burst) {
		t.Errorf("admitted %d, at most %v, want at least the burst of %d", p.Tokens, p.Bound, p.Burst)
	}
	if s := r.Streams[0]; s.Sent != 100 || s.Admitted+s.Refused != 100 {
		t.Errorf("sent %d, admitted %d, refused %d: want 100 in all", s.Sent, s.Admitted, s.Refused)
	}
}

// A limiter that gives one key more than B + R·t is found out, though the sum
// over the keys is within the sum of their bounds.
func TestOneKeyOverItsLimitIsFound(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "k-0" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	cfg := config(t, target, "plan=p,key=k,rate=400/s,limit=1/d,burst=60")
	cfg.Keys, cfg.Distribution, cfg.HotShare = 4, "hot", 0.5
	p := run(t, cfg).Plans[0]
	if !p.OverLimit || p.OverLimitKeys != 1 || p.Keys != 4 {
		t.Errorf("%d of %d keys over the limit, want 1 of 4", p.OverLimitKeys, p.Keys)
	}
	if float64(p.Tokens) > p.Bound {
		t.Errorf("set-up: %d tokens are over the sum %v, want one key over and the sum within", p.Tokens, p.Bound)
	}
}

// Streams of one plan and key draw on one bucket and are judged together;
// another plan is judged alone, and a plan without a limit not at all.
func TestStreamsOfAPlanShareItsBound(t *testing.T) {
	target := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := run(t, config(t, target,
		"plan=both,key=k,rate=100/s,path=/a,limit=1/d,burst=90",
		"plan=both,key=k,rate=100/s,path=/b,limit=1/d,burst=90",
		"plan=alone,key=k,rate=100/s,limit=1/d,burst=90",
		"plan=free,rate=100/s,cost=10"))
	want := map[string]struct {
		tokens int64
		over   bool
	}{"both": {100, true}, "alone": {50, false}, "free": {500, false}}
	for _, p := range r.Plans {
		if w := want[p.Plan]; p.Tokens != w.tokens || p.OverLimit != w.over {
			t.Errorf("plan %s: %d tokens, over %v, want %d and %v", p.Plan, p.Tokens, p.OverLimit, w.tokens, w.over)
		}
	}
	if len(r.Plans) != len(want) || len(r.Streams) != 4 {
		t.Errorf("%d plans and %d streams, want 3 and 4", len(r.Plans), len(r.Streams))
	}
}

// Each reply is counted as what it says, once; a missing reply is an error.
func TestRepliesAreCountedByWhatTheySay(t *testing.T) {
	var mu sync.Mutex
	served := 0
	codes := []int{200, 204, 302, 429, 503, 404, 500, 0}
	target := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		code := codes[served%len(codes)]
		served++
		mu.Unlock()
		if code == 0 {
			hangUp(t, w)
			return
		}
		w.WriteHeader(code)
	})
	// A POST, for net/http sends a GET whose reply was cut off a second time.
	cfg := config(t, target, "plan=p,rate=160/s,method=POST")
	s := run(t, cfg).Streams[0]
	if s.Sent != 80 || s.Admitted != 30 || s.Refused != 10 || s.Unavailable != 10 || s.Errors != 30 {
		t.Errorf("sent %d admitted %d refused %d unavailable %d errors %d, want 80 30 10 10 30",
			s.Sent, s.Admitted, s.Refused, s.Unavailable, s.Errors)
	}
	if s.Statuses[404] != 10 || s.Statuses[0] != 0 || s.FirstError == "" {
		t.Errorf("statuses %v, first error %q", s.Statuses, s.FirstError)
	}
}

// An interrupt ends a run at once though the next request is a minute away, and
// what was sent is reported.
func TestInterruptEndsTheRunAndReports(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	target := serve(t, func(http.ResponseWriter, *http.Request) { cancel() })
	cfg := config(t, target, "plan=p,rate=1/m")
	cfg.Duration = time.Hour
	r, err := Run(ctx, cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Streams[0]; !r.Interrupted || s.Sent != 1 || s.Admitted != 1 {
		t.Errorf("interrupted %v, sent %d, admitted %d: want true, 1, 1", r.Interrupted, s.Sent, s.Admitted)
	}
}

// Against a server that never replies a run ends nevertheless, and says how
// much of its plan it gave up: sent and unsent make up the plan.
func TestRunEndsWhenNothingIsAnswered(t *testing.T) {
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cfg := config(t, target, "plan=p,rate=1000/s")
	cfg.Duration, cfg.Timeout, cfg.Workers = 50*time.Millisecond, 50*time.Millisecond, 1
	s := run(t, cfg).Streams[0]
	// One at a time and 50 ms each, the fourth is the last that is planned
	// before 100 ms are over; a slow machine only makes it fewer.
	if s.Sent > 4 {
		t.Errorf("sent %d, want at most 4: sending went on more than a timeout after the duration", s.Sent)
	}
	if s.Sent+s.Unsent != 50 || s.Unsent == 0 || s.Errors != s.Sent || !s.Behind {
		t.Errorf("sent %d, unsent %d, errors %d, behind %v: want 50 in all, some unsent, all sent an error", s.Sent, s.Unsent, s.Errors, s.Behind)
	}
}
