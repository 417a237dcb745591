package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// A heartbeat goes to a checker that is there, and the pods of all checkers' roster are
// counted.
func TestPodsJoinAnyChecker(t *testing.T) {
	gone, there := startChecker(t, counting(t)), startChecker(t, counting(t))
	gone.server.Close()
	s, _ := open(t, Config{}, gone, there)
	for _, c := range []struct {
		pod   string
		alive bool
		want  int
	}{{"a", true, 2}, {"b", true, 3}, {"a", true, 3}, {"a", false, 2}} {
		if live, err := s.Beat(t.Context(), c.pod, c.alive); live != c.want || err != nil {
			t.Errorf("%+v: %d live, %v", c, live, err)
		}
	}
	there.server.Close()
	if _, err := s.Beat(t.Context(), "a", true); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a checker: %v", err)
	}
}

// The token of the moment goes with each call, over TLS by HTTP/1.1 too, on
// connections that are kept.
func TestTokenAndTLS(t *testing.T) {
	counters := counting(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	token := "first"
	c := startChecker(t, counters, func(server *httptest.Server) {
		inner := server.Config.Handler
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen[r.Proto+" "+r.Header.Get("Authorization")] = true
			mu.Unlock()
			inner.ServeHTTP(w, r)
		})
		server.EnableHTTP2 = true
		server.StartTLS()
	})
	pool := x509.NewCertPool()
	pool.AddCert(c.server.Certificate())
	s, _ := open(t, Config{Timeout: ample, TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, Token: func() string {
		mu.Lock()
		defer mu.Unlock()
		return token
	}}, c)
	for range 20 {
		if _, err := take(t, s, "acct"); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	token = "second"
	mu.Unlock()
	if _, err := take(t, s, "acct"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 2 || !seen["HTTP/1.1 Bearer first"] || !seen["HTTP/1.1 Bearer second"] {
		t.Errorf("requests came as %v", seen)
	}
	if got := c.connections.Load(); got > 3 {
		t.Errorf("21 asks one after the other took %d connections", got)
	}
}

// A certificate that is not trusted is no connection: nothing was sent.
func TestUntrustedCheckerIsNotAsked(t *testing.T) {
	c := startChecker(t, counting(t), func(server *httptest.Server) { server.StartTLS() })
	s, o := open(t, Config{Timeout: ample}, c)
	poll(t, "the handshake is refused", func() bool { // a stall of this machine may end the first before it is
		_, err := take(t, s, "acct")
		if err == nil {
			t.Fatal("it was asked")
		}
		return o.told(c, classRefused) == 1 && errors.Is(err, store.ErrUnavailable)
	})
	if got := c.asks.Load(); got != 0 {
		t.Errorf("%d asks were sent", got)
	}
}

// What a checker would refuse is not sent.
func TestMalformedAskIsNotSent(t *testing.T) {
	c := startChecker(t, counting(t))
	s, _ := open(t, Config{Timeout: ample}, c)
	ask := askOf(t, "acct")
	ask.Entries[0].Limit = limit.Limit{Rate: -1, Burst: 1}
	if err := s.Take(t.Context(), ask, &store.Result{}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	if got := c.asks.Load(); got != 0 {
		t.Errorf("%d asks were sent", got)
	}
}

// A store that is closed ends what it began, and fails what is asked of it.
func TestClose(t *testing.T) {
	s, err := New(Config{URLs: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := s.Take(context.WithoutCancel(t.Context()), askOf(t, "acct"), &store.Result{}); err == nil {
		t.Error("a store that is closed answers")
	}
}

// What is wrong with a configuration is said by name, and shows no password.
func TestConfig(t *testing.T) {
	for want, urls := range map[string][]string{
		"0 checkers: want 1 to 64":               nil,
		`"redis://a": want http://HOST:PORT`:     {"redis://a"},
		`"http://": want http`:                   {"http://"},
		`its host stands there twice`:            {"http://a:1", "https://a:1/"},
		"holds a user or password: give a token": {"http://user:hunter2@a"},
		`"http://a?b": want http://HOST:PORT`:    {"http://a?b"},
	} {
		_, err := New(Config{URLs: urls})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v: %v, want %s", urls, err, want)
		}
	}
	if _, err := New(Config{URLs: []string{"http://a"}, Timeout: -1}); err == nil {
		t.Error("a timeout below 0")
	}
}

// A checker that was left to itself for a while is not passed over in the moment in
// which that ends.
func TestNobodyIsPassedOver(t *testing.T) {
	const moment = time.Second
	var now time.Duration
	e := &endpoint{since: func() time.Duration { now += moment; return now }}
	e.leaving.Store(int64(3 * moment / 2)) // after the first look at the clock, before the second
	s := &Store{endpoints: []*endpoint{e}, start: time.Now()}
	yielded := 0
	s.inTurn(func(*endpoint) bool { yielded++; return true })
	if yielded != 1 {
		t.Errorf("asked %d times", yielded)
	}
}

// Without a token no Authorization is sent.
func TestNoTokenIsSent(t *testing.T) {
	var mu sync.Mutex
	sent := 0
	c := startChecker(t, counting(t), func(server *httptest.Server) {
		inner := server.Config.Handler
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			sent += len(r.Header.Values("Authorization"))
			mu.Unlock()
			inner.ServeHTTP(w, r)
		})
	})
	s, _ := open(t, Config{Timeout: ample, Token: func() string { return "" }}, c)
	if _, err := take(t, s, "acct"); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if sent != 0 {
		t.Errorf("%d fields", sent)
	}
}
