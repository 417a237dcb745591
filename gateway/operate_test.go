package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/telemetry/telemetrytest"
)

// line is a line of the access log.
type line struct {
	Msg       string `json:"msg"`
	ID        string `json:"request_id"`
	Path      string `json:"path"`
	Status    int    `json:"status"`
	Verdict   string `json:"verdict"`
	DecidedBy string `json:"decided_by"`
	Rule      string `json:"rule"`
	Route     string `json:"route"`
	Plan      string `json:"plan"`
	Account   string `json:"account_hash"`
	Client    string `json:"client_hash"`
	Shadow    bool   `json:"shadow"`
}

// lines reads the access log as it is, of a gateway that logs JSON.
func (g *running) lines() (lines []line) {
	g.t.Helper()
	for text := range strings.Lines(g.log.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			g.t.Fatalf("%s: %v", text, err)
		}
		if l.Msg == "request" {
			lines = append(lines, l)
		}
	}
	return lines
}

// lineOf waits for the line of an answer.
func (g *running) lineOf(a answer) (found line) {
	g.t.Helper()
	poll(g.t, "the request is logged", func() bool {
		for _, l := range g.lines() {
			if l.ID == a.Header.Get("X-Request-Id") {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

// TestAccessLogTellsWhoDecided: refusals always, admitted requests by the sample,
// and no secret nor name in any of it.
func TestAccessLogTellsWhoDecided(t *testing.T) {
	g := start(t, echoes, "--log-format=json", "--access-log-sample=1")
	allowed := g.lineOf(g.do("POST", "/v1/bulk?token=s3cret", "", "X-Api-Key", "small-1").want(t, 200, ""))
	if allowed.Verdict != "allowed" || allowed.Path != "/v1/bulk" || allowed.Route != "bulk" || allowed.Plan != "small" || allowed.Status != 200 {
		t.Errorf("allowed: %+v", allowed)
	}
	denied := g.lineOf(g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 429, ""))
	if denied.Verdict != "denied" || denied.Rule != "small-global" || denied.DecidedBy == "" || denied.Status != 429 {
		t.Errorf("denied: %+v", denied)
	}
	unknown := g.lineOf(g.do("GET", "/v1/items/1", "", "X-Api-Key", "wrong-key-7").want(t, 401, ""))
	if unknown.Verdict != "unauthorized" || unknown.DecidedBy != "identity" {
		t.Errorf("unauthorized: %+v", unknown)
	}
	if allowed.Account == "" || allowed.Account != denied.Account || allowed.Client != unknown.Client || allowed.Account == allowed.Client {
		t.Errorf("hashes: %+v, %+v, %+v", allowed, denied, unknown)
	}
	for _, secret := range []string{"small-1", "acct_small", "s3cret", "wrong-key-7", "127.0.0.1/32"} {
		if strings.Contains(g.log.String(), secret) {
			t.Errorf("the log shows %q:\n%s", secret, g.log)
		}
	}
}

// TestAccessLogIsBounded: by default admitted requests are silent, and a flood of
// refusals is a few lines that say how many were left out.
func TestAccessLogIsBounded(t *testing.T) {
	g := start(t, echoes, "--log-format=json")
	for range 15 {
		g.do("GET", "/", "").want(t, 200, "")
	}
	for range 100 {
		g.do("GET", "/", "").want(t, 429, "")
	}
	// Each line was written before its answer was read to the end, or is at most
	// the last one: the bucket of lines holds 10.
	lines := g.lines()
	if i := slices.IndexFunc(lines, func(l line) bool { return l.Status == 200 }); i >= 0 {
		t.Errorf("an admitted request was logged: %+v", lines[i])
	}
	if len(lines) < 9 || len(lines) > 60 {
		t.Errorf("%d lines for 100 refusals", len(lines))
	}
}

// TestShadowedRefusalIsLoggedAsSuch: what would have been refused is what a shadow
// run is for.
func TestShadowedRefusalIsLoggedAsSuch(t *testing.T) {
	g := start(t, echoes, "--log-format=json", "--mode=shadow")
	g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 200, "")
	l := g.lineOf(g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 200, ""))
	if !l.Shadow || l.Verdict != "denied" || l.Status != 200 || l.Rule != "small-global" {
		t.Errorf("got %+v", l)
	}
}

// TestCallersAreNamedAlikeWithTheSameKey: so that logs of several gateways can be
// put together.
func TestCallersAreNamedAlikeWithTheSameKey(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	replace(t, key, "sixteen bytes and more\n")
	hash := func(flags ...string) string {
		g := start(t, echoes, append(flags, "--log-format=json")...)
		return g.lineOf(g.do("GET", "/", "", "X-Api-Key", "wrong").want(t, 401, "")).Client
	}
	one, other, random := hash("--log-hash-key-file", key), hash("--log-hash-key-file", key), hash()
	if one != other || one == random || one == "" {
		t.Errorf("hashes are %s, %s and with a random key %s", one, other, random)
	}
}

// TestTracesTellTheVerdict: a span per request, pushed by OTLP at the latest when
// the gateway ends; the upstream is told of it. Without an endpoint a caller's
// trace passes untouched, with one a stranger's is no parent.
func TestTracesTellTheVerdict(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	const given = "00-" + trace + "-00f067aa0ba902b7-01"
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Traceparent")) })
	if got := start(t, upstream).do("GET", "/", "", "Traceparent", given).body; got != given {
		t.Errorf("without tracing the upstream got %q", got)
	}

	c := telemetrytest.Start(t)
	g := start(t, upstream, "--otlp-endpoint", c.URL)
	if got := g.do("GET", "/", "", "Traceparent", given).body; got == "" || strings.Contains(got, trace) {
		t.Errorf("the upstream got %q of a stranger's trace", got)
	}
	g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 200, "")
	g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 429, "")
	trusting := start(t, upstream, "--otlp-endpoint", c.URL, "--trusted-proxies=127.0.0.1")
	if got := trusting.do("GET", "/", "", "Traceparent", given).body; !strings.Contains(got, trace) || got == given {
		t.Errorf("the upstream got %q of a trusted proxy's trace", got)
	}
	for _, ending := range []*running{g, trusting} {
		ending.stop()
		ending.ended <- receive(t, ending.ended, "end") // for the cleanup
	}
	spans := c.Spans("POST bulk")
	if len(spans) != 2 {
		t.Fatalf("got spans of %q, want POST bulk twice", c.Names())
	}
	for i, want := range []string{"allowed", "denied"} {
		if s := spans[i]; s.Service != "shiplane-gateway" || s.Attributes["shiplane.verdict"] != want || want == "denied" && s.Attributes["shiplane.rule"] != "small-global" {
			t.Errorf("got %+v, want it %s", s, want)
		}
	}
	if !strings.Contains(c.Sent("/v1/metrics"), "shiplane_gateway_requests") {
		t.Error("the metrics were not pushed")
	}
}

