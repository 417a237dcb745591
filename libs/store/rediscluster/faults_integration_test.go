package rediscluster_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

const (
	patience = 20 * time.Second // for what happens soon unless it is broken
	timeout  = 50 * time.Millisecond
	// stall is what a machine that runs other tests may add to a timeout.
	stall = 500 * time.Millisecond
)

var app = testenv.User{Name: "app", Password: "first"}

// rule is a bucket, login a log: a subject that meets both has two keys.
var (
	rule = &limit.Rule{
		Domain: "test", ID: "bucket", Kind: limit.Account, Algorithm: limit.TokenBucket, Mode: limit.Enforce, FailMode: limit.FailOpen,
		Limit: limit.Limit{Rate: 1000, Burst: 1_000_000}, Tag: limit.TagOf("test", "bucket", limit.TokenBucket),
	}
	login = &limit.Rule{
		Domain: "test", ID: "login", Kind: limit.Account, Algorithm: limit.SlidingLog, Mode: limit.Enforce, FailMode: limit.FailClosed,
		Limit: limit.Limit{Count: 1000, Window: time.Hour}, Tag: limit.TagOf("test", "login", limit.SlidingLog),
	}
)

// take charges a subject 1 under the bucket and, if both, the log.
func take(s *rediscluster.Store, subject limit.Subject, both bool) (store.Result, error) {
	ask := store.Ask{Subject: subject, Entries: []store.Entry{{Rule: rule, Limit: rule.Limit, Need: 1, Want: 1}}}
	if both {
		ask.Entries = append(ask.Entries, store.Entry{Rule: login, Limit: login.Limit, Need: 1, Want: 1, Member: members.Add(1)})
	}
	var result store.Result
	err := s.Take(context.Background(), &ask, &result)
	return result, err
}

var members atomic.Uint64

// observer counts calls by class.
type observer struct {
	mu      sync.Mutex
	classes map[string]int
}

func (o *observer) Call(_, class string, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.classes == nil {
		o.classes = map[string]int{}
	}
	o.classes[class]++
}

func (o *observer) Breaker(string, breaker.State, breaker.State) {}
func (o *observer) Clock(string, time.Duration)                  {}

func (o *observer) seen() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.classes)
}

// open is a store on these addresses, signed in as app.
func open(t *testing.T, addresses []string, observer rediscluster.Observer) *rediscluster.Store {
	t.Helper()
	return openWith(t, addresses, rediscluster.Config{Observer: observer})
}

// openWith is open with what else cfg says.
func openWith(t *testing.T, addresses []string, cfg rediscluster.Config) *rediscluster.Store {
	t.Helper()
	cfg.URL, cfg.Username, cfg.Logger = "redis://"+strings.Join(addresses, ","), app.Name, slog.New(slog.DiscardHandler)
	cfg.Timeout = cmp.Or(cfg.Timeout, timeout)
	if cfg.Password == nil {
		cfg.Password = func() (string, error) { return app.Password, nil }
	}
	s, err := rediscluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// answers waits until the store answers for a subject.
func answers(t *testing.T, s *rediscluster.Store, subject limit.Subject) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if _, err = take(s, subject, false); err == nil {
			return
		}
	}
	t.Fatalf("no answer within %v: %v", patience, err)
}

// fails waits until calls for a subject fail, and checks what the error says: the
// sentinel, and the words of the class.
func fails(t *testing.T, s *rediscluster.Store, subject limit.Subject, sentinel error, class string) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if _, err = take(s, subject, false); errors.Is(err, sentinel) && strings.Contains(err.Error(), class) {
			return
		}
	}
	t.Fatalf("the last call came to %v, want %v with %q", err, sentinel, class)
}

// unharmed checks that another shard answers as always, but for what a busy machine
// lets time out.
func unharmed(t *testing.T, s *rediscluster.Store, other limit.Subject) {
	t.Helper()
	const calls = 20
	var failed int
	var last error
	for range calls {
		if _, err := take(s, other, false); err != nil {
			failed, last = failed+1, err
		}
	}
	if failed > calls/4 {
		t.Errorf("another shard: %d of %d calls failed: %v", failed, calls, last)
	}
}

// subjects are n whose keys are all in one slot.
func subjects(t *testing.T, c *testenv.RedisCluster, n, slot int) []limit.Subject {
	t.Helper()
	var found []limit.Subject
	for i := 0; len(found) < n; i++ {
		s := subject(t, i)
		if c.SlotOf(rediscluster.Key(s)) == slot {
			found = append(found, s)
		}
	}
	return found
}

