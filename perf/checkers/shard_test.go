package checkers

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// shardLogins is how many logins each worker sends while a shard hangs.
const shardLogins = 40

// One shard that hangs behind a checker fails the asks of its own keys alone: the
// checker says so in time, and the gateway goes on asking it.
func TestDeadShardLeavesTheCheckerInUse(t *testing.T) {
	redis := envtest.RedisCluster(t, testenv.RedisClusterConfig{})
	rules := file(t, "rules.yaml", leasedRules)
	// Timeouts that no stall of this machine reaches, in the order of the usual ones.
	c := start(t, "checker", "--rules", rules, "--store", "redis://"+strings.Join(redis.Addresses(), ","), "--store-timeout=250ms", "--region-pods=2")
	g := gatewayOver(t, rules, "http://"+c.api.String(), "--checker-timeout=1s", "--region-pods=2")
	by := newCaller(t)
	node := redis.Nodes()[0]
	dead, alive := usersOf(t, redis, node, true), usersOf(t, redis, node, false)
	for _, user := range []string{dead[0], alive[0]} {
		poll(t, "the checker decides", func() bool { return by.login(g, user) == http.StatusOK })
	}
	if err := node.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = node.Thaw() }()
	var group sync.WaitGroup
	for w := range 3 {
		group.Go(func() {
			for i := range shardLogins {
				if status := by.login(g, alive[(w+i)%len(alive)]); status != http.StatusOK {
					t.Errorf("a login of another shard: %d", status)
				}
			}
		})
	}
	group.Go(func() {
		for i := range shardLogins {
			if status := by.login(g, dead[i%len(dead)]); status != http.StatusServiceUnavailable {
				t.Errorf("a login of the shard that hangs: %d", status)
			}
		}
	})
	group.Wait()
	m := g.scrape()
	if n := m.sum(t, "shiplane_store_breaker_transitions_total"); n > 0 {
		t.Errorf("the breaker of the checker changed %.0f times", n)
	}
	unanswered := m.sum(t, "shiplane_store_call_duration_seconds_count", `outcome="store_timeout"`) + m.sum(t, "shiplane_store_call_duration_seconds_count", `outcome="store_unavailable"`)
	if unanswered != shardLogins {
		t.Errorf("the checker said of %.0f asks that its store did not answer, want %d", unanswered, shardLogins)
	}
	if err := node.Thaw(); err != nil {
		t.Fatal(err)
	}
	poll(t, "the shard decides again", func() bool { return by.login(g, dead[0]) == http.StatusOK })
}

// usersOf returns names of users that a node counts, or that others count.
func usersOf(t *testing.T, redis *testenv.RedisCluster, node *testenv.Node, its bool) (names []string) {
	t.Helper()
	for i := 0; len(names) < 10; i++ {
		name := fmt.Sprint("user", i)
		subject, err := limit.NewSubject(ruleset.DomainDefault, limit.User, name)
		if err != nil {
			t.Fatal(err)
		}
		at, err := redis.PrimaryOf(t.Context(), redis.SlotOf(rediscluster.Key(subject)))
		if err != nil {
			t.Fatal(err)
		}
		if (at == node) == its {
			names = append(names, name)
		}
	}
	return names
}