// TestTLSServesBothVersions: with --tls-cert, and the upstream knows of it.
func TestTLSServesBothVersions(t *testing.T) {
	donor := httptest.NewTLSServer(echoes) // has a certificate of 127.0.0.1
	t.Cleanup(donor.Close)
	pair := donor.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	replace(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	replace(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	g := start(t, echoes, "--tls-cert", cert, "--tls-key", key)
	roots := x509.NewCertPool()
	roots.AddCert(donor.Certificate())
	for _, two := range []bool{false, true} {
		by := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: two, Protocols: new(http.Protocols)}
		by.Protocols.SetHTTP1(!two)
		by.Protocols.SetHTTP2(two)
		t.Cleanup(by.CloseIdleConnections)
		r, err := http.NewRequest(http.MethodGet, strings.Replace(g.api, "http:", "https:", 1)+"/v1/items/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		a := send(t, by, r).want(t, 200, `proto=["https"]`)
		if (a.ProtoMajor == 2) != two {
			t.Errorf("served by %s", a.Proto)
		}
	}
}

// TestBadTrafficFlagsExitWith2: each names its flag and what is wanted, and no
// password.
func TestBadTrafficFlagsExitWith2(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	replace(t, rules, testRules)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--upstream=ftp://h"}, "want http://HOST"},
		{[]string{"--upstream=http://a,nonsense"}, `--upstream "nonsense"`},
		{[]string{"--upstream=/v1=http://a"}, "lacks one for all other paths"},
		{[]string{"--upstream=http://a /v1/../x=http://b"}, "can never match"},
		{[]string{"--upstream=http://a", "--upstream=http://b"}, "given twice"},
		{[]string{"--upstream=http://a", "--upstream=/x=http://me:secret@b"}, "must not hold a user"},
		{[]string{"--upstream=http://a", "--upstream-timeout=2h"}, "--upstream-timeout"},
		{[]string{"--upstream=http://a", "--upstream-health=healthz"}, "want a path"},
		{[]string{"--upstream=http://a", "--client-timeout=0s"}, "--client-timeout"},
		{[]string{"--upstream=http://a", "--tls-cert=x"}, "together with --tls-key"},
		{[]string{"--upstream=http://a", "--tls-cert=/none", "--tls-key=/none"}, "no such file"},
		{[]string{"--upstream=http://a", "--access-log-sample=2"}, "want a share of 0 to 1"},
		{[]string{"--upstream=http://a", "--access-log-sample=NaN"}, "want a share of 0 to 1"},
		{[]string{"--upstream=http://a", "--log-hash-key-file=/none"}, "--log-hash-key-file"},
		{[]string{"--upstream=http://a", "--otlp-endpoint=http://me:secret@c"}, "--otlp-endpoint"},
	} {
		var stderr strings.Builder
		args := append([]string{"--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--rules", rules}, c.args...)
		if code := Main(args, os.Stdin, io.Discard, &stderr); code != 2 || !strings.Contains(stderr.String(), c.want) || strings.Contains(stderr.String(), "secret") {
			t.Errorf("%q: exit code %d, %s", c.args, code, &stderr)
		}
	}
}

// TestHelpNamesTrafficFlags: with their variables, as all others.
func TestHelpNamesTrafficFlags(t *testing.T) {
	var stdout strings.Builder
	if code := Main([]string{"--help"}, nil, &stdout, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, flag := range []string{
		"upstream", "upstream-timeout", "upstream-health", "strict-paths", "client-timeout", "tls-cert", "tls-key",
		"access-log-sample", "log-hash-key-file", "otlp-endpoint",
	} {
		variable := "($SHIPLANE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) + ")"
		if !strings.Contains(stdout.String(), "--"+flag+"=") && !strings.Contains(stdout.String(), "--[no-]"+flag) || !strings.Contains(stdout.String(), variable) {
			t.Errorf("--help lacks --%s or %s", flag, variable)
		}
	}
}
