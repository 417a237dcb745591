package checker

import (
	"fmt"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// hitting is a descriptor with hits of its own.
func hitting(d *ratelimitv3.RateLimitDescriptor, hits uint64) *ratelimitv3.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

// peek asks without a hit.
func (e *envoyCaller) peek(d *ratelimitv3.RateLimitDescriptor) *pb.RateLimitResponse {
	e.t.Helper()
	return e.ask(&pb.RateLimitRequest{Domain: e.domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{hitting(d, 0)}})
}

// hits asks with hits of the whole request.
func (e *envoyCaller) hits(n uint32, descriptors ...*ratelimitv3.RateLimitDescriptor) string {
	e.t.Helper()
	return textOf(e.ask(&pb.RateLimitRequest{Domain: e.domain, HitsAddend: n, Descriptors: descriptors}))
}

// Hits of the request count for all its descriptors, those of a descriptor in their
// place; a window counts each, a bucket each at the route's cost.
func TestEnvoyHits(t *testing.T) {
	_, e := startEnvoy(t)
	e.want(e.hits(2, descriptor(free...)), "OK: OK free-day 3 per DAY left 1")
	e.want(e.hits(2, descriptor(free...)), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 1") // all or nothing
	e.want(e.hits(1, descriptor(free...)), "OK: OK free-day 3 per DAY left 0")
	e.want(e.hits(7, descriptor(pro...), hitting(descriptor("ip", "192.0.2.1"), 2)), "OK: OK pro-all 25 per 5 DAY left 18, OK nobody-ip 2 per 2 DAY left 0")
	e.want(e.hits(0, descriptor(pro...)), "OK: OK pro-all 25 per 5 DAY left 17") // 0 of a request is 1, as in the protocol
	e.want(e.said(hitting(descriptor(append(pro, "route", "bulk")...), 2)), "OVER_LIMIT: OVER_LIMIT pro-all 25 per 5 DAY left 17")
	e.want(e.said(hitting(descriptor(pro...), 2), hitting(descriptor(pro...), 4), descriptor(pro...)), "OK: OK pro-all 25 per 5 DAY left 13, OK pro-all 25 per 5 DAY left 13, OK pro-all 25 per 5 DAY left 13") // one counter is charged once, the most
	never := e.ask(&pb.RateLimitRequest{Domain: "public-api", HitsAddend: 26, Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(pro...)}})
	e.want(textOf(never), "OVER_LIMIT: OVER_LIMIT pro-all 25 per 5 DAY left 13")
	if after := never.GetStatuses()[0].GetDurationUntilReset(); after != nil || header(never, "retry-after") != "" {
		t.Errorf("what can never pass is to come back in %v", after.AsDuration())
	}
	e.want(e.hits(4, descriptor("account", "acct_new", "plan", "free")), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 0") // more than it ever holds
}

// A client may choose the hits (by the length of its body, say): more than a request
// can cost are refused, and charge nobody.
func TestEnvoyHugeHits(t *testing.T) {
	_, e := startEnvoy(t)
	for _, huge := range []uint64{1_000_001, 1 << 40, 1<<64 - 1} {
		r := e.ask(&pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{descriptor(free...), hitting(descriptor(pro...), huge)}})
		e.want(textOf(r), "OVER_LIMIT: OK, OVER_LIMIT")
		e.want(fmt.Sprint(r.GetDynamicMetadata().AsMap()), "map[descriptor:1 verdict:unreadable]")
	}
	e.want(e.hits(1<<32-1, descriptor(pro...)), "OVER_LIMIT: OVER_LIMIT")
	e.want(e.said(descriptor(free...), descriptor(pro...)), "OK: OK free-day 3 per DAY left 2, OK pro-all 25 per 5 DAY left 24")
}

// A descriptor of no hits only looks: whether one would pass, and what is left. It
// takes nothing, and what it finds used up refuses the request with all it charges.
func TestEnvoyPeek(t *testing.T) {
	_, e := startEnvoy(t)
	for range 5 {
		e.want(textOf(e.peek(descriptor(free...))), "OK: OK free-day 3 per DAY left 3")
	}
	e.hits(3, descriptor(free...))
	for range 5 {
		e.want(textOf(e.peek(descriptor(free...))), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 0")
	}
	ip := func() *ratelimitv3.RateLimitDescriptor { return descriptor("ip", "192.0.2.1") }
	e.want(e.said(ip(), hitting(descriptor(free...), 0)), "OVER_LIMIT: OK, OVER_LIMIT free-day 3 per DAY left 0")
	e.want(e.said(hitting(descriptor("account", "acct_new", "plan", "free"), 0), ip()), "OK: OK free-day 3 per DAY left 3, OK nobody-ip 2 per 2 DAY left 1")
	e.want(e.said(ip(), hitting(ip(), 0)), "OK: OK nobody-ip 2 per 2 DAY left 0, OK nobody-ip 2 per 2 DAY left 0") // a look and a hit at one counter are a hit
	other := []string{"ip", "192.0.2.2"}
	e.want(e.said(hitting(descriptor(other...), 0), descriptor(other...)), "OK: OK nobody-ip 2 per 2 DAY left 1, OK nobody-ip 2 per 2 DAY left 1")
	e.want(textOf(e.peek(descriptor("account", "acct_banned", "plan", "pro"))), "OVER_LIMIT: OVER_LIMIT pro-all 25 per 5 DAY left 0")
}

// limited is a descriptor that brings its limit; a multiplier of 0 is none.
func limited(d *ratelimitv3.RateLimitDescriptor, n uint32, unit typev3.RateLimitUnit, multiplier uint32) *ratelimitv3.RateLimitDescriptor {
	d.Limit = &ratelimitv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	if multiplier > 0 {
		d.Limit.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	return d
}

// A limit of the descriptor's own holds in the place of the rule's, in every unit of
// the protocol; 0 refuses all, and a ban stays a ban.
func TestEnvoyLimitOfTheDescriptor(t *testing.T) {
	_, e := startEnvoy(t)
	for _, c := range []struct {
		n, multiplier uint32
		unit          typev3.RateLimitUnit
		want          string
	}{
		{7, 0, typev3.RateLimitUnit_SECOND, "7 per SECOND"},
		{7, 0, typev3.RateLimitUnit_MINUTE, "7 per MINUTE"},
		{7, 0, typev3.RateLimitUnit_HOUR, "7 per HOUR"},
		{7, 0, typev3.RateLimitUnit_DAY, "7 per DAY"},
		{7, 0, typev3.RateLimitUnit_MONTH, "7 per 30 DAY"},
		{7, 0, typev3.RateLimitUnit_YEAR, "7 per 365 DAY"},
		{7, 15, typev3.RateLimitUnit_MINUTE, "7 per 15 MINUTE"},
		{7, 90, typev3.RateLimitUnit_SECOND, "7 per 90 SECOND"},
		{7, 48, typev3.RateLimitUnit_HOUR, "7 per 2 DAY"},
	} {
		account := fmt.Sprint("acct_", c.unit, c.multiplier)
		e.want(e.said(limited(descriptor("rule", "pro-all", "account", account), c.n, c.unit, c.multiplier)), "OK: OK pro-all "+c.want+" left 6")
		if c.unit != typev3.RateLimitUnit_YEAR { // longer than a window can be
			e.want(e.said(limited(descriptor("rule", "free-day", "account", account), c.n, c.unit, c.multiplier)), "OK: OK free-day "+c.want+" left 6")
		}
	}
	e.want(e.said(limited(descriptor("rule", "free-day", "account", "shut"), 0, typev3.RateLimitUnit_DAY, 0)), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 0")
	e.want(e.said(limited(descriptor("rule", "pro-all", "account", "acct_banned"), 9, typev3.RateLimitUnit_DAY, 0)), "OVER_LIMIT: OVER_LIMIT pro-all 9 per DAY left 0")
	e.want(e.hits(4, limited(descriptor(free...), 4, typev3.RateLimitUnit_DAY, 0)), "OK: OK free-day 4 per DAY left 0")
	e.want(e.said(limited(descriptor(free...), 4, typev3.RateLimitUnit_DAY, 0)), "OVER_LIMIT: OVER_LIMIT free-day 4 per DAY left 0")
}

// A limit that the rule cannot count by is a fault of the configuration, told with what
// it wants.
func TestEnvoyFaultsOfLimits(t *testing.T) {
	_, e := startEnvoy(t)
	for _, c := range []struct {
		descriptors []*ratelimitv3.RateLimitDescriptor
		want        string
	}{
		{[]*ratelimitv3.RateLimitDescriptor{limited(descriptor(free...), 5, typev3.RateLimitUnit_UNKNOWN, 0)}, "descriptors[0].limit: unit is UNKNOWN: want SECOND"},
		{[]*ratelimitv3.RateLimitDescriptor{limited(descriptor(free...), 5, typev3.RateLimitUnit_YEAR, 0)}, "descriptors[0].limit: cannot be one of rule free-day: window is"},
		{[]*ratelimitv3.RateLimitDescriptor{limited(descriptor(free...), 5, typev3.RateLimitUnit_DAY, 1<<32-1)}, "window is"},
		{[]*ratelimitv3.RateLimitDescriptor{limited(descriptor(pro...), 1, typev3.RateLimitUnit_YEAR, 2)}, "descriptors[0].limit: cannot be one of rule pro-all: rate of"},
		{[]*ratelimitv3.RateLimitDescriptor{limited(descriptor(pro...), 1<<32-1, typev3.RateLimitUnit_DAY, 0)}, "want 1 to 1000000000"},
		{[]*ratelimitv3.RateLimitDescriptor{limited(descriptor("rule", "login-user", "user", "ada"), 1001, typev3.RateLimitUnit_DAY, 0)}, "want 1 to 1000"},
		{[]*ratelimitv3.RateLimitDescriptor{descriptor(free...), limited(descriptor(free...), 5, typev3.RateLimitUnit_DAY, 0)}, "descriptors[1].limit: is not that of another descriptor"},
	} {
		_, err := e.client.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "public-api", Descriptors: c.descriptors})
		wantError(t, err, codes.InvalidArgument, c.want)
	}
	zero := limited(descriptor(free...), 5, typev3.RateLimitUnit_DAY, 1)
	zero.Limit.UnitMultiplier.Value = 0
	_, err := e.client.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{zero}})
	wantError(t, err, codes.InvalidArgument, "descriptors[0].limit: unit_multiplier is 0")
}

