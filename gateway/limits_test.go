package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/proxy"
	"github.com/shiplane/limits/gateway/internal/userfield"
	"github.com/shiplane/limits/libs/httplimit"
)

var echoes = http.HandlerFunc(echo)

// TestLimitHoldsUnderConcurrency: of many requests at once exactly the burst
// passes, whatever version of HTTP they come by.
func TestLimitHoldsUnderConcurrency(t *testing.T) {
	g := start(t, echoes)
	var allowed, denied atomic.Int64
	var sent sync.WaitGroup
	for name, by := range transports(t) {
		for range 20 {
			sent.Go(func() {
				r, err := http.NewRequest(http.MethodGet, g.api+"/v1/items/7", nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Api-Key", "small-1")
				response, err := by.RoundTrip(r)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				response.Body.Close()
				if response.Proto != name {
					t.Errorf("served by %s, want %s", response.Proto, name)
				}
				switch response.StatusCode {
				case http.StatusOK:
					allowed.Add(1)
				case http.StatusTooManyRequests:
					denied.Add(1)
				}
			})
		}
	}
	sent.Wait()
	if allowed.Load() != 12 || denied.Load() != 28 {
		t.Errorf("%d allowed and %d denied, want 12 and 28", allowed.Load(), denied.Load())
	}
	g.wantMetrics(`shiplane_gateway_rule_decisions_total{rule="small-global",verdict="allowed"}`, "12",
		`shiplane_gateway_rule_decisions_total{rule="small-global",verdict="denied"}`, "28")
}

// TestResponsesTellTheLimit: allowed and refused responses carry the same fields,
// and a refusal is a problem that names the rule.
func TestResponsesTellTheLimit(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"inner";r=1`)
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints) // the fields are the final response's
		w.WriteHeader(http.StatusOK)
	})
	g := start(t, upstream, "--x-ratelimit-headers", "--charge=head")
	fields := func(a answer) string {
		return fmt.Sprint(a.Header["Ratelimit"], a.Header["Ratelimit-Policy"], a.Header["Retry-After"],
			a.Header["X-Ratelimit-Limit"], a.Header["X-Ratelimit-Remaining"], a.Header["X-Ratelimit-Reset"])
	}
	got := fields(g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 200, ""))
	if want := `["small-global";r=2;t=864000] ["small-global";q=12;w=1036800] [] [12] [2] [864000]`; got != want {
		t.Errorf("allowed: got  %s\nwant %s", got, want)
	}
	denied := g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 429, "")
	if want := `["small-global";r=2;t=691200] ["small-global";q=12;w=1036800] [691200] [12] [2] [691200]`; fields(denied) != want {
		t.Errorf("denied: got  %s\nwant %s", fields(denied), want)
	}
	var p httplimit.Problem
	if err := json.Unmarshal([]byte(denied.body), &p); err != nil {
		t.Fatal(err)
	}
	if p.Code != httplimit.CodeRateLimited || len(p.Violated) != 1 || p.Violated[0] != "small-global" || p.Status != 429 {
		t.Errorf("problem is %+v", p)
	}
	// The refusal left the two tokens to requests that need no more.
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")
	if head := g.do("HEAD", "/v1/items/1", "", "X-Api-Key", "small-1"); head.StatusCode != 429 || head.body != "" || head.Header.Get("Retry-After") == "" {
		t.Errorf("HEAD: %s, body %q, %v", head.Status, head.body, head.Header)
	}
}

// TestIdentityDecidesWhoPays: known keys are accounts, an unknown X-Api-Key is
// refused, and an unknown token passes as anonymous and reaches the upstream.
func TestIdentityDecidesWhoPays(t *testing.T) {
	g := start(t, echoes)
	policy := func(a answer) string { return a.Header.Get("RateLimit-Policy") }
	if a := g.do("GET", "/v1/items/1", "", "Authorization", "Bearer big-1").want(t, 200, `auth=["Bearer big-1"]`); !strings.HasPrefix(policy(a), `"big-global"`) {
		t.Errorf("a known token is limited by %s", policy(a))
	}
	if a := g.do("GET", "/v1/items/1", "", "Authorization", "Bearer jwt").want(t, 200, `auth=["Bearer jwt"]`); !strings.HasPrefix(policy(a), `"anonymous-ip"`) {
		t.Errorf("an unknown token is limited by %s", policy(a))
	}
	for _, key := range []string{"nobody", "", "{small-1}", "a b", "%00", "small-1 x", strings.Repeat("k", 5000)} {
		a := g.do("GET", "/v1/items/1", "", "X-Api-Key", key, "Authorization", "Bearer big-1").want(t, 401, edge.CodeUnknownKey)
		if a.Header.Get("WWW-Authenticate") == "" {
			t.Error("a 401 without WWW-Authenticate")
		}
	}
	g.wantMetrics(`shiplane_gateway_requests_total{decided_by="identity",verdict="unauthorized"}`, "7",
		"shiplane_gateway_keys_loaded", "2")

	strict := start(t, echoes, "--require-key")
	strict.do("GET", "/v1/items/1", "").want(t, 401, edge.CodeKeyRequired)
	strict.do("GET", "/v1/items/1", "", "Authorization", "Bearer jwt").want(t, 401, edge.CodeUnknownKey)
	strict.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")
}

// TestSpoofedForwardedForGainsNothing: without a trusted proxy the header buys no
// new bucket; behind one the hop that the proxy saw is the client.
func TestSpoofedForwardedForGainsNothing(t *testing.T) {
	count := func(g *running, forwarded func(i int) string) (allowed int) {
		for i := range 20 {
			if g.do("GET", "/", "", "X-Forwarded-For", forwarded(i)).StatusCode == 200 {
				allowed++
			}
		}
		return allowed
	}
	spoofed := func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }
	g := start(t, echoes)
	g.do("GET", "/", "", "X-Forwarded-For", "203.0.113.9").want(t, 200, `for=["127.0.0.1"]`)
	if got := count(g, spoofed); got != 14 {
		t.Errorf("%d of 20 spoofed requests passed, want the 14 left", got)
	}
	behind := start(t, echoes, "--trusted-proxies", "127.0.0.0/8, 10.0.0.0/8")
	if got := count(behind, spoofed); got != 20 {
		t.Errorf("%d of 20 clients behind the proxy passed, want all", got)
	}
	if got := count(behind, func(i int) string { return spoofed(i) + ", 203.0.113.9, 10.0.0.1" }); got != 15 {
		t.Errorf("%d of 20 requests of one client passed, want 15", got)
	}
	behind.do("GET", "/", "", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https").want(t, 200, `proto=["https"]`)
	// One IPv6 client has a /64 to come from.
	if got := count(behind, func(i int) string { return fmt.Sprintf("2001:db8::%x", i) }); got != 15 {
		t.Errorf("%d of 20 addresses of one /64 passed, want 15", got)
	}
}

// TestEverySpellingOfAPathIsCounted: the upstream sees the path by which the
// request was classed, and only that.
func TestEverySpellingOfAPathIsCounted(t *testing.T) {
	g := start(t, echoes, "--no-strict-paths")
	for _, path := range []string{"/v1/login", "/v1/login/", "//v1//login", "/v1/./x/../login", "/v1/%6Cogin"} {
		a := g.do("POST", path, `{}`, "X-Api-Key", "big-1", "Content-Type", "application/json")
		a.want(t, 400, userfield.CodeUserMissing)
	}
	g.do("GET", "//v1/./items//a%2fb%7Ec?x=%zz;y", "", "X-Api-Key", "big-1").want(t, 200, "GET /v1/items/a%2Fb~c?x=%zz;y ")
}

// TestLoginsAreCountedByUser: by the name in the body, which arrives unchanged;
// a body that names nobody for sure is refused before the upstream sees it.
func TestLoginsAreCountedByUser(t *testing.T) {
	g := start(t, echoes)
	login := func(contentType, body string) answer {
		return g.do("POST", "/v1/login", body, "X-Api-Key", "big-1", "Content-Type", contentType)
	}
	odd := ` {"password":"x", "username" : "Ada{}"} `
	login("application/json", odd).want(t, 200, fmt.Sprintf("body=%q", odd))
	login("application/x-www-form-urlencoded", "username=+ADA%7B%7D").want(t, 200, "")
	login("application/json", odd).want(t, 429, `"login-user"`)
	login("application/json", `{"username":"grace"}`).want(t, 200, "")
	login("application/json", `{"username":"a","username":"b"}`).want(t, 400, userfield.CodeUserAmbiguous)
	login("application/json", `{"username":"`+strings.Repeat("a", 70<<10)+`"}`).want(t, 400, userfield.CodeBodyTooLarge)
	login("text/plain", `hello`).want(t, 400, userfield.CodeBodyUnreadable)
	g.wantMetrics(`shiplane_gateway_requests_total{decided_by="request",verdict="bad_request"}`, "3")
}

// TestUpstreamDownIs502: with the fields of the decision, and the token is spent.
func TestUpstreamDownIs502(t *testing.T) {
	g := startBefore(t, "http://127.0.0.1:1") // a port that nothing listens on, and no test is given
	for left := 11; left >= 10; left-- {
		a := g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 502, proxy.CodeUpstream)
		if got, want := a.Header.Get("RateLimit"), fmt.Sprintf(`"small-global";r=%d;`, left); !strings.HasPrefix(got, want) {
			t.Errorf("RateLimit is %s, want %s", got, want)
		}
	}
	g.wantMetrics(`shiplane_gateway_upstream_errors_total{reason="connect"}`, "2")
}

// TestShadowModeRefusesNothing: everything is counted, nothing refused or shown;
// keys are still checked.
func TestShadowModeRefusesNothing(t *testing.T) {
	g := start(t, echoes, "--mode=shadow")
	for range 15 {
		a := g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")
		if a.Header.Get("RateLimit") != "" || a.Header.Get("RateLimit-Policy") != "" {
			t.Fatalf("fields in shadow: %v", a.Header)
		}
	}
	body := strings.Repeat("x", 100<<10)
	g.do("POST", "/v1/login", body, "X-Api-Key", "big-1").want(t, 200, body)
	g.do("GET", "/", "", "X-Api-Key", "nobody").want(t, 401, "")
	g.wantMetrics(`shiplane_gateway_shadow_decisions_total{rule="small-global",verdict="would_deny"}`, "3",
		`shiplane_gateway_shadow_decisions_total{rule="small-global",verdict="would_allow"}`, "12",
		`shiplane_gateway_rule_decisions_total{rule="small-global",verdict="denied"}`, "")
}

// TestRuleInShadowIsCountedOnly: beside enforced rules.
func TestRuleInShadowIsCountedOnly(t *testing.T) {
	g := start(t, echoes)
	for range 3 {
		a := g.do("GET", "/", "", "X-Api-Key", "big-1").want(t, 200, "")
		if strings.Contains(a.Header.Get("RateLimit-Policy"), "trial") {
			t.Errorf("a shadow rule shows: %v", a.Header)
		}
	}
	poll(t, "two requests would have been refused", func() bool {
		return g.metric(`shiplane_gateway_shadow_decisions_total{rule="trial",verdict="would_deny"}`) == "2"
	})
}

// TestModeOffAsksNobody: requests pass as if there were no limiter.
func TestModeOffAsksNobody(t *testing.T) {
	g := start(t, echoes, "--mode=off")
	for range 15 {
		g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")
	}
	g.wantMetrics(`shiplane_gateway_requests_total{decided_by="off",verdict="allowed"}`, "15")
}