func subject(t *testing.T, i int) limit.Subject {
	t.Helper()
	s, err := limit.NewSubject("test", limit.Account, fmt.Sprint("account-", i))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFaultsOfACluster does to one cluster, fault by fault, what operators and
// networks do. After each the store answers again by itself.
func TestFaultsOfACluster(t *testing.T) {
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{
		NodeTimeout: 10 * time.Second, // nobody is to be replaced here
		RedisConfig: testenv.RedisConfig{Proxied: true, Users: []testenv.User{app}},
	})
	for _, fault := range []struct {
		name string
		test func(*testing.T, *testenv.RedisCluster)
	}{
		{"absent at start", absentAtStart},
		{"a slot migrates", slotMigrates},
		{"a slot without an owner", slotWithoutOwner},
		{"a full memory", fullMemory},
		{"a password that changes", passwordChanges},
		{"a wire falls silent", wireFallsSilent},
		{"calls are bounded while nothing is connected", frozenWhileIdle},
	} {
		t.Run(fault.name, func(t *testing.T) { fault.test(t, c) })
	}
}

// A store that is absent when a pod starts is an outage like any other.
func absentAtStart(t *testing.T, c *testenv.RedisCluster) {
	for _, n := range c.Nodes() {
		n.Proxy().Shut()
	}
	s := open(t, c.Addresses(), nil)
	fails(t, s, subject(t, 1), store.ErrUnavailable, "refused")
	for _, n := range c.Nodes() {
		if err := n.Proxy().Open(); err != nil {
			t.Fatal(err)
		}
	}
	answers(t, s, subject(t, 1))
}

// While a slot moves to another node, key by key and back again, no caller sees
// an error, and no charge is lost or made twice.
func slotMigrates(t *testing.T, c *testenv.RedisCluster) {
	const slot, callers = 1234, 8
	s := openWith(t, c.Addresses(), rediscluster.Config{Timeout: time.Second}) // a busy machine is no error of the store
	all := subjects(t, c, callers, slot)
	answers(t, s, all[0])
	if _, err := take(s, subjects(t, c, callers+1, slot)[callers], true); err != nil { // loads the script
		t.Fatal(err)
	}
	var calls [callers]int64
	done := make(chan struct{})
	var load sync.WaitGroup
	for i := range callers {
		load.Go(func() {
			for ; ; calls[i]++ {
				select {
				case <-done:
					return
				default:
				}
				if _, err := take(s, all[i], true); err != nil {
					t.Errorf("call %d of subject %d: %v", calls[i], i, err)
					return
				}
			}
		})
	}
	for _, to := range []*testenv.Node{c.Nodes()[1], c.Nodes()[0]} {
		migrate(t, c, slot, to)
	}
	close(done)
	load.Wait()
	for i := range callers {
		if calls[i] == 0 {
			t.Errorf("subject %d was not asked for", i)
		}
		if n, err := c.Nodes()[0].Do(t.Context(), "ZCARD", rediscluster.LogKey(all[i], login.ID)).AsInt64(); err != nil || n != min(calls[i], login.Limit.Count) {
			t.Errorf("subject %d: its log holds %d attempts, %v; %d were admitted", i, n, err, calls[i])
		}
	}
}

