package gateway

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReloadOfRulesKeepsBuckets: an edit changes the limit under running traffic,
// refills nothing, and one with a fault changes nothing.
func TestReloadOfRulesKeepsBuckets(t *testing.T) {
	g := start(t, echoes)
	left := func() string {
		a := g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1")
		state, _, _ := strings.Cut(a.Header.Get("RateLimit"), ";t=")
		return state
	}
	revision := func(want string) {
		t.Helper()
		poll(t, "rules of revision "+want, func() bool { return g.metric("shiplane_gateway_rules_revision") == want })
	}
	edit := func(old, with string) string { return strings.Replace(testRules, old, with, 1) }
	stop := traffic(t, g)
	left()
	replace(t, g.rules, edit("burst: 12", "burst: 10"))
	revision("2")
	if got := left(); got != `"small-global";r=9` {
		t.Errorf("after the burst was cut to 10, 11 tokens are clamped and one is spent: %s", got)
	}
	replace(t, g.rules, edit("burst: 12", "burst: 0"))
	poll(t, "the fault is counted", func() bool {
		return g.metric(`shiplane_gateway_reload_failures_total{file="rules"}`) == "1"
	})
	if got := left(); got != `"small-global";r=8` {
		t.Errorf("after an edit with a fault: %s", got)
	}
	replace(t, g.rules, edit("burst: 12", "burst: 100"))
	revision("3")
	if got := left(); got != `"small-global";r=7` {
		t.Errorf("after the burst was raised nothing is refilled: %s", got)
	}
	stop()
	if !strings.Contains(g.log.String(), "rules[0].burst is 0") {
		t.Errorf("the log does not name the fault:\n%s", g.log)
	}
}

// TestReloadOfKeysKeepsBuckets: keys come and go under running traffic, and an
// account keeps what it has used.
func TestReloadOfKeysKeepsBuckets(t *testing.T) {
	g := start(t, echoes)
	stop := traffic(t, g)
	get := func(key string) answer { return g.do("GET", "/v1/items/1", "", "X-Api-Key", key) }
	get("small-1").want(t, 200, "")
	// Who tries a key that is not known yet is limited by address.
	refused := func(key string) bool { code := get(key).StatusCode; return code == 401 || code == 429 }
	get("small-2").want(t, 401, "")
	replace(t, g.keys, testKeys("small-2", "big-1")+
		strings.Replace(testKeys("small-1"), "plan: small", "plan: small, name: renamed", 1))
	poll(t, "the new key works", func() bool { return get("small-2").StatusCode == 200 })
	if got := get("small-1").Header.Get("RateLimit"); !strings.HasPrefix(got, `"small-global";r=10;`) {
		t.Errorf("an account lost its count: %s", got)
	}
	replace(t, g.keys, testKeys("small-3", "gold-1", "big-1"))
	poll(t, "the fault is counted", func() bool {
		return g.metric(`shiplane_gateway_reload_failures_total{file="keys"}`) == "1"
	})
	if !refused("small-3") {
		t.Error("a key of a file with a fault works")
	}
	get("small-2").want(t, 200, "")
	replace(t, g.keys, testKeys("big-1"))
	poll(t, "the old keys are gone", func() bool { return refused("small-2") })
	stop()
}

// TestDroppedPlanDoesNotFreeItsAccounts: they are limited as anonymous callers
// are until the key file follows.
func TestDroppedPlanDoesNotFreeItsAccounts(t *testing.T) {
	g := start(t, echoes)
	g.do("GET", "/", "", "X-Api-Key", "small-1").want(t, 200, "")
	rules := strings.Replace(testRules, "plans: [{id: small}, {id: big}]", "plans: [{id: big}]", 1)
	var kept []string
	for line := range strings.Lines(rules) {
		if !strings.Contains(line, "plan: small") {
			kept = append(kept, line)
		}
	}
	replace(t, g.rules, strings.Join(kept, ""))
	poll(t, "the plan is gone", func() bool { return g.metric("shiplane_gateway_rules_revision") == "2" })
	for range 2 {
		if got := g.do("GET", "/", "", "X-Api-Key", "small-1").Header.Get("RateLimit-Policy"); !strings.HasPrefix(got, `"anonymous-ip"`) {
			t.Errorf("limited by %q", got)
		}
	}
	if n := strings.Count(g.log.String(), "plan=small"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, g.log)
	}
}

// traffic sends requests of big-1 until stop is called; all must be admitted.
func traffic(t *testing.T, g *running) (stop func()) {
	t.Helper()
	var stopped atomic.Bool
	var sent sync.WaitGroup
	sent.Go(func() {
		for range 900 { // of the 1,000 that big-1 has
			if stopped.Load() {
				return
			}
			r, err := http.NewRequest(http.MethodGet, g.api+"/v1/items/1", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Api-Key", "big-1")
			response, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("a request during a reload got %s", response.Status)
			}
		}
	})
	return func() { stopped.Store(true); sent.Wait() }
}
