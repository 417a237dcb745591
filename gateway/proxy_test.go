package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// named is an upstream that says who it is and what it was asked.
func named(t *testing.T, name string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q %v", name, r.Method, r.RequestURI, body, err)
	}))
	t.Cleanup(s.Close)
	return s
}

// raw sends bytes and returns the connection and what reads the answers.
func (g *running) raw(text string) (net.Conn, *bufio.Reader) {
	g.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.api, "http://"))
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(deadline))
	if _, err := io.WriteString(c, text); err != nil {
		g.t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// TestUpstreamsServeTheirPaths: the longest prefix decides, by whole segments, and
// no spelling of a path reaches another upstream; the members of a pool take turns.
func TestUpstreamsServeTheirPaths(t *testing.T) {
	one, other, deep, rest := named(t, "one"), named(t, "other"), named(t, "deep"), named(t, "rest")
	g := startBefore(t, rest.URL, "--upstream", "/v2="+one.URL+","+other.URL+" /v2/deep/="+deep.URL+"/base?k=1", "--no-strict-paths")
	for path, want := range map[string]string{
		"/":                   "rest GET / ",
		"/v20":                "rest GET /v20 ",
		"/V2":                 "rest GET /V2 ",
		"/v2/deep":            "deep GET /base/v2/deep?k=1 ",
		"/v2/deep/a%2Fb?q=;":  "deep GET /base/v2/deep/a%2Fb?k=1&q=; ",
		"/v2/x/../deep/%61":   "deep GET /base/v2/deep/a?k=1 ",
		"//%76%32/./deep//a/": "deep GET /base/v2/deep/a/?k=1 ",
	} {
		g.do("GET", path, "", "X-Api-Key", "big-1").want(t, 200, want)
	}
	turns := map[string]int{}
	for range 8 {
		name, _, _ := strings.Cut(g.do("GET", "/v2/x", "", "X-Api-Key", "big-1").want(t, 200, "GET /v2/x").body, " ")
		turns[name]++
	}
	if turns["one"] != 4 || turns["other"] != 4 {
		t.Errorf("turns were %v", turns)
	}
}

// TestNextUpstreamOnlyWhereNothingWasSent: a refused connection costs nobody an
// answer, whatever the method; a request that may have been read is not sent again.
func TestNextUpstreamOnlyWhereNothingWasSent(t *testing.T) {
	gone := "http://" + freeAddress(t)
	good := named(t, "good")
	g := startBefore(t, gone+","+good.URL)
	for range 6 {
		g.do("POST", "/v1/items/1", "a body", "X-Api-Key", "big-1").want(t, 200, `good POST /v1/items/1 "a body" <nil>`)
	}

	var read atomic.Int64
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				read.Add(1)
			}
			c.Close()
		}
	}()
	broken := startBefore(t, "http://"+l.Addr().String()+",http://"+l.Addr().String())
	broken.do("GET", "/v1/items/1", "", "X-Api-Key", "big-1").want(t, 502, "upstream_unavailable")
	broken.do("POST", "/v1/items/1", "x", "X-Api-Key", "big-1").want(t, 502, "upstream_unavailable")
	if read.Load() != 2 {
		t.Errorf("2 requests were sent %d times", read.Load())
	}
	broken.wantMetrics(`shiplane_gateway_upstream_errors_total{reason="broken"}`, "2")
}

// TestTrailersPassBothWays: those that are announced by the caller, and all of the
// upstream's, as gRPC needs them; upstreams of HTTP/2 without TLS included.
func TestTrailersPassBothWays(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Announced")
		fmt.Fprintf(w, "%s %s %v", r.Proto, body, err)
		w.Header().Set("X-Announced", "got "+r.Trailer.Get("X-Sum"))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	plain := httptest.NewServer(upstream)
	t.Cleanup(plain.Close)
	cleartext2 := httptest.NewUnstartedServer(upstream)
	cleartext2.Config.Protocols = new(http.Protocols)
	cleartext2.Config.Protocols.SetUnencryptedHTTP2(true)
	cleartext2.Start()
	t.Cleanup(cleartext2.Close)
	g := startBefore(t, plain.URL, "--upstream", "/v1/items/h2="+strings.Replace(cleartext2.URL, "http:", "h2c:", 1))
	for name, by := range transports(t) {
		for path, proto := range map[string]string{"/v1/items/h1": "HTTP/1.1", "/v1/items/h2": "HTTP/2.0"} {
			r, err := http.NewRequest(http.MethodPost, g.api+path, io.MultiReader(strings.NewReader("body")))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", "big-1")
			r.Header.Set("Te", "trailers")
			r.Trailer = http.Header{"X-Sum": {"42"}}
			a := send(t, by, r).want(t, 200, proto+" body <nil>")
			if a.Trailer.Get("X-Announced") != "got 42" || a.Trailer.Get("Grpc-Status") != "0" {
				t.Errorf("%s to %s: trailers are %v", name, proto, a.Trailer)
			}
		}
	}
}

