// Package guard shows the guard of rollouts at work: a real rules service, real
// gateways and real traffic, and an edit that would deny everything.
package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/gateway"
	"github.com/shiplane/limits/libs/ruleset/feed"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules"
)

// The rule in force admits all of the traffic, the edit nothing but its first request.
const (
	seed = `
rules:
  - {id: by-address, scope: all, identity: ip, algorithm: token_bucket, rate: 100000/s, burst: 100000}
`
	denyAll = `{"scope":"all","identity":"ip","algorithm":"token_bucket","rate":"1/d","burst":1}`
)

// patience is how long what must happen is waited for, far above what it takes.
const patience = 2 * time.Minute

// run runs a service until the test ends, and returns where it listens.
func run(t *testing.T, f func(ctx context.Context, log io.Writer, listening func(api, admin net.Addr)) error) (api, admin string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	log, ended, addresses := &buffer{}, make(chan error, 1), make(chan [2]net.Addr, 1)
	go func() { ended <- f(ctx, log, func(api, admin net.Addr) { addresses <- [2]net.Addr{api, admin} }) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log:\n%s", log)
		}
	})
	select {
	case at := <-addresses:
		return "http://" + at[0].String(), "http://" + at[1].String()
	case err := <-ended:
		ended <- nil
		t.Fatalf("ended at once: %v\n%s", err, log)
		return "", ""
	}
}

// buffer is a log that several goroutines write.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// service is a rules service, with the token of its first administrator.
type service struct {
	t          *testing.T
	url, token string
	podToken   string // path
}

func startRules(t *testing.T) *service {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(seed), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := rules.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Domain: "public-api", SeedFile: file,
		Rollout: rulesv1.RolloutMode_ROLLOUT_MODE_GUARDED, Bake: time.Hour, Margin: 0.05, Evidence: 100,
		AdminToken: filepath.Join(dir, "admin.token"), PodToken: filepath.Join(dir, "pod.token"),
	}
	api, admin := run(t, func(ctx context.Context, log io.Writer, listening func(api, admin net.Addr)) error {
		return rules.Run(ctx, cfg, rules.Output{Stderr: log, Listening: listening})
	})
	s := &service{t: t, url: api, podToken: cfg.PodToken}
	ready(t, admin)
	text, err := os.ReadFile(cfg.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(text))
	return s
}

func ready(t *testing.T, admin string) {
	t.Helper()
	until(t, "ready", func() bool { return status(t, admin+"/readyz") == http.StatusOK })
}

// until waits for something.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not %s within %v", what, patience)
		}
	}
}

func status(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // the status is what counts
	return answer.StatusCode
}

// call makes a request to the API and reads the answer into to.
func (s *service) call(method, path, body string, header http.Header, to any) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %d %s (%v)", method, path, answer.StatusCode, text, err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		s.t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
}

// rollout is what the test reads of one.
type rollout struct {
	State, Why string
	Rule       struct{ Version int64 }
}

// denyEverything begins the rollout of the edit.
func (s *service) denyEverything() rollout {
	s.t.Helper()
	var answer struct{ Rollout rollout }
	s.call(http.MethodPut, "/v1/rules/by-address", denyAll, http.Header{"If-Match": {`"1"`}}, &answer)
	if answer.Rollout.State != "shadow" {
		s.t.Fatalf("the edit is not guarded: %+v", answer)
	}
	return answer.Rollout
}

// rolledBack waits until the guard has given the rollout of a version up, and
// returns why; the audit log must say the same.
func (s *service) rolledBack(version int64) string {
	s.t.Helper()
	var last rollout
	until(s.t, "rolled back", func() bool {
		var answer struct{ Rollouts []rollout }
		s.call(http.MethodGet, "/v1/rollouts?rule=by-address", "", nil, &answer)
		last = answer.Rollouts[0]
		return last.Rule.Version == version && last.State == "rolled_back"
	})
	var audit struct {
		Entries []struct{ Author, Action, Why string }
	}
	s.call(http.MethodGet, "/v1/rules/by-address/history", "", nil, &audit)
	if e := audit.Entries[0]; e.Author != "rollout guard" || e.Action != "rollback" || e.Why != last.Why {
		s.t.Errorf("the audit log says %+v, the rollout %q", e, last.Why)
	}
	return last.Why
}

// pod is a gateway under traffic.
type pod struct {
	url              string
	admitted, denied atomic.Int64
}

func startPod(t *testing.T, s *service, upstream *url.URL, name string, canary bool) *pod {
	t.Helper()
	cfg := gateway.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Mode: "enforce",
		Proxy: gateway.ProxyConfig{Pools: []gateway.Pool{{URLs: []*url.URL{upstream}}}},
		Rules: rulesource.Config{Canary: canary, Service: &feed.Config{
			Addresses: []string{s.url}, Domain: "public-api", TokenFile: s.podToken, Pod: &rulesv1.Pod{Id: name, Canary: canary},
		}},
	}
	api, admin := run(t, func(ctx context.Context, log io.Writer, listening func(api, admin net.Addr)) error {
		return gateway.Run(ctx, cfg, gateway.Output{Stdout: log, Stderr: log, Listening: listening})
	})
	ready(t, admin)
	p := &pod{url: api}
	ctx, stop := context.WithCancel(context.Background())
	var traffic sync.WaitGroup
	traffic.Go(func() { p.drive(ctx, t) })
	t.Cleanup(func() { stop(); traffic.Wait() })
	return p
}

// drive sends requests, some 200 a second, until ctx ends.
func (p *pod) drive(ctx context.Context, t *testing.T) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/v1/labels", nil)
		if err != nil {
			t.Error(err)
			return
		}
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body) // the status is what counts
			_ = answer.Body.Close()
			switch answer.StatusCode {
			case http.StatusOK:
				p.admitted.Add(1)
			case http.StatusTooManyRequests:
				p.denied.Add(1)
			default:
				t.Errorf("got %d", answer.StatusCode)
			}
		}
		<-tick.C
	}
}

// A rule that denies everything is stopped in shadow, where nobody feels it. Forced
// through that, it is rolled back by itself on the canary gateways, whose callers
// feel it, and no others; and the audit log says who did what, and why.
func TestGuardStopsARuleThatDeniesEverything(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	address, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := startRules(t)
	plain, canary := startPod(t, s, address, "plain", false), startPod(t, s, address, "canary", true)

	stopped := s.denyEverything()
	if why := s.rolledBack(stopped.Rule.Version); !strings.Contains(why, "refused") {
		t.Errorf("the reason is %q", why)
	} else {
		t.Logf("in shadow: %s", why)
	}
	if n := plain.denied.Load() + canary.denied.Load(); n > 0 {
		t.Errorf("%d requests were refused by a rule in shadow", n)
	}

	forced := s.denyEverything()
	var advanced struct{ Rollout rollout }
	s.call(http.MethodPost, "/v1/rules/by-address:advance?from=shadow&why=trust+me", "", http.Header{"If-Match": {"*"}}, &advanced)
	if advanced.Rollout.State != "canary" {
		t.Fatalf("forced, it is in %q", advanced.Rollout.State)
	}
	t.Logf("on canary pods: %s", s.rolledBack(forced.Rule.Version))
	if canary.denied.Load() == 0 || plain.denied.Load() > 0 {
		t.Errorf("%d requests were refused by the canary, %d by the other gateway", canary.denied.Load(), plain.denied.Load())
	}
	until(t, "admitted again", func() bool { return status(t, canary.url+"/v1/labels") == http.StatusOK })
}
