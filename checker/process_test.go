package checker

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// A checker that ends under load loses no call of clients who go by /readyz, as load
// balancers do: whatever was sent is answered, by every protocol.
func TestDrainLosesNoRequest(t *testing.T) {
	s := start(t, "--drain-delay=1s", "--rules", file(t, "rules.yaml", strings.ReplaceAll(testRules, "1/d, burst: 200", "1000000/s, burst: 1000000")))
	var answered atomic.Int64
	var unready atomic.Bool
	calls := s.callers()
	var group sync.WaitGroup
	for _, name := range []string{"connect", "connect json", "grpc-web", "native grpc"} {
		for n := range 4 {
			group.Go(func() {
				for !unready.Load() {
					if _, err := calls[name](t.Context(), "growth-global", fmt.Sprint(name, n)); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					answered.Add(1)
				}
			})
		}
	}
	poll(t, "calls are answered", func() bool { return answered.Load() > 500 })
	s.stop()
	poll(t, "it is not ready any more", func() bool {
		return s.do(http.MethodGet, s.admin+"/readyz", "").StatusCode == http.StatusServiceUnavailable
	})
	before := answered.Load()
	poll(t, "calls are answered while it drains", func() bool { return answered.Load() > before+100 })
	unready.Store(true)
	group.Wait()
}

// A call whose deadline has passed before it is looked at charges nobody.
func TestPassedDeadlineChargesNobody(t *testing.T) {
	s := start(t)
	client := checkv1.NewCheckServiceClient(http.DefaultClient, s.api)
	a := s.do(http.MethodPost, s.api+checkv1.CheckServiceCheckProcedure, `{"domain": "public-api", "entries": [{"rule": "labels-route", "key": "a"}]}`,
		"Content-Type", "application/json", "Connect-Protocol-Version", "1", "Connect-Timeout-Ms", "0")
	a.want(t, http.StatusGatewayTimeout, "deadline_exceeded")
	got, err := client.Check(t.Context(), checkOf("labels-route", "a"))
	if err != nil || got.GetEntries()[0].GetRemaining() != 2 {
		t.Errorf("somebody was charged: %v, %v", got, err)
	}
}

// Each rule file is a domain of its own, and a rule is counted by domain; the domain
// that there is none of is named.
func TestSeveralDomains(t *testing.T) {
	other := "domain: partners\n" + testRules
	s := start(t, "--rules", file(t, "a.yaml", testRules)+","+file(t, "b.yaml", other))
	for _, domain := range []string{"public-api", "partners"} {
		s.check(strings.Replace(seedRequest, "public-api", domain, 1)).want(t, http.StatusOK, `"remaining":199`)
		s.do(http.MethodGet, s.admin+"/metrics", "").want(t, http.StatusOK, fmt.Sprintf(`shiplane_checker_rule_decisions_total{domain=%q,rule="labels-route",verdict="allowed"} 1`, domain))
	}
	s.check(strings.Replace(seedRequest, "public-api", "nowhere", 1)).want(t, http.StatusNotFound, `domain \"nowhere\"`)
	var stderr bytes.Buffer
	if code := Main([]string{"--listen=127.0.0.1:0", "--rules", file(t, "c.yaml", other) + "," + file(t, "d.yaml", other)}, &stderr, &stderr); code != 2 || !strings.Contains(stderr.String(), `has the domain "partners", as another file has`) {
		t.Errorf("two files of one domain: %d, %s", code, &stderr)
	}
}

// Rules of a service that was not heard yet decide nothing: the checker is not ready,
// and answers 503.
func TestRulesThatWereNotHadYet(t *testing.T) {
	s := start(t, "--rules=http://127.0.0.1:1", "--domains=public-api,partners")
	s.do(http.MethodGet, s.admin+"/readyz", "").want(t, http.StatusServiceUnavailable, "domain ")
	s.check(seedRequest).want(t, http.StatusServiceUnavailable, `"code":"rules_unavailable"`)
	_, err := nativeCaller(s.native())(t.Context(), "growth-global", "acct")
	wantError(t, err, codes.Unavailable, "the rules were not had yet")
	if a := detailOf(err); a != nil {
		t.Errorf("an answer without rules: %v", a)
	}
	s.do(http.MethodGet, s.admin+"/metrics", "").want(t, http.StatusOK, `shiplane_checker_rules_silence_seconds{domain="partners"}`)
}

