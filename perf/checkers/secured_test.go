package checkers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// leasedRules lend some tokens ahead of an account that comes often.
const leasedRules = `
plans: [{id: big}]
routes: [{id: login, match: "POST /v1/login", user_field: username}]
rules:
  - {id: account, plan: big, identity: api_key, algorithm: token_bucket, rate: 1000/s, burst: 10000}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 1000, window: 1h, fail_mode: closed}
`

// A gateway shows a checker a certificate and a token, takes a new token over without a
// restart, is counted among the pods of the region, and as it ends hands back what it
// holds.
func TestSecuredCheckerIsUsedAsAStore(t *testing.T) {
	dir := t.TempDir()
	redis := envtest.Redis(t, testenv.RedisConfig{TLS: true, Dir: dir}) // its certificate serves all: it is for 127.0.0.1
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	rules := file(t, "rules.yaml", leasedRules)
	tokens, token := file(t, "tokens", "the-token-of-all-pods\n"), file(t, "token", "the-token-of-yesterday\n")
	c := start(t, "checker", "--rules", rules, "--store", "rediss://"+redis.Nodes()[0].Address(), "--store-ca", ca, "--store-timeout=1s",
		"--tls-cert", cert, "--tls-key", key, "--client-ca", ca, "--pod-token-file", tokens)
	g := gatewayOver(t, rules, "https://"+c.api.String(), "--checker-timeout=1s", "--checker-ca", ca, "--checker-cert", cert, "--checker-key", key, "--checker-token-file", token)
	by := newCaller(t)
	if status := by.login(g, "early"); status != http.StatusServiceUnavailable {
		t.Errorf("a login with an old token: %d", status)
	}
	if n := g.scrape().sum(t, "shiplane_store_call_duration_seconds_count", `outcome="auth"`); n == 0 {
		t.Error("no ask was refused for its token")
	}
	if err := os.WriteFile(token+".new", []byte("the-token-of-all-pods\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(token+".new", token); err != nil {
		t.Fatal(err)
	}
	seen := 0
	poll(t, "the new token is used", func() bool { seen++; return by.login(g, fmt.Sprint("user-", seen)) == http.StatusOK })
	for _, p := range []*program{c, g} {
		poll(t, "both pods are counted", func() bool { return p.scrape().sum(t, "shiplane_store_region_pods") == 2 })
	}
	held := 0.0
	poll(t, "the gateway holds tokens", func() bool {
		for range 20 {
			if status := by.ask(g, "often"); status != http.StatusOK {
				t.Errorf("a request under the limit: %d", status)
			}
		}
		held = g.scrape().sum(t, "shiplane_gateway_held_tokens")
		return held > 0
	})
	before := c.scrape().sum(t, "shiplane_store_call_duration_seconds_count", `outcome="ok"`)
	g.end()
	if after := c.scrape().sum(t, "shiplane_store_call_duration_seconds_count", `outcome="ok"`); after == before {
		t.Errorf("a gateway that held %.0f tokens gave none back", held)
	}
}
