package serve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/libs/serve"
)

// deadline bounds what a test waits for; only a failing test comes near it.
const deadline = 20 * time.Second

func newProcess(t *testing.T, cfg serve.Config) *serve.Process {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	p := serve.New(cfg)
	t.Cleanup(p.Close)
	return p
}

func listen(t *testing.T, p *serve.Process, h http.Handler) string {
	t.Helper()
	address, err := p.Serve("--listen", "127.0.0.1:0", h)
	if err != nil {
		t.Fatal(err)
	}
	return address.String()
}

// start runs p and returns what ends it, and what Run returned.
func start(t *testing.T, p *serve.Process) (stop context.CancelFunc, result <-chan error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	up, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- p.Run(ctx, func() { close(up) }) }()
	receive(t, up, "being served")
	return stop, ended
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

func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

func answerOK(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }

// TestRequestInFlightIsAnsweredDuringDrain: what was accepted before the drain is
// answered, while new connections are refused; what was pushed first ends last.
func TestRequestInFlightIsAnsweredDuringDrain(t *testing.T) {
	p := newProcess(t, serve.Config{DrainTimeout: deadline})
	var order []string
	note := func(name string) {
		p.OnClose(name, func(context.Context) error { order = append(order, name); return nil })
	}
	note("store")
	note("limiter")
	p.Go("watch", func(ctx context.Context) error {
		<-ctx.Done()
		order = append(order, "watch")
		return ctx.Err()
	})
	arrived, release := make(chan struct{}), make(chan struct{})
	address := listen(t, p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		order = append(order, "request")
		answerOK(w, nil)
	}))
	stop, ended := start(t, p)

	answer := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + address)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	receive(t, arrived, "request")
	stop()
	poll(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	close(release)
	if got := receive(t, answer, "answer"); got != "ok" {
		t.Errorf("the request in flight got %q", got)
	}
	if err := receive(t, ended, "end"); err != nil {
		t.Errorf("Run: %v", err)
	}
	if diff := cmp.Diff([]string{"request", "watch", "limiter", "store"}, order); diff != "" {
		t.Errorf("order of ending (-want +got):\n%s", diff)
	}
}

// TestReadinessTurnsFalseFirst: during the drain delay the process says that it is
// not ready and serves everything as before; a failure ends the delay.
func TestReadinessTurnsFalseFirst(t *testing.T) {
	p := newProcess(t, serve.Config{DrainDelay: time.Hour, DrainTimeout: deadline})
	if p.Ready() == nil {
		t.Error("ready before it runs")
	}
	fail := make(chan error)
	p.Go("watch", func(context.Context) error { return <-fail })
	admin := serve.Admin{Ready: p.Ready, Metrics: http.HandlerFunc(answerOK)}.Handler()
	get := func(path string) int {
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	address := listen(t, p, http.HandlerFunc(answerOK))
	stop, ended := start(t, p)
	if got := get("/readyz"); got != http.StatusOK {
		t.Errorf("/readyz is %d while running", got)
	}
	stop()
	poll(t, "/readyz is 503", func() bool { return get("/readyz") == http.StatusServiceUnavailable })
	if got := get("/healthz"); got != http.StatusOK {
		t.Errorf("/healthz is %d during the drain", got)
	}
	response, err := http.Get("http://" + address)
	if err != nil || response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("a request during the delay: %v, %v; want 200, and that the connection is closed", response, err)
	}
	fail <- errors.New("lost")
	if err := receive(t, ended, "end"); err == nil || err.Error() != "watch: lost" {
		t.Errorf("Run: %v, want watch: lost", err)
	}
}

// TestStuckRequestIsCutAfterDrainTimeout: a stream without an end does not keep
// the process from ending.
func TestStuckRequestIsCutAfterDrainTimeout(t *testing.T) {
	p := newProcess(t, serve.Config{DrainTimeout: 10 * time.Millisecond})
	arrived := make(chan struct{})
	address := listen(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		close(arrived)
		<-r.Context().Done()
	}))
	stop, ended := start(t, p)
	response, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	receive(t, arrived, "request")
	stop()
	if err := receive(t, ended, "end"); err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := io.ReadAll(response.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
}

