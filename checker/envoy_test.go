package checker

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// A descriptor is admitted until its rule is used up, told what is left each time,
// and refused then, with the headers that a gateway would send.
func TestEnvoyCountsUpToTheLimit(t *testing.T) {
	_, e := startEnvoy(t)
	for left := 2; left >= 0; left-- {
		r := e.ask(&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(free...)}})
		e.want(textOf(r), fmt.Sprintf("OK: OK free-day 3 per DAY left %d", left))
		if reset := r.GetStatuses()[0].GetDurationUntilReset().AsDuration(); reset <= 0 || reset.Hours() > 24 {
			t.Errorf("the window ends in %v", reset)
		}
		e.want(header(r, "ratelimit-policy"), `"free-day";q=3;w=86400`)
		if state := header(r, "ratelimit"); !strings.HasPrefix(state, fmt.Sprintf(`"free-day";r=%d;t=`, left)) {
			t.Errorf("the state is %s", state)
		}
		e.want(header(r, "retry-after"), "")
	}
	for range 2 {
		r := e.ask(&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(free...)}})
		e.want(textOf(r), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 0")
		wait := r.GetStatuses()[0].GetDurationUntilReset().AsDuration()
		e.want(header(r, "retry-after"), fmt.Sprint(math.Ceil(wait.Seconds())))
		if wait <= 0 || !strings.Contains(header(r, "ratelimit"), `"free-day";r=0`) {
			t.Errorf("headers of a refusal: %v", r.GetResponseHeadersToAdd())
		}
		meta := r.GetDynamicMetadata().AsMap()
		e.want(fmt.Sprint(meta), "map[descriptor:0 rule:free-day verdict:denied]")
	}
	e.want(e.said(descriptor("account", "acct_other", "plan", "free")), "OK: OK free-day 3 per DAY left 2") // the same key, another value
}

// The same counters are behind all protocols: what an Envoy has used is used for a
// caller of CheckService.
func TestEnvoySharesCountersWithChecks(t *testing.T) {
	s, e := startEnvoy(t)
	for range 3 {
		e.said(descriptor(free...))
	}
	s.check(`{"domain": "public-api", "entries": [{"rule": "free-day", "key": "acct_free"}]}`).want(t, http.StatusOK, `"verdict":"deny"`)
}

// Plan, path and method choose the rules as at a gateway: the strictest decides, what
// it refuses is charged to none, and rules in shadow say nothing.
func TestEnvoyRequestMeetsTheRulesOfItsRoute(t *testing.T) {
	_, e := startEnvoy(t)
	e.want(e.said(descriptor(proLabels...)), "OK: OK pro-labels 2 per 2 DAY left 1")
	e.want(e.said(descriptor(proLabels...)), "OK: OK pro-labels 2 per 2 DAY left 0")
	for range 3 {
		e.want(e.said(descriptor(proLabels...)), "OVER_LIMIT: OVER_LIMIT pro-labels 2 per 2 DAY left 0")
	}
	e.want(e.said(descriptor(pro...)), "OK: OK pro-all 25 per 5 DAY left 22") // two labels before it, and no refusal
	bulk := append(slices.Clone(pro), "path", "/v1/bulk", "method", "POST")
	e.want(e.said(descriptor(bulk...)), "OK: OK pro-all 25 per 5 DAY left 12") // its cost is 10
	hosted := append(slices.Clone(pro), "path", "/whatever", "method", "POST", "host", "bulk.example:443")
	e.want(e.said(descriptor(hosted...)), "OK: OK pro-all 25 per 5 DAY left 2")
	e.want(e.said(descriptor(append(slices.Clone(pro), "route", "bulk")...)), "OVER_LIMIT: OVER_LIMIT pro-all 25 per 5 DAY left 2")
}

