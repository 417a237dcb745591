package gateway

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/counters"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

// TestFirstRequestsFindTheStore: a gateway that says it is ready can decide rules
// that fail closed, however far away the store is.
func TestFirstRequestsFindTheStore(t *testing.T) {
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{RedisConfig: testenv.RedisConfig{Proxied: true}})
	for _, n := range c.Nodes() {
		if err := n.Proxy().Set(tcpproxy.Faults{Delay: 20 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	g := start(t, echoes, "--store", "redis://"+c.Addresses()[0], "--store-timeout=1s")
	poll(t, "the gateway is ready", g.ready)
	if took := time.Since(begin); took >= counters.Patience {
		t.Skipf("this machine needed %v to connect: the gateway waited no longer", took)
	}
	for _, name := range []string{"ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal"} { // on all shards
		if got := g.login(name); got != http.StatusOK {
			t.Errorf("the first login of %s: %d", name, got)
		}
	}
}

// TestAbsentStoreLetsAGatewayBeReady: without a store a gateway gets ready, and
// decides by fail mode.
func TestAbsentStoreLetsAGatewayBeReady(t *testing.T) {
	g := start(t, echoes, "--store=redis://127.0.0.1:1")
	poll(t, "the gateway is ready", g.ready)
	if got := g.login("ann"); got != http.StatusServiceUnavailable {
		t.Errorf("a login without a store: %d", got)
	}
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, http.StatusOK, "")
}

// TestChangedStorePasswordHeals: a store's password changes and its connections are
// cut. Closed rules answer 503 until the file holds the new one, then they decide
// again, without a restart.
func TestChangedStorePasswordHeals(t *testing.T) {
	app := testenv.User{Name: "app", Password: "first"}
	r := envtest.Redis(t, testenv.RedisConfig{Proxied: true, Users: []testenv.User{app}})
	file := filepath.Join(t.TempDir(), "password")
	write := func() {
		if err := os.WriteFile(file, []byte(app.Password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	n := r.Nodes()[0]
	g := start(t, echoes, "--store", "redis://"+n.Address(), "--store-user", app.Name, "--store-password-file", file, "--store-timeout=1s")
	poll(t, "the store decides", func() bool { return g.login("ann") == http.StatusOK })
	app.Password = "second"
	if err := r.SetUser(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	if got := g.login("bob"); got != http.StatusOK {
		t.Errorf("while it is signed in, a login is %d", got)
	}
	n.Proxy().Cut()
	poll(t, "the old password is refused", func() bool { return g.login("cid") == http.StatusServiceUnavailable })
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, http.StatusOK, "")
	write()
	poll(t, "the new one is used", func() bool { return g.login("dan") == http.StatusOK })
}

// ready reports what /readyz says.
func (g *running) ready() bool {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.admin+"/readyz", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
