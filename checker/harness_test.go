package checker

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/shiplane/limits/libs/command"
)

// deadline bounds what a test waits for; only a failing test comes near it.
const deadline = 20 * time.Second

// testRules refill so slowly that no test sees it: what is spent is gone.
const testRules = `
routes: [{id: login, match: "POST /v1/login", user_field: username}]
rules:
  - {id: growth-global, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 200}
  - {id: labels-route, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 3}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 2, window: 1h, fail_mode: closed}
`

// buffer is a log that may be read while it is written.
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

// running is a checker under test.
type running struct {
	t              *testing.T
	api, admin     string // URLs
	apiAt, grpcAt  string // addresses
	log            *buffer
	stop           context.CancelFunc
	ended          chan error
	headers        http.Header // of each call
	transport      http.RoundTripper
	nativeDialOpts []grpc.DialOption
}

// file writes a file of a test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// start runs a checker with testRules until the test ends.
func start(t *testing.T, more ...string) *running {
	t.Helper()
	args := append([]string{"--listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--drain-delay=0s", "--rules", file(t, "rules.yaml", testRules)}, more...)
	cfg := configOf(t, args...)
	s := &running{
		t: t, log: &buffer{}, ended: make(chan error, 1), headers: http.Header{}, transport: http.DefaultTransport,
		nativeDialOpts: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	up := make(chan struct{})
	go func() {
		s.ended <- Run(ctx, cfg, Output{Stderr: s.log, Listening: func(api, native, admin net.Addr) {
			s.apiAt, s.grpcAt = api.String(), native.String()
			s.api, s.admin = "http://"+api.String(), "http://"+admin.String()
			close(up)
		}})
	}()
	select {
	case <-up:
	case err := <-s.ended:
		t.Fatalf("the checker did not start: %v\n%s", err, s.log)
	case <-time.After(deadline):
		t.Fatal("the checker did not start")
	}
	t.Cleanup(func() {
		stop()
		select {
		case err := <-s.ended:
			if err != nil {
				t.Errorf("the checker failed: %v", err)
			}
		case <-time.After(deadline):
			t.Error("the checker did not end")
		}
		if t.Failed() {
			t.Logf("log of the checker:\n%s", s.log)
		}
	})
	return s
}

func configOf(t *testing.T, args ...string) Config {
	t.Helper()
	f := &flags{}
	if _, err := command.Parse("checker", "", f, args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// answer is a response with its body read.
type answer struct {
	*http.Response
	body string
}

// do makes a request; header is name, value, name, value…
func (s *running) do(method, url, body string, header ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range s.headers {
		r.Header[name] = values
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := s.transport.RoundTrip(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, url, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response, string(text)}
}

// check posts the JSON of a check.
func (s *running) check(body string, header ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, s.api+"/v1/ratelimit:check", body, append([]string{"Content-Type", "application/json"}, header...)...)
}

// want checks the status, and that the body holds a text.
func (a answer) want(t *testing.T, status int, text string) {
	t.Helper()
	if a.StatusCode != status || !strings.Contains(a.body, text) {
		t.Errorf("%s %s: got %s %s\nwant %d with %s", a.Request.Method, a.Request.URL.Path, a.Status, a.body, status, text)
	}
}

// native returns a connection to the gRPC port, as grpc-go's clients have.
func (s *running) native() *grpc.ClientConn {
	s.t.Helper()
	c, err := grpc.NewClient("passthrough:///"+s.grpcAt, s.nativeDialOpts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// poll waits until something holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}