// Several descriptors are one request: each has its status, the strictest decides, all
// are charged or none, and a counter that two of them meet is charged once.
func TestEnvoyDescriptorsAreOneRequest(t *testing.T) {
	_, e := startEnvoy(t)
	ip := descriptor("remote_address", "192.0.2.7")
	e.want(e.said(ip, descriptor(free...), descriptor(free...)), "OK: OK nobody-ip 2 per 2 DAY left 1, OK free-day 3 per DAY left 2, OK free-day 3 per DAY left 2")
	e.said(descriptor(free...))
	e.said(descriptor(free...))
	for range 3 {
		e.want(e.said(descriptor(free...), ip), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 0, OK nobody-ip 2 per 2 DAY left 1")
	}
	e.want(e.said(ip), "OK: OK nobody-ip 2 per 2 DAY left 0")
	e.want(e.said(ip), "OVER_LIMIT: OVER_LIMIT nobody-ip 2 per 2 DAY left 0")
}

// Who asks is told by the names that Envoy's actions have, in all spellings of one
// caller.
func TestEnvoyIdentities(t *testing.T) {
	_, e := startEnvoy(t)
	e.want(e.said(descriptor("api_key", "acct_free", "plan", "free")), "OK: OK free-day 3 per DAY left 2")
	e.want(e.said(descriptor("account", "acct_free", "plan", "free", "ip", "192.0.2.1")), "OK: OK free-day 3 per DAY left 1")
	for _, spelling := range [][]string{{"remote_address", "2001:db8:1:2::9"}, {"masked_remote_address", "2001:db8:1:2::/64"}} {
		e.said(descriptor(spelling...))
	}
	e.want(e.said(descriptor("ip", "2001:db8:1:2:3::4")), "OVER_LIMIT: OVER_LIMIT nobody-ip 2 per 2 DAY left 0")
	login := []string{"path", "/v1/login", "method", "POST", "user"}
	e.want(e.said(descriptor(append(login, "Ada")...)), "OK: OK login-user 2 per HOUR left 1")
	e.want(e.said(descriptor(append(login, " ada ")...)), "OK: OK login-user 2 per HOUR left 0")
	e.want(e.said(descriptor(append(login, "ADA")...)), "OVER_LIMIT: OVER_LIMIT login-user 2 per HOUR left 0")
	e.want(e.said(descriptor("account", "acct_banned", "plan", "pro")), "OVER_LIMIT: OVER_LIMIT pro-all 25 per 5 DAY left 0")
}

// A descriptor can name its rules itself, whatever plan and route the request has; of
// each the identity is taken that the rule counts by.
func TestEnvoyNamesRules(t *testing.T) {
	_, e := startEnvoy(t)
	e.want(e.said(descriptor("rule", "pro-labels", "rule", "login-user", "account", "acct", "user", "ada", "ip", "192.0.2.1")), "OK: OK pro-labels 2 per 2 DAY left 1")
	e.want(e.said(descriptor("rule", "login-user", "user", "ada")), "OK: OK login-user 2 per HOUR left 0")
	both := []string{"rule", "pro-labels", "rule", "free-day", "account", "acct_used"}
	for range 2 {
		e.said(descriptor(both...))
	}
	e.said(descriptor("rule", "free-day", "account", "acct_used"))
	e.want(e.said(descriptor(both...)), "OVER_LIMIT: OVER_LIMIT pro-labels 2 per 2 DAY left 0") // both refuse: the first is told
	e.want(e.said(descriptor("rule", "login-user", "account", "ada")), "OK: OK")                // counts users, and has none
	e.want(e.said(descriptor("rule", "pro-trial", "account", "acct")), "OK: OK")
	e.want(e.said(descriptor("rule", "pro-trial", "account", "acct")), "OK: OK") // in shadow
}

// What maps to no rule is admitted, as by every service of the protocol, but is counted
// and logged, once for each text.
func TestEnvoyAdmitsWhatNoRuleIsAbout(t *testing.T) {
	s, e := startEnvoy(t)
	for _, d := range [][]string{
		{"generic_key", "slow"}, {"account", "acct", "plan", "free", "destination_cluster", "x"}, {"plan", "free"}, {"account", ""}, {},
		{"account", "acct", "route", "nonsense"}, {"rule", "nonsense", "account", "acct"}, {"account", "acct"}, {"masked_remote_address", "192.0.2.0/24"},
	} {
		for range 5 {
			e.want(e.said(descriptor(d...)), "OK: OK")
		}
	}
	e.domain = "other"
	e.want(e.said(descriptor(free...), descriptor(pro...)), "OK: OK, OK")
	metrics := s.do(http.MethodGet, s.admin+"/metrics", "")
	for outcome, n := range map[string]int{"unknown_key": 10, "no_identity": 15, "unknown_route": 5, "unknown_rule": 5, "no_rule": 5, "wide_network": 5, "unknown_domain": 1} {
		metrics.want(t, http.StatusOK, fmt.Sprintf("shiplane_checker_envoy_descriptors_total{outcome=%q} %d\n", outcome, n))
	}
	metrics.want(t, http.StatusOK, `shiplane_checker_requests_total{decided_by="no_rule",verdict="allowed"} 46`+"\n")
	for _, what := range []string{"what=generic_key", "what=destination_cluster", "what=nonsense", "what=other"} {
		if n := strings.Count(s.log.String(), what+"\n"); n < 1 || n > 2 {
			t.Errorf("%s is logged %d times", what, n)
		}
	}
}

// What only the operator of an Envoy can have caused is an error that names it, and
// charges nobody.
func TestEnvoyFaultsOfConfiguration(t *testing.T) {
	s, e := startEnvoy(t)
	negative := descriptor(free...)
	negative.IsNegativeHits = true
	one := descriptor(free...)
	for _, c := range []struct {
		q    *pb.RateLimitRequest
		want string
	}{
		{&pb.RateLimitRequest{Descriptors: []*ratelimitv3.RateLimitDescriptor{one}}, "domain: is missing"},
		{&pb.RateLimitRequest{Domain: "public-api"}, "descriptors: are 0: want 1 to 16"},
		{&pb.RateLimitRequest{Domain: "public-api", Descriptors: slices.Repeat([]*ratelimitv3.RateLimitDescriptor{one}, 17)}, "descriptors: are 17: want 1 to 16"},
		{&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{one, negative}}, "descriptors[1].is_negative_hits: hits are not handed back"},
		{&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(append(free, "api_key", "other")...)}}, `descriptors[0].entries[2]: "api_key" says again`},
		{&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(append(proLabels, "route", "bulk")...)}}, `descriptors[0].entries: are a "route" and a "path"`},
		{&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(slices.Repeat([]string{"rule", "x"}, 17)...)}}, "descriptors[0].entries: are 17: want at most 16"},
	} {
		_, err := e.client.ShouldRateLimit(t.Context(), c.q)
		wantError(t, err, codes.InvalidArgument, c.want)
		if !strings.Contains(s.log.String(), "INVALID_ARGUMENT") {
			t.Errorf("the log does not tell of %s", c.want)
		}
	}
	e.want(e.said(one), "OK: OK free-day 3 per DAY left 2")
	s.do(http.MethodGet, s.admin+"/metrics", "").want(t, http.StatusOK, `shiplane_checker_requests_total{decided_by="request",verdict="bad_request"} 7`+"\n")
}

