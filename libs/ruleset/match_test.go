package ruleset

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/libs/limit"
)

// launch is a moment within the launch week of testdata/public-api.yaml.
var launch = time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)

// publicAPI returns the ruleset of testdata/public-api.yaml.
func publicAPI(t testing.TB) *Ruleset {
	t.Helper()
	text, err := os.ReadFile("testdata/public-api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, string(text))
}

func mustLoad(t testing.TB, text string) *Ruleset {
	t.Helper()
	set, faults := load([]byte(text), nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return set
}

func subject(t testing.TB, kind limit.Kind, id string) limit.Subject {
	t.Helper()
	if id == "" {
		return limit.Subject{}
	}
	s, err := limit.NewSubject(DomainDefault, kind, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// caller returns the caller as a gateway would make it; "" is no such identity.
func caller(t testing.TB, plan, account, ip, user string) *Caller {
	t.Helper()
	c := &Caller{Plan: plan, Account: subject(t, limit.Account, account), User: subject(t, limit.User, Naming{}.UserID(user))}
	if ip != "" {
		c.IP = subject(t, limit.IP, Naming{}.AddressID(netip.MustParseAddr(ip)))
	}
	return c
}

// charges returns what a request meets, as lines of text.
func charges(set *Ruleset, now time.Time, method, path string, c *Caller) []string {
	route := set.Route(httptest.NewRequest(method, path, nil))
	var req limit.Request
	set.Match(now, route, c, &req)
	var lines []string
	for _, charge := range req.Charges {
		line := charge.Rule.ID + " " + charge.Limit.String()
		if charge.Banned {
			line += " banned"
		}
		if charge.Cost != 1 {
			line += fmt.Sprint(" cost ", charge.Cost)
		}
		lines = append(lines, line)
	}
	return lines
}

// A request meets each rule of its plan, its route class and its identities,
// and no others: in the order IP, user, account, each in the order of the file.
func TestRequestMeetsEveryRuleThatMatches(t *testing.T) {
	set := publicAPI(t)
	for _, test := range []struct {
		name, method, path string
		caller             *Caller
		want               []string
	}{
		{"plan, route and address", "GET", "/v1/labels", caller(t, "free", "acct_1", "198.51.100.7", ""),
			[]string{"ip-flood 50/s burst 100", "free-global 10/s burst 20", "free-daily 10000 per 24h0m0s", "labels-route 1000/s burst 2000"}},
		{"rule of plan and route, counting cost", "POST", "/v1/bulk", caller(t, "growth", "acct_1", "", ""),
			[]string{"growth-global 100/s burst 200 cost 10", "growth-bulk 5000 per 1h0m0s cost 10"}},
		{"anonymous", "GET", "/v1/labels", caller(t, PlanAnonymous, "", "198.51.100.7", ""), []string{"ip-flood 50/s burst 100"}},
		{"login by address and user", "POST", "/v1/login", caller(t, PlanAnonymous, "", "198.51.100.7", "joe"),
			[]string{"login-ip 5 per 1m0s", "ip-flood 50/s burst 100", "login-user 20 per 1h0m0s"}},
		{"no class", "DELETE", "/else", caller(t, "free", "acct_1", "", ""), []string{"free-global 10/s burst 20", "free-daily 10000 per 24h0m0s"}},
		{"cost 0", "GET", "/v1/status", caller(t, "free", "acct_1", "", ""),
			[]string{"free-global 10/s burst 20 cost 0", "free-daily 10000 per 24h0m0s cost 0"}},
		{"plan unknown to the rules", "GET", "/v1/labels", caller(t, "gold", "acct_1", "198.51.100.7", ""),
			[]string{"ip-flood 50/s burst 100", "labels-route 1000/s burst 2000"}},
		{"no identity", "GET", "/v1/labels", caller(t, "free", "", "", ""), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, charges(set, launch, test.method, test.path, test.caller)); diff != "" {
				t.Errorf("charges (-want +got):\n%s", diff)
			}
		})
	}
}

// A route class of another ruleset, unknown here, leaves the rules that name none.
func TestRouteOfAnotherRulesetMeetsTheGeneralRules(t *testing.T) {
	set := publicAPI(t)
	var req limit.Request
	set.Match(launch, &Route{ID: "gone", Cost: 3}, caller(t, "free", "acct_1", "", ""), &req)
	if len(req.Charges) != 2 || req.Charges[0].Rule.ID != "free-global" || req.Charges[0].Cost != 3 {
		t.Errorf("charges %v, want free-global of cost 3 and free-daily", req.Charges)
	}
	set.Match(launch, nil, caller(t, "free", "acct_1", "", ""), &req)
	if len(req.Charges) != 2 || req.Charges[0].Cost != 1 {
		t.Errorf("charges %v of no route, want two of cost 1", req.Charges)
	}
}

// An override applies from its start until its end, to the caller it is for and
// to no other, however the caller's address or name is spelled.
func TestOverrideAppliesToItsCallerInItsTime(t *testing.T) {
	set := publicAPI(t)
	start, end := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	hot := caller(t, "growth", "acct_7Q2", "", "")
	for _, test := range []struct {
		name, method, path string
		now                time.Time
		caller             *Caller
		want               string
	}{
		{"before", "GET", "/", start.Add(-1), hot, "growth-global 100/s burst 200"},
		{"at its start", "GET", "/", start, hot, "growth-global 500/s burst 1000"},
		{"last moment", "GET", "/", end.Add(-1), hot, "growth-global 500/s burst 1000"},
		{"the next, which changes the rate only", "GET", "/", end, hot, "growth-global 200/s burst 200"},
		{"another account", "GET", "/", start, caller(t, "growth", "acct_7q2", "", ""), "growth-global 100/s burst 200"},
		{"ban", "GET", "/", start, caller(t, "free", "acct_bad", "", ""), "free-global 10/s burst 20 banned"},
		{"mapped address", "GET", "/", start, caller(t, "free", "", "192.0.2.1", ""), "ip-flood 50/s burst 500"},
		{"name in another spelling", "POST", "/v1/login", start, caller(t, "free", "", "", "JU\u0308RGEN\t"), "login-user 40 per 1h0m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := charges(set, test.now, test.method, test.path, test.caller); !slices.Contains(got, test.want) {
				t.Errorf("charges %q, want %q among them", got, test.want)
			}
		})
	}
}