// TestTrailerNamesNoAccount: what is taken out of a stranger's header does not come
// after its body either, announced or not.
func TestTrailerNamesNoAccount(t *testing.T) {
	g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%v %v", r.Trailer, err)
	}), "--trusted-proxies", "192.0.2.1", "--account-header", "X-Account-Id")
	for _, announced := range []string{"X-Sum", "X-Sum, X-Account-Id, X_account_id, X-Forwarded-For, X-Request-Id"} {
		_, reader := g.raw("POST /v1/items/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Api-Key: big-1\r\nTransfer-Encoding: chunked\r\nTrailer: " + announced + "\r\n\r\n" +
			"1\r\nx\r\n0\r\nX-Sum: 42\r\nX-Account-Id: acct_4\r\nX_account_id: acct_4\r\nX-Forwarded-For: 203.0.113.1\r\nX-Request-Id: mine\r\n\r\n")
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if got := string(body); got != "map[X-Sum:[42]] <nil>" {
			t.Errorf("announced %s: the upstream got %s", announced, got)
		}
	}
}

// TestContinueIsAskedOfTheUpstream: a caller that waits before it sends its body
// is told so by a refusal, without the body; else the upstream's word counts.
func TestContinueIsAskedOfTheUpstream(t *testing.T) {
	g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/items/large" {
			http.Error(w, "too large", http.StatusExpectationFailed)
			return
		}
		echo(w, r)
	}))
	head := "POST %s HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
	first := func(path, key string) (net.Conn, *bufio.Reader, *http.Response) {
		c, reader := g.raw(fmt.Sprintf(head, path, key))
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c, reader, response
	}
	if _, _, response := first("/v1/items/1", "nobody"); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a refused request got %s before its body", response.Status)
	}
	if _, _, response := first("/v1/items/large", "big-1"); response.StatusCode != http.StatusExpectationFailed {
		t.Errorf("a request that the upstream refuses got %s before its body", response.Status)
	}
	c, reader, response := first("/v1/items/1", "big-1")
	if response.StatusCode != http.StatusContinue {
		t.Fatalf("got %s", response.Status)
	}
	fmt.Fprint(c, "data")
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || !strings.Contains(string(body), `body="data"`) {
		t.Errorf("got %s %s", response.Status, body)
	}
}

// TestSlowUpstreamIs504AndSlowCaller408: each is told what it is, and what fails is
// not the other's fault. A malformed body is the caller's.
func TestSlowUpstreamIs504AndSlowCaller408(t *testing.T) {
	g := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && r.URL.Path == "/v1/items/slow" {
			<-r.Context().Done()
		}
	}), "--upstream-timeout=100ms", "--client-timeout=100ms")
	g.do("GET", "/v1/items/slow", "", "X-Api-Key", "big-1").want(t, 504, "upstream_timeout")
	for _, c := range []struct{ name, body, want, code string }{
		{"a body that stops", "Content-Length: 10\r\n\r\nabc", "408", "body_timeout"},
		{"a chunk that stops", "Transfer-Encoding: chunked\r\n\r\n5\r\nab", "408", "body_timeout"},
		{"a chunk of no size", "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "400", "body_broken"},
	} {
		_, reader := g.raw("POST /v1/items/1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\n" + c.body)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		body, _ := io.ReadAll(response.Body)
		if response.Status[:3] != c.want || !strings.Contains(string(body), c.code) {
			t.Errorf("%s: got %s %s", c.name, response.Status, body)
		}
		if _, err := reader.ReadByte(); err == nil {
			t.Errorf("%s: the connection stays open", c.name)
		}
	}
	g.wantMetrics(`shiplane_gateway_upstream_errors_total{reason="timeout"}`, "1", `shiplane_gateway_upstream_errors_total{reason="client"}`, "3")
}

// TestRequestIDsAreTheGatewaysOwn: unless a trusted proxy gave one. The upstream,
// the response, problem bodies and the log have the same.
func TestRequestIDsAreTheGatewaysOwn(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "the upstream's")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, r.Header["X-Request-Id"])
	})
	id := func(a answer) string {
		t.Helper()
		if got := a.Header["X-Request-Id"]; len(got) == 1 {
			return got[0]
		}
		t.Fatalf("X-Request-Id is %q", a.Header["X-Request-Id"])
		return ""
	}
	g := start(t, upstream, "--access-log-sample=1")
	a := g.do("GET", "/v1/items/1", "", "X-Api-Key", "big-1", "X-Request-Id", "mine", "Connection", "X-Request-Id")
	if id(a) == "mine" || a.body != "["+id(a)+"]" {
		t.Errorf("a stranger's id: got %s, the upstream %s", id(a), a.body)
	}
	poll(t, "the log has the id", func() bool { return strings.Contains(g.log.String(), "request_id="+id(a)) })
	b := g.do("GET", "/v1/items/1", "", "X-Api-Key", "nobody").want(t, 401, "")
	if id(b) == id(a) || !strings.Contains(b.body, `"instance":"urn:shiplane:request:`+id(b)+`"`) {
		t.Errorf("a refusal: id %s, body %s", id(b), b.body)
	}
	trusting := start(t, upstream, "--trusted-proxies=127.0.0.1")
	if a := trusting.do("GET", "/", "", "X-Request-Id", "theirs-7"); id(a) != "theirs-7" || a.body != "[theirs-7]" {
		t.Errorf("a trusted proxy's id: got %s, the upstream %s", id(a), a.body)
	}
	for _, bad := range []string{"", "a b", strings.Repeat("x", 200), "ü"} {
		if a := trusting.do("GET", "/", "", "X-Request-Id", bad); id(a) == bad {
			t.Errorf("%q was kept", bad)
		}
	}
}