// Of what a client sends nothing makes a call fail, which an Envoy would let pass: a
// value that nobody can be is refused.
func TestEnvoyClientCannotBreakACall(t *testing.T) {
	s, e := startEnvoy(t)
	for _, c := range []struct{ bad []string }{
		{[]string{"ip", "192.0.2.1, 203.0.113.9"}}, {[]string{"account", strings.Repeat("x", 4097)}}, {[]string{"user", strings.Repeat("x", 4097)}},
		{[]string{"account", "acct", "plan", "pro", "path", "/" + strings.Repeat("x", 16<<10)}},
	} {
		r := e.ask(&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(free...), descriptor(c.bad...)}})
		e.want(textOf(r), "OVER_LIMIT: OK, OVER_LIMIT")
		e.want(fmt.Sprint(r.GetDynamicMetadata().AsMap()), "map[descriptor:1 verdict:unreadable]")
	}
	conn := s.native()
	broken := &pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor("account", "acct_INVALID", "plan", "free")}}
	var r pb.RateLimitResponse
	if err := conn.Invoke(t.Context(), pb.RateLimitService_ShouldRateLimit_FullMethodName, broken, &r, notUTF8); err != nil || r.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("a value that is not UTF-8: %v, %v", &r, err)
	}
	e.want(e.said(descriptor(free...)), "OK: OK free-day 3 per DAY left 2") // nobody was charged
	s.do(http.MethodGet, s.admin+"/metrics", "").want(t, http.StatusOK, `shiplane_checker_envoy_descriptors_total{outcome="unreadable"} 5`+"\n")
}

