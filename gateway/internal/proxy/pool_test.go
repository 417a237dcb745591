package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// upstream is a member's transport that answers as it is told.
type upstream struct {
	status atomic.Int32 // 0: refuses connections
	asked  int
}

func answering(status int32) *upstream {
	u := &upstream{}
	u.status.Store(status)
	return u
}

func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	u.asked++
	status := int(u.status.Load())
	if status == 0 {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
}

func poolOf(members ...*upstream) *pool {
	p := &pool{}
	for _, m := range members {
		p.members = append(p.members, &member{url: &url.URL{Scheme: "http", Host: "up"}, transport: m})
	}
	return p
}

func send(t *testing.T, p *pool) error {
	t.Helper()
	response, err := p.RoundTrip(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}})
	if err == nil {
		response.Body.Close()
	}
	return err
}

// TestLostUpstreamIsTriedLessAndLess: one request finds out after 1 s, then after
// 2 s more, at most every 30 s; no request is lost meanwhile, and once it is back
// it takes its turns.
func TestLostUpstreamIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := answering(0), answering(200)
		p := poolOf(bad, good)
		tried := func(d time.Duration) int {
			before := bad.asked
			for range int(d / (100 * time.Millisecond)) {
				for range 2 { // so that each has a turn
					if err := send(t, p); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(100 * time.Millisecond) // the bubble's
			}
			return bad.asked - before
		}
		if got := tried(time.Second); got != 1 {
			t.Errorf("tried %d times in the first second", got)
		}
		if got := tried(time.Minute); got < 4 || got > 7 {
			t.Errorf("tried %d times in the minute after", got)
		}
		if got := tried(5 * time.Minute); got < 8 || got > 11 {
			t.Errorf("tried %d times in five minutes, want each 30 s", got)
		}
		bad.status.Store(200)
		tried(30 * time.Second)
		if got := tried(time.Second); got != 10 {
			t.Errorf("got %d of 20 requests once it was back", got)
		}
	})
}

// TestLastUpstreamIsTriedThoughLost: an upstream that is believed lost is better
// than none, and the error is that of the connection.
func TestLastUpstreamIsTriedThoughLost(t *testing.T) {
	one, other := answering(0), answering(0)
	p := poolOf(one, other)
	for range 3 {
		if err := send(t, p); !notDialed(err) {
			t.Errorf("got %v", err)
		}
	}
	if one.asked != 3 || other.asked != 3 {
		t.Errorf("asked %d and %d times", one.asked, other.asked)
	}
	other.status.Store(200)
	if err := send(t, p); err != nil {
		t.Error(err)
	}
}

// TestHealthIsFollowed: an upstream that fails twice in a row is left out, and
// comes back with its first success.
func TestHealthIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		weak, strong := answering(200), answering(204)
		p := &Proxy{cfg: Config{HealthPath: "/healthz", Logger: slog.New(slog.DiscardHandler)}, pools: []*pool{poolOf(weak, strong)}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		served := func() (n int) {
			synctest.Wait()
			for range 2 {
				if p.pools[0].order(time.Now())[0].transport == weak {
					n++
				}
			}
			return n
		}
		for _, step := range []struct {
			status int32
			served int
		}{{200, 1}, {503, 1}, {503, 0}, {503, 0}, {302, 1}, {503, 1}, {200, 1}, {0, 1}, {0, 0}, {200, 1}} {
			weak.status.Store(step.status)
			time.Sleep(healthEvery)
			if got := served(); got != step.served {
				t.Errorf("after %d it has %d of two turns, want %d", step.status, got, step.served)
			}
		}
		stop()
		<-ended
	})
}

// TestPrefixTakesWholeSegments: and the longest one is asked first.
func TestPrefixTakesWholeSegments(t *testing.T) {
	for _, c := range []struct {
		prefix, path string
		want         bool
	}{
		{"", "/", true}, {"", "*", true}, {"", "/v2", true}, {"/v2", "/v2", true}, {"/v2", "/v2/", true}, {"/v2", "/v2/x", true},
		{"/v2", "/v20", false}, {"/v2", "/", false}, {"/v2", "/v2%2Fx", false}, {"/v2", "/V2", false},
	} {
		if got := (&pool{prefix: c.prefix}).takes(c.path); got != c.want {
			t.Errorf("%q takes %q: %v", c.prefix, c.path, got)
		}
	}
	if got := byPrefix([]Pool{{Prefix: ""}, {Prefix: "/a"}, {Prefix: "/a/b"}}); got[0].Prefix != "/a/b" || got[2].Prefix != "" {
		t.Errorf("asked in the order %v", got)
	}
}
