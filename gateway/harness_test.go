package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shiplane/limits/gateway/internal/keys"
	"github.com/shiplane/limits/libs/command"
)

// deadline bounds what a test waits for; only a failing test comes near it.
const deadline = 20 * time.Second

// testRules refill so slowly that no test sees it: what is spent is gone.
const testRules = `
plans: [{id: small}, {id: big}]
routes:
  - {id: items, match: "/v1/items/"}
  - {id: bulk, match: "POST /v1/bulk", cost: 10}
  - {id: login, match: "POST /v1/login", user_field: username}
rules:
  - {id: small-global, plan: small, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 12}
  - {id: big-global, plan: big, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 1000}
  - {id: anonymous-ip, plan: anonymous, identity: ip, algorithm: token_bucket, rate: 1/d, burst: 15}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 2, window: 1h, fail_mode: closed}
  - {id: trial, scope: all, identity: ip, algorithm: fixed_window, limit: 1, window: 7d, mode: shadow}
`

func testKeys(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		plan, _, _ := strings.Cut(name, "-")
		fmt.Fprintf(&b, "- {hash: \"%s\", account: acct_%s, plan: %s}\n", keys.Hash(name), name, plan)
	}
	return b.String()
}

// logs is a log that can be read while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// running is a gateway under test.
type running struct {
	t          *testing.T
	api, admin string // URLs
	rules      string // path of the rule file
	keys       string // path of the key file
	log        *logs
	stop       context.CancelFunc
	ended      chan error
}

// start runs a gateway before upstream with testRules and keys small-1 and big-1,
// and what flags say beyond that.
func start(t *testing.T, upstream http.Handler, flags ...string) *running {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	return startBefore(t, server.URL, flags...)
}

func startBefore(t *testing.T, upstream string, flags ...string) *running {
	t.Helper()
	dir := t.TempDir()
	g := &running{
		t: t, log: &logs{}, ended: make(chan error, 1),
		rules: filepath.Join(dir, "rules.yaml"), keys: filepath.Join(dir, "keys.yaml"),
	}
	replace(t, g.rules, testRules)
	replace(t, g.keys, testKeys("small-1", "big-1"))
	cfg := configOf(t, append([]string{
		"--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--upstream", upstream, "--rules", g.rules, "--keys", g.keys,
	}, flags...)...)
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	up := make(chan struct{})
	go func() {
		g.ended <- Run(ctx, cfg, Output{Stdout: io.Discard, Stderr: g.log, Listening: func(api, admin net.Addr) {
			g.api, g.admin = "http://"+api.String(), "http://"+admin.String()
			close(up)
		}})
	}()
	select {
	case <-up:
	case err := <-g.ended:
		t.Fatalf("the gateway did not start: %v", err)
	case <-time.After(deadline):
		t.Fatal("the gateway did not start")
	}
	t.Cleanup(func() {
		stop()
		if err := receive(t, g.ended, "end of the gateway"); err != nil {
			t.Errorf("the gateway failed: %v\n%s", err, g.log)
		}
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", g.log)
		}
	})
	return g
}

func configOf(t *testing.T, args ...string) Config {
	t.Helper()
	cmd := &commands{}
	if _, err := command.Parse("gateway", "run", cmd, args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	cfg, err := cmd.Run.config()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// replace writes a file in the way that leaves no moment without it.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body string
}

// do sends a request; header is name, value, name, value…
func (g *running) do(method, path, body string, header ...string) answer {
	g.t.Helper()
	r, err := http.NewRequest(method, g.api+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return send(g.t, http.DefaultTransport, r)
}

func send(t *testing.T, by http.RoundTripper, r *http.Request) answer {
	t.Helper()
	response, err := by.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return answer{response, string(body)}
}

// want checks the status, and that the body holds a text.
func (a answer) want(t *testing.T, status int, text string) answer {
	t.Helper()
	if a.StatusCode != status || !strings.Contains(a.body, text) {
		t.Errorf("%s %s: got %s %s\nwant %d with %s", a.Request.Method, a.Request.URL.Path, a.Status, a.body, status, text)
	}
	return a
}

// metric returns a sample of the gateway's metrics, "" if there is none.
func (g *running) metric(series string) string {
	g.t.Helper()
	r, err := http.NewRequest(http.MethodGet, g.admin+"/metrics", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	for line := range strings.Lines(send(g.t, http.DefaultTransport, r).body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// wantMetrics checks samples: series, value, series, value…
func (g *running) wantMetrics(pairs ...string) {
	g.t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		if got := g.metric(pairs[i]); got != pairs[i+1] {
			g.t.Errorf("%s is %q, want %s", pairs[i], got, pairs[i+1])
		}
	}
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(deadline):
		t.Fatalf("no %s within %v", what, deadline)
		panic("unreachable")
	}
}

// poll waits until something holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !waitFor(holds) {
		t.Fatalf("not within %v: %s", deadline, what)
	}
}

// waitFor reports whether something comes to hold before the deadline.
func waitFor(holds func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !holds(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// echo answers with what it was sent, as far as tests look at it.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%s %s host=%s key=%q auth=%q for=%q proto=%q body=%q", r.Method, r.RequestURI, r.Host,
		r.Header["X-Api-Key"], r.Header["Authorization"], r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"], body)
}

// transports are a client of each version of HTTP.
func transports(t *testing.T) map[string]*http.Transport {
	t.Helper()
	made := map[string]*http.Transport{}
	for name, set := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2.0": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		by := &http.Transport{Protocols: new(http.Protocols)}
		set(by.Protocols, true)
		t.Cleanup(by.CloseIdleConnections)
		made[name] = by
	}
	return made
}
