package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

const (
	// patience bounds what happens soon unless it is broken.
	patience = 40 * time.Second
	// glance is how long a test looks for what must not come.
	glance = 50 * time.Millisecond
	// nodeTimeout is short, so that a failover takes a few seconds.
	nodeTimeout = time.Second
)

// A cluster of 3 primaries and 3 replicas forms, each in its place, and Close
// leaves nothing of it: no process, no file, no port.
func TestClusterFormsAndLeavesNothing(t *testing.T) {
	ctx, start := limit(t), time.Now()
	c, err := testenv.StartRedisCluster(ctx, testenv.RedisClusterConfig{Replicas: 1, NodeTimeout: nodeTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Logf("formed in %v", time.Since(start))
	roles, err := c.Topology(ctx)
	if err != nil {
		t.Fatal(err)
	}
	nodes := c.Nodes()
	want := []testenv.Role{
		{Node: nodes[0], Slots: []testenv.SlotRange{{First: 0, Last: 5460}}},
		{Node: nodes[1], Slots: []testenv.SlotRange{{First: 5461, Last: 10921}}},
		{Node: nodes[2], Slots: []testenv.SlotRange{{First: 10922, Last: 16383}}},
		{Node: nodes[3], Primary: nodes[0]},
		{Node: nodes[4], Primary: nodes[1]},
		{Node: nodes[5], Primary: nodes[2]},
	}
	for i := range want {
		if g, w := fmt.Sprint(roles[i]), fmt.Sprint(want[i]); g != w {
			t.Errorf("role %d is %s, want %s", i, g, w)
		}
	}
	for _, n := range nodes {
		if got := setting(ctx, t, n, "cluster-node-timeout"); got != "1000" {
			t.Errorf("%s: cluster-node-timeout is %s, want 1000", n.Name(), got)
		}
		if got := setting(ctx, t, n, "cluster-replica-no-failover"); got != "no" {
			t.Errorf("%s: cluster-replica-no-failover is %s, want no", n.Name(), got)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		if err := syscall.Kill(n.PID(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", n.PID(), err)
		}
		if _, err := net.Dial("tcp", n.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling %s: %v", n.Address(), err)
		}
	}
	if _, err := os.Stat(c.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", c.Dir(), err)
	}
}

// What a killed primary held is served by its replica once that is promoted,
// others' slots are served meanwhile, and the dead one comes back as a replica
// on its old address.
func TestDeadPrimaryIsReplaced(t *testing.T) {
	ctx := limit(t)
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{Replicas: 1, NodeTimeout: nodeTimeout})
	slot := c.SlotOf("key")
	primary := primaryOf(ctx, t, c, slot)
	mustBe(t, "OK", primary.Do(ctx, "SET", "key", "value"))
	mustBe(t, "1", primary.Do(ctx, "WAIT", "1", "0"))
	address := primary.Address()
	primary.Kill()
	if _, err := c.PrimaryOf(ctx, slot); !errors.Is(err, testenv.ErrNobody) {
		t.Errorf("primary of a dead one's slot: %v, want %v", err, testenv.ErrNobody)
	}
	for _, n := range c.Nodes()[:3] {
		if n != primary {
			mustBe(t, "cluster_state:ok", line(n.Do(ctx, "CLUSTER", "INFO"), "cluster_state"))
		}
	}
	start := time.Now()
	promoted, err := c.WaitPrimaryOf(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("promoted after %v at a node timeout of %v", time.Since(start), nodeTimeout)
	mustBe(t, "value", promoted.Do(ctx, "GET", "key"))
	healthy(ctx, t, c)

	if err := primary.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	healthy(ctx, t, c)
	replicas, err := c.ReplicasOf(ctx, promoted)
	if err != nil || !slices.Equal(replicas, []*testenv.Node{primary}) || primary.Address() != address {
		t.Errorf("replicas of the new primary: %v, %v; want the old one at %s", replicas, err, address)
	}
}

// A frozen server accepts connections and answers nothing; what it was sent is
// executed when it thaws.
func TestFrozenServerAnswersLater(t *testing.T) {
	ctx := limit(t)
	n := envtest.Redis(t, testenv.RedisConfig{}).Nodes()[0]
	if err := n.Freeze(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	if err := n.Do(short, "INCR", "counter").Error(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server answered: %v", err)
	}
	if n.Running() {
		t.Error("a frozen server counts as running")
	}
	client, err := net.Dial("tcp", n.Address())
	if err != nil {
		t.Errorf("a frozen server refused: %v", err)
	} else {
		client.Close()
	}
	if err := n.Thaw(); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "2", n.Do(ctx, "INCR", "counter"))
}

// A slot stays in the migrating state for as long as a test wants, with the
// answers that clients get then, and ends at its new primary with all its keys.
func TestSlotMigratesStepByStep(t *testing.T) {
	ctx := limit(t)
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{Primaries: 2, RedisConfig: testenv.RedisConfig{
		TLS: true, Users: []testenv.User{{Name: "app", Password: "s p>#"}},
	}})
	from, to := c.Nodes()[0], c.Nodes()[1]
	tag := "{tag}"
	if primaryOf(ctx, t, c, c.SlotOf(tag)) != from {
		from, to = to, from
	}
	for i := range 5 {
		mustBe(t, "OK", from.Do(ctx, "SET", fmt.Sprint(tag, i), "value"))
	}
	m, err := c.Migrate(ctx, c.SlotOf(tag), to)
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := m.MoveKeys(ctx, 3); moved != 3 || err != nil {
		t.Fatalf("%d keys moved, %v, want 3", moved, err)
	}
	there, err := from.Do(ctx, "CLUSTER", "GETKEYSINSLOT", fmt.Sprint(c.SlotOf(tag)), "9").AsStrSlice()
	if err != nil || len(there) != 2 {
		t.Fatalf("the source has %q, %v, want 2 keys", there, err)
	}
	mustBe(t, "value", from.Do(ctx, "GET", there[0]))
	mustFail(t, "ASK", from.Do(ctx, "GET", tag+"new"))
	mustFail(t, "MOVED", to.Do(ctx, "GET", there[0]))
	mustFail(t, "TRYAGAIN", from.Do(ctx, "MGET", there[0], tag+"new"))
	if err := m.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	healthy(ctx, t, c)
	if got := primaryOf(ctx, t, c, c.SlotOf(tag)); got != to {
		t.Errorf("the slot is %s's, want %s's", got.Name(), to.Name())
	}
	mustBe(t, "5", to.Do(ctx, "CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(c.SlotOf(tag))))
	mustFail(t, "MOVED", from.Do(ctx, "GET", tag+"0"))
	if _, err := c.Migrate(ctx, c.SlotOf(tag), to); err == nil {
		t.Error("a slot migrated to its own primary")
	}
	// A client from outside gets there by the URL alone: password, TLS, redirection.
	mustBe(t, "value", get(ctx, t, c.Redis, c.URL(), tag+"0"))
}

// A hand-over makes the replica the primary, and the primary its replica.
func TestFailoverHandsOver(t *testing.T) {
	ctx := limit(t)
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{Replicas: 1, NodeTimeout: nodeTimeout})
	primary, replica := c.Nodes()[0], c.Nodes()[3]
	if err := c.Failover(ctx, replica); err != nil {
		t.Fatal(err)
	}
	healthy(ctx, t, c)
	if got := primaryOf(ctx, t, c, 0); got != replica {
		t.Errorf("slot 0 is %s's, want %s's", got.Name(), replica.Name())
	}
	mustBe(t, "slave", line(primary.Do(ctx, "INFO", "replication"), "role:")[len("role:"):])
}

// Clients of a proxied cluster reach it through the proxies only, also after
// they have asked it for its nodes: so every fault of a wire hits them.
func TestProxiesStandBeforeTheNodes(t *testing.T) {
	ctx := limit(t)
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{Replicas: 1, NodeTimeout: nodeTimeout, RedisConfig: testenv.RedisConfig{
		Address: "127.0.1.1", Proxied: true,
	}})
	n := primaryOf(ctx, t, c, c.SlotOf("key"))
	client := connect(t, c.Redis, c.URL())
	for address := range client.Nodes() {
		if !slices.Contains(c.Addresses(), address) {
			t.Errorf("the cluster names %s, which is none of its proxies %v", address, c.Addresses())
		}
	}
	ask := func(ctx context.Context) error {
		return client.Do(ctx, client.B().Set().Key("key").Value("value").Build()).Error()
	}
	if err := ask(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Proxy().Set(tcpproxy.Faults{Silent: true}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, glance)
	defer cancel()
	if err := ask(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("through a silent proxy came %v, want %v", err, context.DeadlineExceeded)
	}
	if err := n.Proxy().Set(tcpproxy.Faults{}); err != nil {
		t.Fatal(err)
	}
	if err := ask(ctx); err != nil {
		t.Errorf("after the silence: %v", err)
	}
	n.Kill()
	if _, err := net.Dial("tcp", n.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling the proxy of a dead node: %v, want %v", err, syscall.ECONNREFUSED)
	}
	if err := n.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	healthy(ctx, t, c)
	mustBe(t, "PONG", n.Do(ctx, "PING"))
}

// Only users that were named get in, with what they may do, and a password can
// change while servers run.
func TestUsersSignIn(t *testing.T) {
	ctx := limit(t)
	r := envtest.Redis(t, testenv.RedisConfig{Users: []testenv.User{{Name: "app", Password: "old", Rules: "~app:* +@all"}}})
	mustBe(t, "", get(ctx, t, r, r.URL(), "app:key"))
	if got := get(ctx, t, r, r.URL(), "other"); !strings.Contains(got, "NOPERM") {
		t.Errorf("a key out of bounds: %q", got)
	}
	if got := get(ctx, t, r, strings.Replace(r.URL(), "app:old@", "", 1), "app:key"); !strings.Contains(got, "NOAUTH") {
		t.Errorf("without a name: %q", got)
	}
	if err := r.SetUser(ctx, testenv.User{Name: "app", Password: "new"}); err != nil {
		t.Fatal(err)
	}
	if got := get(ctx, t, r, r.URL(), "app:key"); !strings.Contains(got, "WRONGPASS") {
		t.Errorf("with the old password: %q", got)
	}
	mustBe(t, "", get(ctx, t, r, strings.Replace(r.URL(), "app:old@", "app:new@", 1), "other"))
}

// A server that does not start is an error that shows why, and leaves nothing.
func TestFailedStartShowsTheLog(t *testing.T) {
	_, err := testenv.StartRedis(limit(t), testenv.RedisConfig{Config: map[string]string{"no-such-directive": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("got %v, want what redis-server says about no-such-directive", err)
	}
	_, err = testenv.StartRedis(limit(t), testenv.RedisConfig{Command: []string{"no-such-server"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-server") {
		t.Errorf("got %v, want the name of the program", err)
	}
}

// A configured directive wins, and an operator's stop and restart keep the address.
func TestStoppedServerStartsAgain(t *testing.T) {
	ctx := limit(t)
	n := envtest.Redis(t, testenv.RedisConfig{Config: map[string]string{"maxmemory": "7mb"}}).Nodes()[0]
	mustBe(t, "OK", n.Do(ctx, "SET", "key", "value"))
	if err := n.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "0", n.Do(ctx, "DBSIZE"))
	if got := setting(ctx, t, n, "maxmemory"); got != "7340032" {
		t.Errorf("maxmemory is %s, want 7340032", got)
	}
}

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func healthy(ctx context.Context, t *testing.T, c *testenv.RedisCluster) {
	t.Helper()
	if err := c.WaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
}

func primaryOf(ctx context.Context, t *testing.T, c *testenv.RedisCluster, slot int) *testenv.Node {
	t.Helper()
	n, err := c.PrimaryOf(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func setting(ctx context.Context, t *testing.T, n *testenv.Node, name string) string {
	t.Helper()
	pair, err := n.Do(ctx, "CONFIG", "GET", name).AsStrSlice()
	if err != nil || len(pair) != 2 {
		t.Fatalf("config get %s: %q, %v", name, pair, err)
	}
	return pair[1]
}