// A request charges 64 counters at most: what meets more is told so.
func TestEnvoyRequestMeetsAtMostSoManyRules(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("rules:\n")
	for i := range 8 {
		fmt.Fprintf(&rules, "  - {id: rule-%d, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 9}\n", i)
	}
	s := start(t, "--rules", file(t, "rules.yaml", rules.String()))
	e := s.envoy()
	var many []*ratelimitv3.RateLimitDescriptor
	for i := range 8 {
		many = append(many, descriptor("account", fmt.Sprint("acct", i)))
	}
	if got := e.said(many...); !strings.HasPrefix(got, "OK: OK rule-0 9 per 9 DAY left 8,") {
		t.Errorf("64 charges: %s", got)
	}
	_, err := e.client.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "public-api", Descriptors: append(many, descriptor("account", "one more"))})
	wantError(t, err, codes.InvalidArgument, "descriptors[8].entries: meet, with those of the descriptors before, more than 64 rules")
}

// What a served call turns out to have cost is charged at its end, by a rule that
// counts after: it counts whatever came, and refuses while that was too much.
func TestEnvoyChargesAtTheEndOfAStream(t *testing.T) {
	e := start(t, "--rules", file(t, "rules.yaml", `
rules: [{id: model-tokens, scope: all, identity: api_key, algorithm: token_bucket, rate: 10/s, burst: 1000, check: after}]
`)).envoy()
	e.want(textOf(e.peek(descriptor("account", "acct"))), "OK: OK")
	e.want(e.said(hitting(descriptor("account", "acct"), 2000)), "OK: OK")
	poll(t, "the bill has been counted", func() bool {
		return e.peek(descriptor("account", "acct")).GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT
	})
	e.want(e.said(hitting(descriptor("account", "other"), 900)), "OK: OK")
}