// Counters are had or not as each rule's fail mode says: an Envoy lets pass what fails,
// so a closed rule refuses.
func TestEnvoyFailModes(t *testing.T) {
	_, e := startEnvoy(t, "--store=redis://127.0.0.1:1")
	e.want(e.said(descriptor(free...)), "OK: OK")
	login := descriptor("path", "/v1/login", "method", "POST", "user", "ada")
	r := e.ask(&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(free...), login}})
	e.want(textOf(r), "OVER_LIMIT: OK, OVER_LIMIT login-user 2 per HOUR left 0")
	e.want(fmt.Sprint(r.GetDynamicMetadata().AsMap()), "map[cause:store_unavailable descriptor:1 rule:login-user verdict:unavailable]")
	e.want(header(r, "retry-after"), "1")
}

// With --mode shadow and off an Envoy is never told to refuse, nor a client of limits.
func TestEnvoyModes(t *testing.T) {
	for _, mode := range []string{"shadow", "off"} {
		s, e := startEnvoy(t, "--mode", mode)
		for range 5 {
			r := e.ask(&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(free...)}})
			e.want(textOf(r), "OK: OK")
			if len(r.GetResponseHeadersToAdd()) != 0 {
				t.Errorf("--mode %s adds %v", mode, r.GetResponseHeadersToAdd())
			}
		}
		e.want(e.said(descriptor("ip", "nonsense")), "OK: OK")
		if mode == "shadow" {
			s.do(http.MethodGet, s.admin+"/metrics", "").want(t, http.StatusOK, `shiplane_checker_shadow_decisions_total{domain="public-api",rule="free-day",verdict="would_deny"} 2`+"\n")
		}
	}
}

// Rules change under a running Envoy, and what was counted stays counted.
func TestEnvoyFollowsRules(t *testing.T) {
	path := file(t, "rules.yaml", envoyRules)
	e := start(t, "--rules", path).envoy()
	e.want(e.said(descriptor(free...)), "OK: OK free-day 3 per DAY left 2")
	write(t, path, strings.ReplaceAll(envoyRules, "limit: 3, window: 1d", "limit: 30, window: 1d"))
	peek := descriptor(free...)
	poll(t, "the new limit holds", func() bool { return strings.Contains(textOf(e.peek(peek)), "30 per DAY") })
	e.want(e.said(descriptor(free...)), "OK: OK free-day 30 per DAY left 28")
}

// Domains are apart, each with rules of its own.
func TestEnvoyDomainsAreApart(t *testing.T) {
	other := "domain: internal\n" + envoyRules
	_, e := startEnvoy(t, "--rules", file(t, "a.yaml", envoyRules)+","+file(t, "b.yaml", other))
	e.want(e.said(descriptor(free...)), "OK: OK free-day 3 per DAY left 2")
	e.domain = "internal"
	e.want(e.said(descriptor(free...)), "OK: OK free-day 3 per DAY left 2")
}

// Envoys need a token as other callers do, which initial_metadata sends; health needs
// none, also by the service's name.
func TestEnvoyNeedsAToken(t *testing.T) {
	s, e := startEnvoy(t, "--token-file", file(t, "tokens", callerToken))
	q := &pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(free...)}}
	with := func(token string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	}
	for _, ctx := range []context.Context{t.Context(), with("wrong-token-of-a-test-001")} {
		_, err := e.client.ShouldRateLimit(ctx, q)
		wantError(t, err, codes.Unauthenticated, "")
	}
	var r pb.RateLimitResponse
	broken := &pb.RateLimitRequest{Domain: "INVALID"}
	wantError(t, s.native().Invoke(t.Context(), pb.RateLimitService_ShouldRateLimit_FullMethodName, broken, &r, notUTF8), codes.Unauthenticated, "")
	if _, err := e.client.ShouldRateLimit(with(callerToken), q); err != nil {
		t.Errorf("with the token: %v", err)
	}
	a, err := healthv1.NewHealthClient(s.native()).Check(t.Context(), &healthv1.HealthCheckRequest{Service: pb.RateLimitService_ServiceDesc.ServiceName})
	if err != nil || a.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", a, err)
	}
}