// TestUpstreamSeesThePathThatWasCounted: in no spelling does a request of the class
// that costs 10 reach the upstream for 1.
func TestUpstreamSeesThePathThatWasCounted(t *testing.T) {
	paths := make(chan string, 1)
	upstream := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.RequestURI })
	g := start(t, upstream, "--no-strict-paths")
	left := "1000"
	for _, c := range []struct{ sent, reached string }{
		{"/v1/bulk", "/v1/bulk"},
		{"//v1/bulk", "/v1/bulk"},
		{"/v1//bulk", "/v1/bulk"},
		{"/./v1/%62ulk", "/v1/bulk"},
		{"/v1/x/%2e%2E/bulk", "/v1/bulk"},
		{"/%2e/v1/bulk", "/v1/bulk"},
		{"/../../v1/bulk", "/v1/bulk"},
		{"http://elsewhere//v1/bulk?x=1", "/v1/bulk?x=1"},
		{"/v1/bulk/", "/v1/bulk/"},
		{"/v1/x/..//bulk/.", "/v1/bulk/"},
		// These are other resources, and reach the upstream as such.
		{"/v1/bulk;x=1", "/v1/bulk;x=1"},
		{"/v1%2Fbulk", "/v1%2Fbulk"},
		{"/v1%2fbulk", "/v1%2Fbulk"},
		{`/v1\bulk`, "/v1%5Cbulk"},
		{"/v1%5cbulk", "/v1%5Cbulk"},
		{"/v1/bulk%00", "/v1/bulk%00"},
		{"/v1/x/..;/bulk", "/v1/x/..;/bulk"},
		{"/V1/bulk", "/V1/bulk"},
		{"/v1/%25%36%32ulk", "/v1/%25" + "62ulk"},
	} {
		_, reader := g.raw("POST " + c.sent + " HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\nContent-Length: 0\r\n\r\n")
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", c.sent, response, err)
		}
		if got := receive(t, paths, "request"); got != c.reached {
			t.Errorf("%s reached the upstream as %s, want %s", c.sent, got, c.reached)
		}
		was := left
		_, left, _ = strings.Cut(response.Header.Get("RateLimit"), ";r=")
		left, _, _ = strings.Cut(left, ";")
		want := 1
		if path, _, _ := strings.Cut(c.reached, "?"); strings.TrimSuffix(path, "/") == "/v1/bulk" {
			want = 10
		}
		if got := number(t, was) - number(t, left); got != want {
			t.Errorf("%s cost %d, want %d", c.sent, got, want)
		}
	}

	strict := start(t, upstream)
	for _, path := range []string{"/v1/bulk;x=1", "/v1%2Fbulk", "/v1/bulk%00", "/v1%5cbulk", `/v1\bulk`, "/v1/%3b", "/a%0db"} {
		_, reader := strict.raw("POST " + path + " HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\nContent-Length: 0\r\n\r\n")
		if response, err := http.ReadResponse(reader, nil); err != nil || response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v", path, response, err)
		}
	}
	strict.do("GET", "/v1/%e4%25?a=%2f;", "", "X-Api-Key", "big-1").want(t, 200, "")
	receive(t, paths, "request")
	if a := strict.do("post", "/v1/bulk", "", "X-Api-Key", "small-1"); a.Header.Get("RateLimit") == "" || !strings.Contains(a.Header.Get("RateLimit"), ";r=2;") {
		t.Errorf("post in lower case: RateLimit is %s, want 2 of 12 left", a.Header.Get("RateLimit"))
	}
}

func number(t *testing.T, text string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatalf("%q is no number", text)
	}
	return n
}

// TestHTTPInsideAnUpgradePassesNobody: a connection does not become HTTP/2 or TLS
// behind the gateway, where requests would pass uncounted.
func TestHTTPInsideAnUpgradePassesNobody(t *testing.T) {
	g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "upgrade=%q connection=%q", r.Header["Upgrade"], r.Header["Connection"])
	}))
	for _, protocol := range []string{"h2c", "H2C", "h2", "HTTP/2.0", "TLS/1.0", "websocket, h2c", "h2c,websocket"} {
		g.do("GET", "/v1/items/1", "", "X-Api-Key", "big-1", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", protocol, "HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA").
			want(t, 200, `upgrade=[] connection=[]`)
	}
}

// TestCallerThatLeavesCancelsTheUpstream: nothing is worked on for nobody.
func TestCallerThatLeavesCancelsTheUpstream(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	g := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(left)
	}))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.api+"/v1/items/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "big-1")
	go func() {
		if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
			response.Body.Close()
		}
	}()
	receive(t, arrived, "request")
	leave()
	receive(t, left, "end of the request at the upstream")
}