// In shadow everybody is admitted, and what would have been refused is counted.
func TestShadowAdmitsAll(t *testing.T) {
	s := start(t, "--mode=shadow")
	for range 4 {
		s.check(seedRequest).want(t, http.StatusOK, `"verdict":"allow"`)
	}
	s.do(http.MethodGet, s.admin+"/metrics", "").want(t, http.StatusOK, `shiplane_checker_shadow_decisions_total{domain="public-api",rule="labels-route",verdict="would_deny"} 1`)
}

// All that is wrong with a command line is said at once, with exit code 2.
func TestBadCommandLinesExitWith2(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--nonsense"}, []string{"unknown flag --nonsense"}},
		{nil, []string{`--rules "": is missing`}},
		{
			[]string{"--rules=a,a", "--listen=0.0.0.0:8081", "--grpc-listen=:8085", "--admin=x", "--mode=on", "--store-timeout=2s", "--tls-cert=x", "--allowed-origins=*,x", "--drain-delay=soon", "--ipv6-prefix=1"},
			[]string{`--rules "a": stands there twice`, `--listen "0.0.0.0:8081": could be called by everybody`, `--grpc-listen ":8085": could be`, `--admin "x"`, "--mode", "--store-timeout", "--tls-cert", `--allowed-origins "x"`, "--drain-delay", "--ipv6-prefix"},
		},
		{[]string{"--rules=http://user:hunter2@a", "--domains=public-api,?"}, []string{"must not hold a user or password", `--domain "?"`}},
		{[]string{"--rules=/nonexistent", "--token-file=/nonexistent"}, []string{"--token-file: "}},
		{[]string{"--rules=/nonexistent"}, []string{"--rules: "}},
	} {
		var stderr bytes.Buffer
		if code := Main(c.args, &stderr, &stderr); code != 2 {
			t.Errorf("%q: exit code %d", c.args, code)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%q lacks %q:\n%s", c.args, want, &stderr)
			}
		}
		if strings.Contains(stderr.String(), "hunter2") {
			t.Errorf("%q shows a password:\n%s", c.args, &stderr)
		}
	}
}

// docs/checker.md and --help have the same flags, and every one its variable; every
// metric that is served is explained.
func TestDocumentNamesEveryFlagAndMetric(t *testing.T) {
	document, err := os.ReadFile("../docs/checker.md")
	if err != nil {
		t.Skipf("not in the source tree: %v", err)
	}
	text := string(document)
	var help, stderr bytes.Buffer
	if code := Main([]string{"--help"}, &help, &stderr); code != 0 {
		t.Fatalf("--help: %d, %s", code, &stderr)
	}
	names := func(pattern, text string) (found []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return found
	}
	helped := slices.DeleteFunc(names(`(?m)^(?: {6}|  -[a-z], )--(?:\[no-])?([a-z0-9-]+)`, help.String()), func(name string) bool { return name == "help" })
	if diff := cmp.Diff(helped, names("(?m)^\\| `--([a-z0-9-]+)` \\|", text)); diff != "" {
		t.Errorf("flags (-help +document):\n%s", diff)
	}
	for _, name := range helped {
		if variable := "($SHIPLANE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + ")"; !strings.Contains(help.String(), variable) {
			t.Errorf("--help lacks the variable %s", variable)
		}
	}
	s := start(t)
	s.check(seedRequest)
	served := names(`(?m)^# TYPE (shiplane_\w+)`, s.do(http.MethodGet, s.admin+"/metrics", "").body)
	if len(served) < 10 {
		t.Errorf("%d metrics are served", len(served))
	}
	for _, name := range served {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/checker.md does not explain %s", name)
		}
	}
}

// A checker that has never served says so by an error, and leaves nothing behind.
func TestAddressInUse(t *testing.T) {
	s := start(t)
	cfg := configOf(t, "--listen", s.apiAt, "--grpc-listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--rules", file(t, "rules.yaml", testRules))
	if err := Run(context.Background(), cfg, Output{Stderr: &buffer{}}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v", err)
	}
	if _, err := checkv1.NewCheckServiceClient(http.DefaultClient, s.api, connect.WithProtoJSON()).Check(t.Context(), checkOf("growth-global", "acct")); err != nil {
		t.Errorf("the one that was there: %v", err)
	}
}