// TestNothingClosesUnderARequest: what a request needs is there until its handler
// has returned, also when it was cut.
func TestNothingClosesUnderARequest(t *testing.T) {
	p := newProcess(t, serve.Config{DrainTimeout: 10 * time.Millisecond})
	closed := make(chan struct{})
	p.OnClose("limiter", func(context.Context) error { close(closed); return nil })
	arrived, early := make(chan struct{}), make(chan bool, 1)
	address := listen(t, p, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		select {
		case <-closed:
			early <- true
		case <-time.After(50 * time.Millisecond): // unwinding that does not wait takes less
			early <- false
		}
	}))
	stop, ended := start(t, p)
	go func() {
		if response, err := http.Get("http://" + address); err == nil {
			response.Body.Close()
		}
	}()
	receive(t, arrived, "request")
	stop()
	if receive(t, early, "end of the handler") {
		t.Error("the limiter was closed while a request was in flight")
	}
	if err := receive(t, ended, "end"); err != nil {
		t.Error(err)
	}
	receive(t, closed, "end of the limiter")
}

// TestHTTP2WithoutTLS: a client with prior knowledge gets HTTP/2, and its request
// in flight is answered during the drain as well.
func TestHTTP2WithoutTLS(t *testing.T) {
	p := newProcess(t, serve.Config{DrainTimeout: deadline})
	arrived, release := make(chan string, 1), make(chan struct{})
	address := listen(t, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.Proto
		<-release
		answerOK(w, r)
	}))
	stop, ended := start(t, p)
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	answer := make(chan error, 1)
	go func() {
		request, _ := http.NewRequest(http.MethodGet, "http://"+address, nil)
		response, err := client.RoundTrip(request)
		if err == nil {
			_, err = io.ReadAll(response.Body)
		}
		answer <- err
	}()
	if got := receive(t, arrived, "request"); got != "HTTP/2.0" {
		t.Errorf("served by %s", got)
	}
	stop()
	poll(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(release)
	if err := receive(t, answer, "answer"); err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	if err := receive(t, ended, "end"); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestHeadersOfAMegabyteAre431: they are refused as such, and not by silence.
func TestHeadersOfAMegabyteAre431(t *testing.T) {
	p := newProcess(t, serve.Config{})
	address := listen(t, p, http.HandlerFunc(answerOK))
	start(t, p)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Big: %s\r\n\r\n", strings.Repeat("x", 1<<20))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %s", response.Status)
	}
}

// TestPortInUseIsAUsageError: it names the flag and the address, and the process
// that did not run leaves none of its own ports bound.
func TestPortInUseIsAUsageError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := newProcess(t, serve.Config{})
	other := listen(t, p, http.HandlerFunc(answerOK))
	_, err = p.Serve("--admin", taken.Addr().String(), http.HandlerFunc(answerOK))
	want := fmt.Sprintf("--admin %s: the address is in use by another process", taken.Addr())
	if err == nil || err.Error() != want || serve.ExitCode(err) != serve.ExitUsage {
		t.Errorf("got %v (exit code %d), want %s", err, serve.ExitCode(err), want)
	}
	p.Close()
	again, err := net.Listen("tcp", other)
	if err != nil {
		t.Fatalf("a port stayed bound: %v", err)
	}
	again.Close()
	for _, bad := range []string{"nonsense", "127.0.0.1:99999", "256.1.1.1:80", "127.0.0.1"} {
		if _, err := p.Serve("--listen", bad, nil); serve.ExitCode(err) != serve.ExitUsage {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestExitCodes: who started it wrongly gets 2, what failed later 1.
func TestExitCodes(t *testing.T) {
	lost := errors.New("lost")
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0}, {serve.Usage(nil), 0}, {lost, 1}, {serve.Usage(lost), 2}, {fmt.Errorf("gateway: %w", serve.Usage(lost)), 2},
	} {
		if got := serve.ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

// TestProfilesOnlyIfAsked: the admin server does not show the inside of the
// process by default.
func TestProfilesOnlyIfAsked(t *testing.T) {
	for _, asked := range []bool{false, true} {
		w := httptest.NewRecorder()
		serve.Admin{Metrics: http.NotFoundHandler(), Pprof: asked}.Handler().
			ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil))
		if got := w.Code == http.StatusOK; got != asked {
			t.Errorf("asked %v, served %v", asked, got)
		}
	}
}

// TestSignalEndsTheContext: SIGTERM is a request to drain.
func TestSignalEndsTheContext(t *testing.T) {
	ctx, stop := serve.UntilSignal(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	receive(t, ctx.Done(), "end of the context")
}
