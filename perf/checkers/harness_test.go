package checkers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shiplane/limits/checker"
	"github.com/shiplane/limits/gateway"
	"github.com/shiplane/limits/libs/testenv/port"
	"github.com/shiplane/limits/libs/testenv/process"
)

// asProgram makes this test binary a gateway or a checker.
const asProgram = "SHIPLANE_TEST_AS"

const (
	// patience bounds what a test waits for; only a failing test comes near it.
	patience = 30 * time.Second
	pollTime = 5 * time.Millisecond
	logLines = 40
)

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "gateway":
		os.Exit(gateway.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case "checker":
		os.Exit(checker.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// program is a gateway or a checker that can be killed, frozen and started again at the
// same addresses.
type program struct {
	t          *testing.T
	cfg        process.Config
	api, admin *port.Port
	*process.Process
}

// start starts a program with flags, and ends it with the test. It is ready when start
// returns.
func start(t *testing.T, kind string, flags ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t}
	for _, at := range []**port.Port{&p.api, &p.admin} {
		if *at, err = port.Reserve("127.0.0.1"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*at).Release)
	}
	args := append([]string{self, "--listen", p.api.String(), "--admin", p.admin.String()}, flags...)
	if kind == "checker" {
		args = append(args, "--grpc-listen=127.0.0.1:0")
	}
	p.cfg = process.Config{Args: args, Env: append(os.Environ(), asProgram+"="+kind), Log: filepath.Join(t.TempDir(), kind+".log")}
	t.Cleanup(func() {
		if p.Process != nil {
			p.Kill()
		}
		if t.Failed() {
			t.Logf("the end of the log of %s %s:\n%s", kind, p.api, process.Tail(p.cfg.Log, logLines))
		}
	})
	p.again()
	return p
}

// again starts a program that has ended, and waits until it is ready.
func (p *program) again() {
	p.t.Helper()
	var err error
	if p.Process, err = process.Start(p.cfg); err != nil {
		p.t.Fatal(err)
	}
	poll(p.t, "a program is ready", func() bool {
		if !p.Running() {
			p.t.Fatalf("%v ended: %v\n%s", p.cfg.Args, p.Err(), process.Tail(p.cfg.Log, logLines))
		}
		return p.ready()
	})
}

func (p *program) ready() bool {
	q, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+p.admin.String()+"/readyz", http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// end drains the program as a deployment does.
func (p *program) end() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	if err := p.Stop(ctx, syscall.SIGTERM); err != nil {
		p.t.Error(err)
	} else if err := p.Err(); err != nil {
		p.t.Errorf("%v ended with %v", p.cfg.Args, err)
	}
}

// page is what a program serves to be scraped.
type page string

func (p *program) scrape() page {
	p.t.Helper()
	answer, err := http.Get("http://" + p.admin.String() + "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return page(text)
}

// sum adds up the series of a name whose labels hold all of some texts.
func (m page) sum(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
series:
	for line := range strings.Lines(string(m)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if found, of, _ := strings.Cut(series, "{"); found != name {
			continue
		} else {
			for _, label := range labels {
				if !strings.Contains("{"+of, label) {
					continue series
				}
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += v
	}
	return sum
}

// waitBound is the 20 ms that a decision may wait, and 12 ms that this machine may stall
// it: a bound of the gateway's histogram.
const waitBound = `le="0.032"`

// late is how many decisions have waited for longer than waitBound, of how many.
func (m page) late(t *testing.T) (late, all float64) {
	t.Helper()
	all = m.sum(t, "shiplane_gateway_decision_wait_seconds_count")
	return all - m.sum(t, "shiplane_gateway_decision_wait_seconds_bucket", waitBound), all
}

// gatewayOver starts a gateway whose counters are at some URLs of checkers.
func gatewayOver(t *testing.T, rules, checkers string, flags ...string) *program {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	return start(t, "gateway", append([]string{
		"--rules", rules, "--upstream", upstream.URL, "--checker", checkers, "--log-level=warn",
		"--trusted-proxies=127.0.0.1", "--account-header=X-Account", "--default-plan=big",
	}, flags...)...)
}

// caller sends requests to gateways.
type caller struct {
	t         *testing.T
	transport *http.Transport
}

func newCaller(t *testing.T) *caller {
	c := &caller{t, &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(c.transport.CloseIdleConnections)
	return c
}

// ask sends a request of an account, and returns the answer's status; 0: there was none.
func (c *caller) ask(g *program, account string) int {
	return c.send(g, "/v1/labels", account, nil)
}

// login sends a login of a user, which a closed rule counts.
func (c *caller) login(g *program, user string) int {
	return c.send(g, "/v1/login", "", fmt.Appendf(nil, `{"username":%q}`, user))
}

func (c *caller) send(g *program, path, account string, body []byte) int {
	q, err := http.NewRequest(http.MethodPost, "http://"+g.api.String()+path, bytes.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return 0
	}
	if account != "" {
		q.Header.Set("X-Account", account)
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := c.transport.RoundTrip(q)
	if err != nil {
		c.t.Error(err)
		return 0
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// file writes a file of a test and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// poll waits until something holds.
func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for end := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
