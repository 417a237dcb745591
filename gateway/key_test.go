package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// sharedStore is a Redis, and the flags that have a gateway count in it.
func sharedStore(t *testing.T) []string {
	t.Helper()
	return []string{"--store", envtest.Redis(t, testenv.RedisConfig{}).URL(), "--store-timeout", "1s"}
}

// gateway key tells what requests have been charged, under the overrides that
// apply, and names the hottest callers of a shared store.
func TestKeyTellsWhatTheStoreHolds(t *testing.T) {
	files, counts := checked(t), sharedStore(t)
	shared := slices.Concat(files, counts)
	g := start(t, http.HandlerFunc(echo), slices.Concat(files, counts)...)
	poll(t, "the store answers: a request is decided by it", func() bool {
		return g.do(http.MethodGet, "/v1/items/1", "", "X-Api-Key", "big-1").StatusCode == http.StatusOK &&
			g.metric(`shiplane_gateway_requests_total{decided_by="store",verdict="allowed"}`) != ""
	})
	for range 3 {
		g.do(http.MethodPost, "/v1/login", `{"username": "Ada"}`, "X-Api-Key", "big-1", "Content-Type", "application/json").want(t, http.StatusOK, "")
	}

	read := func(args ...string) (view keyView) {
		out, _ := printed(t, 0, slices.Concat([]string{"key"}, shared, args, []string{"--json"})...)
		if err := json.Unmarshal([]byte(out), &view); err != nil {
			t.Fatal(err)
		}
		return view
	}
	counters := map[string]counterView{}
	for _, c := range read("--account", "acct_big-1").Counters {
		counters[c.Rule] = c
	}
	if c := counters["big-global"]; !c.Used || c.Limit != "500/s burst 1000" || c.Of != "100/s burst 200" || c.Tokens == nil || *c.Tokens > 1000 || c.TTLMS <= 0 {
		t.Errorf("the account's bucket: %+v", c)
	}
	if c := counters["big-daily"]; !c.Used || c.Count < 4 || c.Remaining != 10_000-c.Count {
		t.Errorf("the day's quota after at least 4 requests: %+v", c)
	}
	if c := counters["small-global"]; c.Used || c.Remaining != 20 {
		t.Errorf("the bucket of another plan: %+v", c)
	}
	logins := read("--user", " ADA")
	if len(logins.Counters) != 1 || logins.Counters[0].Count != 3 || len(logins.Counters[0].Attempts) != 3 || logins.Counters[0].Remaining != 17 {
		t.Errorf("three logins: %+v", logins)
	}
	text, _ := printed(t, 0, slices.Concat([]string{"key"}, shared, []string{"--user", "ada"})...)
	if !strings.Contains(text, "3 counted in 3 attempts") {
		t.Errorf("in words:\n%s", text)
	}

	r, err := http.NewRequest(http.MethodGet, g.admin+"/debug/top", nil)
	if err != nil {
		t.Fatal(err)
	}
	var top topView
	if err := json.Unmarshal([]byte(send(t, http.DefaultTransport, r).body), &top); err != nil {
		t.Fatal(err)
	}
	has := func(subject, rule string) bool {
		return slices.ContainsFunc(top.Keys, func(l topLine) bool {
			return l.Subject == subject && slices.Contains(l.Rules, rule) && l.Calls > 0
		})
	}
	if !has("public-api/account:acct_big-1", "big-global") || !has("public-api/user:ada", "login-user") {
		t.Errorf("the callers that the store was called for are %+v", top.Keys)
	}
}

// What is wrong with a command line is said by flag, before any store is asked.
func TestKeyFaults(t *testing.T) {
	files := checked(t)
	redis := append(slices.Clone(files), "--store", "redis://127.0.0.1:1")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"counters in memory", append(slices.Clone(files), "--account", "a"), 2, "--store"},
		{"nobody", redis, 2, "0 are given"},
		{"two", append(slices.Clone(redis), "--account", "a", "--ip", "192.0.2.1"), 2, "2 are given"},
		{"no address", append(slices.Clone(redis), "--ip", "nowhere"), 2, `--ip "nowhere"`},
		{"no plan", append(slices.Clone(redis), "--account", "a", "--plan", "huge"), 2, `--plan "huge"`},
		{"no store", append(slices.Clone(redis), "--account", "a"), 1, "store unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, said := printed(t, c.code, append([]string{"key"}, c.args...)...); !strings.Contains(said, c.says) {
				t.Errorf("it says %q, want %q in it", said, c.says)
			}
		})
	}
}