// Match is on the path of every request: it allocates nothing once req has grown.
func TestMatchAllocatesNothing(t *testing.T) {
	set, req := publicAPI(t), &limit.Request{}
	c := caller(t, "growth", "acct_7Q2", "192.0.2.1", "")
	route := set.Route(httptest.NewRequest("POST", "/v1/bulk", nil))
	set.Match(launch, route, c, req)
	if len(req.Charges) != 3 {
		t.Fatalf("%d charges, want 3", len(req.Charges))
	}
	if n := testing.AllocsPerRun(1000, func() { set.Match(launch, route, c, req) }); n != 0 {
		t.Errorf("%v allocations a match, want 0", n)
	}
}

// LargestCost is what a burst must hold: over the classes that the rule meets.
func TestLargestCostIsOverTheRoutesOfTheRule(t *testing.T) {
	set := publicAPI(t)
	for _, rule := range set.Rules() {
		want := map[string]int64{"free-global": 10, "growth-global": 10, "growth-bulk": 10, "ip-flood": 10}[rule.ID]
		if got := set.LargestCost(rule); got != max(want, 1) {
			t.Errorf("%s: %d, want %d", rule.ID, got, max(want, 1))
		}
	}
}

// The spelling of an address does not give a caller more counters; another
// subscriber has another.
func TestAddressIDIsOnePerSubscriber(t *testing.T) {
	var naming Naming
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:0:1::": "2001:db8:0:1::/64", "2001:db8:0:1:ffff::9": "2001:db8:0:1::/64", "2001:db8:0:2::1": "2001:db8:0:2::/64",
		"fe80::1%eth0": "fe80::/64",
	} {
		if got := naming.AddressID(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if got := naming.AddressID(netip.Addr{}); got != "" {
		t.Errorf("no address: %q, want none", got)
	}
}

// People's spellings of one name are one user; different names are not.
func TestUserIDIsOnePerName(t *testing.T) {
	var naming Naming
	for _, spellings := range [][]string{
		{"joe", "Joe", " JOE\t", "\u00a0joe\u2003", "\ufeffjoe", "joe \ufeff"}, {"stra\u00dfe", "STRASSE"}, {"J\u00fcrgen", "ju\u0308rgen"}, {"", " ", "\u2000", "\ufeff"}, {"j oe"}, {"jo"},
	} {
		for _, s := range spellings {
			if got, want := naming.UserID(s), naming.UserID(spellings[0]); got != want {
				t.Errorf("%q: %q, want %q", s, got, want)
			}
		}
	}
	exact := Naming{ExactUsers: true}
	if exact.UserID("\ufeffJoe\u00a0") != exact.UserID("Joe") {
		t.Error("white space is a part of a name told apart by case")
	}
	if naming.UserID("joe") == naming.UserID("jo\u00e9") || naming.UserID("joe") == naming.UserID("jo") {
		t.Error("different names are one user")
	}
}

// Another prefix, or names told apart by case, hold for requests and for the keys
// of overrides alike, whichever address of the prefix a key spells.
func TestNamingIsOneForRequestsAndOverrides(t *testing.T) {
	text := `
plans: [{id: free}]
routes: [{id: login, match: POST /login, user_field: name}]
rules:
  - {id: ip, scope: all, identity: ip, algorithm: token_bucket, rate: 1/s, burst: 1}
  - {id: user, route: login, identity: user, algorithm: sliding_log, limit: 5, window: 1m}
overrides:
  - {rule: ip, key: "2001:db8:7:1::9", burst: 9}
  - {rule: user, key: Bob, deny: true}
`
	naming := Naming{IPv6Prefix: 48, ExactUsers: true}
	set, faults := load([]byte(text), nil, WithNaming(naming))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	burst := func(address, user string) (burst int64, banned bool) {
		c := &Caller{Plan: "free", IP: subject(t, limit.IP, naming.AddressID(netip.MustParseAddr(address))), User: subject(t, limit.User, naming.UserID(user))}
		var req limit.Request
		set.Match(time.Time{}, set.Routes()[0], c, &req)
		return req.Charges[0].Limit.Burst, req.Charges[1].Banned
	}
	if got, banned := burst("2001:db8:7:ffff::1", "Bob"); got != 9 || !banned {
		t.Errorf("in the /48: burst %d, banned %v; want 9, true", got, banned)
	}
	if got, banned := burst("2001:db8:8::1", "bob"); got != 1 || banned {
		t.Errorf("out of the /48: burst %d, banned %v; want 1, false", got, banned)
	}
	if _, faults := load([]byte(strings.Replace(text, "2001:db8:7:1::9", "2001:db8:7:1::/64", 1)), nil, WithNaming(naming)); len(faults) != 1 {
		t.Errorf("a /64 where a /48 is counted: %v, want one fault", faults)
	}
}

func BenchmarkMatch(b *testing.B) {
	set := publicAPI(b)
	c := caller(b, "growth", "acct_7Q2", "192.0.2.1", "")
	route := set.Route(httptest.NewRequest("POST", "/v1/bulk", nil))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req := &limit.Request{}
		for pb.Next() {
			set.Match(launch, route, c, req)
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	set := publicAPI(b)
	r := &http.Request{Method: "GET", Host: "api.example.com", URL: httptest.NewRequest("GET", "/v1/labels", nil).URL}
	if set.Route(r).ID != "labels" {
		b.Fatal("want the class labels")
	}
	b.ReportAllocs()
	for b.Loop() {
		set.Route(r)
	}
}
