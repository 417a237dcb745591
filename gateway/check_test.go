package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files under testdata")

// checkedRules have a rule of each kind, a free route, and overrides.
const checkedRules = `
plans: [{id: small}, {id: big}]
routes:
  - {id: items, match: ["/v1/items/", "GET shop.example/items"]}
  - {id: bulk, match: "POST /v1/bulk", cost: 10}
  - {id: login, match: "POST /v1/login", user_field: username}
rules:
  - {id: small-global, plan: small, identity: api_key, algorithm: token_bucket, rate: 10/s, burst: 20}
  - {id: big-global, plan: big, identity: api_key, algorithm: token_bucket, rate: 100/s, burst: 200}
  - {id: big-daily, plan: big, identity: api_key, algorithm: fixed_window, limit: 10000, window: 1d}
  - {id: anonymous-ip, plan: anonymous, identity: ip, algorithm: token_bucket, rate: 1/s, burst: 15}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 20, window: 1h, fail_mode: closed}
  - {id: trial, scope: all, identity: ip, algorithm: token_bucket, rate: 50/s, burst: 100, mode: shadow}
overrides:
  - {rule: big-global, key: acct_big-1, rate: 500/s, burst: 1000}
  - {rule: anonymous-ip, key: 192.0.2.7, deny: true}
`

// checked writes the files that check and explain read, and returns their flags.
func checked(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	rules, keys := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "keys.yaml")
	replace(t, rules, checkedRules)
	replace(t, keys, testKeys("small-1", "big-1"))
	return []string{"--rules", rules, "--keys", keys}
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// printed runs a command and returns what it prints.
func printed(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := Main(args, strings.NewReader("big-1\n"), &out, &errs); got != code {
		t.Errorf("gateway %q: exit code %d, want %d: %s", args, got, code, &errs)
	}
	return out.String(), errs.String()
}

// TestCheckPrintsWhatRequestsMeet: every rule, and for each route and plan those that
// a request asks, in their order.
func TestCheckPrintsWhatRequestsMeet(t *testing.T) {
	flags := checked(t)
	text, _ := printed(t, 0, append([]string{"check"}, flags...)...)
	golden(t, "check.txt", strings.ReplaceAll(text, flags[1], "rules.yaml"))
	text, _ = printed(t, 0, append([]string{"check", "--json"}, flags...)...)
	golden(t, "check.json", text)
	var view overview
	if err := json.Unmarshal([]byte(text), &view); err != nil {
		t.Fatal(err)
	}
	if demo, _ := printed(t, 0, "check"); !strings.Contains(demo, "the demo: no faults") {
		t.Errorf("of the demo:\n%s", demo)
	}
}

// TestCheckNamesAllFaults: of flags, rules and keys at once, as the gateway itself
// does at its start.
func TestCheckNamesAllFaults(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		replace(t, path, text)
		return path
	}
	flags := []string{
		"--rules", file("rules.yaml", strings.Replace(checkedRules, "burst: 200", "burst: 2", 1)),
		"--keys", file("keys.yaml", "- {hash: x, account: a, plan: gold}\n"),
		"--jwks", file("jwks.json", "{}"), "--jwt-issuer=me", "--denied-body", file("denied.json", `{"why": "{{.Detail}}"}`),
	}
	wants := []string{"rules[1].burst is 2", "keys[0].hash", "holds no keys", "no valid JSON"}
	_, stderr := printed(t, 2, append([]string{"check"}, flags...)...)
	text, _ := printed(t, 2, append([]string{"check", "--json"}, flags...)...)
	flags = append(flags, "--upstream=http://127.0.0.1:9")
	_, started := printed(t, 2, flags...)
	_, startedBadly := printed(t, 2, append(flags, "--mode=loud")...)
	for _, want := range wants {
		for name, said := range map[string]string{"check": stderr, "check --json": text, "the gateway": started, "the gateway with bad flags": startedBadly} {
			if !strings.Contains(said, want) {
				t.Errorf("%s lacks %q:\n%s", name, want, said)
			}
		}
	}
	if !strings.Contains(startedBadly, `--mode "loud"`) || !strings.Contains(startedBadly, "5 faults") {
		t.Errorf("faults of flags and files:\n%s", startedBadly)
	}
	var view overview
	if err := json.Unmarshal([]byte(text), &view); err != nil || len(view.Faults) != 4 {
		t.Errorf("%d faults, %v", len(view.Faults), err)
	}
}

// TestExplainTellsWhatARequestMeets: limits with their overrides, and the charge.
func TestExplainTellsWhatARequestMeets(t *testing.T) {
	flags := checked(t)
	var all strings.Builder
	for _, args := range [][]string{
		{"POST", "/v1/bulk", "--key", "-"},
		{"POST", "//v1/./bulk", "--account=acct_9", "--plan=small", "--ip=2001:db8:1:2::3", "--ipv6-prefix=48"},
		{"POST", "/v1/login", "--user= Bob"},
		{"POST", "/v1/login", "--json", "--key=small-1"},
		{"get", "http://SHOP.example:80/items", "--ip=192.0.2.7"},
		{"HEAD", "/v1/items/1", "--key=nobody"},
		{"HEAD", "/v1/items/1", "--charge=head"},
		{"GET", "/", "--account=acct_9", "--plan=gold", "--user=bob"},
		{"POST", "/v1/login", "--key=nobody", "--user=bob"},
		{"POST", "/v1/login", "--require-key", "--mode=shadow"},
		{"HEAD", "/v1/login"},
		{"HEAD", "/v1/items/1", "--require-key", "--mode=off", "--account=acct_9", "--plan=small"},
	} {
		text, _ := printed(t, 0, append(append([]string{"explain"}, args...), flags...)...)
		all.WriteString("$ gateway explain " + strings.Join(args, " ") + "\n" + text + "\n")
	}
	golden(t, "explain.txt", all.String())
	for _, args := range [][]string{
		{"GET", "v1"}, {"GET", "/", "--plan=small"}, {"GET", "/", "--key=a", "--account=b"}, {"GET", "/", "--ip=localhost"}, {"GET", "/", "--mode=loud"}, {"GET"},
	} {
		if _, stderr := printed(t, 2, append(append([]string{"explain"}, args...), flags...)...); stderr == "" {
			t.Errorf("%q: no fault is named", args)
		}
	}
}
