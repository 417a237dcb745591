package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// The limit that two gateways hold together, and how long they are loaded.
const (
	sharedRate  = 40 // a second: little, for all of this may run under the race detector
	sharedBurst = 80
	sharedLoad  = 10 * time.Second
)

const sharedRules = `
plans: [{id: small}, {id: big}]
routes:
  - {id: login, match: "POST /v1/login", user_field: username}
rules:
  - {id: big-global, plan: big, identity: api_key, algorithm: token_bucket, rate: 40/s, burst: 80}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 1000, window: 1h, fail_mode: closed}
`

// startPair starts two gateways of one region on a cluster.
func startPair(t *testing.T, c *testenv.RedisCluster) (pair [2]*running) {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "shared.yaml")
	replace(t, rules, sharedRules)
	for i := range pair {
		pair[i] = start(t, echoes, "--rules", rules, "--store", "redis://"+strings.Join(c.Addresses(), ","),
			"--store-timeout=1s", // a busy machine is no outage
			"--pod-id", fmt.Sprint("gateway-", i), "--region-pods=2")
	}
	for _, g := range pair {
		poll(t, "the store decides logins", func() bool { return g.login("nobody") == http.StatusOK })
	}
	return pair
}

// login returns the status of a login, which is 503 while the store is away.
func (g *running) login(username string) int {
	g.t.Helper()
	return g.do("POST", "/v1/login", fmt.Sprintf(`{"username":%q}`, username), "Content-Type", "application/json").StatusCode
}

// TestTwoGatewaysHoldOneLimit: offered one and a half times the limit each, for 10
// seconds, two gateways admit together what the limit gives, and not a request more.
// A tenth less is enough here: a full bucket does not fill while the machine stalls. How
// near they come is for the simulator to say.
func TestTwoGatewaysHoldOneLimit(t *testing.T) {
	pair := startPair(t, envtest.RedisCluster(t, testenv.RedisClusterConfig{}))
	by := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(by.CloseIdleConnections)
	var admitted, refused atomic.Int64
	begin := time.Now()
	var load sync.WaitGroup
	for _, g := range pair {
		load.Go(func() {
			offer(sharedLoad, time.Second/(sharedRate*3/2), func() {
				switch status := g.ask(by); status {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("status %d", status)
				}
			})
		})
	}
	load.Wait()
	most := sharedBurst + sharedRate*time.Since(begin).Seconds()
	least := 0.9 * (sharedBurst + sharedRate*sharedLoad.Seconds())
	for _, g := range pair { // what the store was too slow to count, on a machine that is short of time
		if n := g.metric(`shiplane_gateway_requests_total{decided_by="fallback",verdict="allowed"}`); n != "" {
			fallback, err := strconv.ParseFloat(n, 64)
			if err != nil {
				t.Fatal(err)
			}
			most += fallback
		}
	}
	t.Logf("admitted %d, refused %d: want %.0f to %.0f", admitted.Load(), refused.Load(), least, most)
	if got := float64(admitted.Load()); got > most || got < least {
		t.Errorf("admitted %.0f, want %.0f to %.0f", got, least, most)
	}
}

// offer calls do every so often, on a goroutine of its own, for d, and waits for
// the calls.
func offer(d, every time.Duration, do func()) {
	var calls sync.WaitGroup
	defer calls.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	begin := time.Now()
	for due := time.Duration(0); due < d; <-tick.C {
		for ; due < d && due <= time.Since(begin); due += every {
			calls.Go(do)
		}
	}
}

// ask sends a request of key big-1 and returns the answer's status, 0 without one.
func (g *running) ask(by http.RoundTripper) int {
	r, err := http.NewRequest(http.MethodGet, g.api+"/v1/labels", nil)
	if err != nil {
		return 0
	}
	r.Header.Set("X-Api-Key", "big-1")
	response, err := by.RoundTrip(r)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

// TestDeadPrimaryLeavesReadyzAlone: while a primary is dead, and after a replica
// has taken over, a gateway stays ready: it serves by its fail modes, so open rules
// admit and a closed one answers 503 until it is decided again.
func TestDeadPrimaryLeavesReadyzAlone(t *testing.T) {
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{Replicas: 1, NodeTimeout: time.Second})
	pair := startPair(t, c)
	node, username := victim(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	for _, g := range pair {
		watch.Go(func() { g.watchReady(ctx) })
	}
	t.Cleanup(watch.Wait)
	t.Cleanup(cancel)
	for _, g := range pair {
		if status := g.login(username); status != http.StatusOK {
			t.Fatalf("a login before the outage: %d", status)
		}
	}
	node.Kill()
	for _, g := range pair {
		poll(t, "logins are unavailable", func() bool { return g.login(username) == http.StatusServiceUnavailable })
		if status := g.ask(http.DefaultTransport); status != http.StatusOK {
			t.Errorf("an open rule: %d", status)
		}
	}
	for _, g := range pair {
		poll(t, "logins are decided again", func() bool { return g.login(username) == http.StatusOK })
	}
}

// victim finds the primary that counts the account of key big-1, and a user name
// whose logins it counts too.
func victim(t *testing.T, c *testenv.RedisCluster) (*testenv.Node, string) {
	t.Helper()
	primary := func(kind limit.Kind, id string) *testenv.Node {
		s, err := limit.NewSubject(ruleset.DomainDefault, kind, id)
		if err != nil {
			t.Fatal(err)
		}
		n, err := c.PrimaryOf(t.Context(), c.SlotOf(rediscluster.Key(s)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	node := primary(limit.Account, "acct_big-1")
	for i := 0; ; i++ {
		if name := fmt.Sprint("user", i); primary(limit.User, name) == node {
			return node, name
		}
	}
}

// watchReady checks all the time that the gateway is ready.
func (g *running) watchReady(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.admin+"/readyz", nil)
		if err != nil {
			g.t.Error(err)
			return
		}
		response, err := http.DefaultTransport.RoundTrip(r)
		if ctx.Err() != nil {
			return
		}
		if err != nil || response.StatusCode != http.StatusOK {
			g.t.Errorf("/readyz: %v, %v", response, err)
			return
		}
		response.Body.Close()
	}
}