func migrate(t *testing.T, c *testenv.RedisCluster, slot int, to *testenv.Node) {
	t.Helper()
	m, err := c.Migrate(t.Context(), slot, to)
	if err != nil {
		t.Fatal(err)
	}
	for moved := 1; moved > 0; { // one by one: a subject's keys are apart for a while
		if moved, err = m.MoveKeys(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A slot that nobody serves is unavailable until somebody does.
func slotWithoutOwner(t *testing.T, c *testenv.RedisCluster) {
	const slot = 2345
	s := open(t, c.Addresses(), nil)
	who := subjects(t, c, 1, slot)[0]
	answers(t, s, who)
	order(t, c.Nodes()[0], "CLUSTER", "DELSLOTS", fmt.Sprint(slot))
	fails(t, s, who, store.ErrUnavailable, "clusterdown")
	order(t, c.Nodes()[0], "CLUSTER", "ADDSLOTS", fmt.Sprint(slot))
	answers(t, s, who)
}

// A memory that is full, and may evict nothing, is an outage of its shard, and of
// no other.
func fullMemory(t *testing.T, c *testenv.RedisCluster) {
	s := open(t, c.Addresses(), nil)
	hit, other := subjects(t, c, 1, 100)[0], subjects(t, c, 1, 16000)[0]
	answers(t, s, hit)
	order(t, c.Nodes()[0], "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
	fails(t, s, hit, store.ErrUnavailable, "oom")
	unharmed(t, s, other)
	order(t, c.Nodes()[0], "CONFIG", "SET", "maxmemory", "0")
	answers(t, s, hit)
}

// A wire that falls silent takes its calls' timeout from three of them and no
// more, makes no storm of connections, and holds no goroutine when it is over.
func wireFallsSilent(t *testing.T, c *testenv.RedisCluster) {
	seen := &observer{}
	s := open(t, c.Addresses(), seen)
	hit, other := subjects(t, c, 1, 100)[0], subjects(t, c, 1, 16000)[0]
	answers(t, s, hit)
	answers(t, s, other)
	proxy := c.Nodes()[0].Proxy()
	before, accepted := seen.seen(), proxy.Accepted()
	if err := proxy.Set(tcpproxy.Faults{Silent: true}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for time.Since(began) < 3*time.Second {
		sent := time.Now()
		if _, err := take(s, hit, false); !errors.Is(err, store.ErrTimeout) && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("over a silent wire: %v", err)
		}
		if took := time.Since(sent); took > timeout+stall {
			t.Errorf("a call took %v, want %v at most", took, timeout)
		}
		<-time.After(5 * time.Millisecond)
	}
	unharmed(t, s, other)
	now := seen.seen()
	// 3 that open the breaker, 3 probes or so, and as many that were judged our own stall.
	if n := now["timeout"] - before["timeout"]; n < 3 || n > 16 {
		t.Errorf("%d calls timed out in 3 s: %v", n, now)
	}
	if n := proxy.Accepted() - accepted; n > 12 {
		t.Errorf("%d connections were begun in 3 s", n)
	}
	if err := proxy.Set(tcpproxy.Faults{}); err != nil {
		t.Fatal(err)
	}
	answers(t, s, hit)
}

// A node that hangs while nothing is connected to it holds no caller longer than
// the timeout, whoever else tries to connect, and is no matter of other shards, not
// even to a pod that starts meanwhile.
func frozenWhileIdle(t *testing.T, c *testenv.RedisCluster) {
	s := open(t, c.Addresses(), nil)
	who, other := subjects(t, c, 1, 100)[0], subjects(t, c, 1, 16000)[0]
	answers(t, s, who)
	proxy := c.Nodes()[0].Proxy()
	if err := proxy.Set(tcpproxy.Faults{Silent: true}); err != nil {
		t.Fatal(err)
	}
	proxy.Cut()
	late := open(t, c.Addresses(), nil)
	answers(t, late, other)
	fails(t, late, who, store.ErrUnavailable, "open")
	unharmed(t, late, other)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		began := time.Now()
		if _, err := take(s, who, false); err == nil {
			t.Error("a hanging node answered")
		}
		if took := time.Since(began); took > timeout+stall {
			t.Errorf("a call took %v, want %v at most", took, timeout)
		}
	}
	unharmed(t, s, other)
	if err := proxy.Set(tcpproxy.Faults{}); err != nil {
		t.Fatal(err)
	}
	answers(t, s, who)
}

func order(t *testing.T, n *testenv.Node, command ...string) {
	t.Helper()
	if err := n.Do(t.Context(), command...).Error(); err != nil {
		t.Fatalf("%s: %v: %v", n.Name(), command, err)
	}
}

// A standalone server that has become a replica is not held on to: another one may
// have its name by now. When it can be written to again it is used again.
func TestReadOnlyServerIsLeft(t *testing.T) {
	n := envtest.Redis(t, testenv.RedisConfig{Proxied: true, Users: []testenv.User{app}}).Nodes()[0]
	s := open(t, []string{n.Address()}, nil)
	who := subject(t, 1)
	answers(t, s, who)
	order(t, n, "REPLICAOF", "127.0.0.1", "1") // where nobody is
	fails(t, s, who, store.ErrUnavailable, "readonly")
	before := n.Proxy().Accepted()
	for end := time.Now().Add(patience); n.Proxy().Accepted() == before; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no new connection within %v", patience)
		}
	}
	order(t, n, "REPLICAOF", "NO", "ONE")
	answers(t, s, who)
}
