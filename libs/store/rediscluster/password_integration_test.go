package rediscluster_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
)

// A password that changes shuts nobody out who is signed in. Whose connections are
// cut then is without an answer until the store is told the new one, also while it
// cannot be read at all; then it signs in by itself, in the midst of load, and a pod
// that started with the old one does too.
func passwordChanges(t *testing.T, c *testenv.RedisCluster) {
	var known atomic.Pointer[string] // nil: it cannot be read
	var unread atomic.Int64
	tell := func(password string) { known.Store(&password) }
	password := func() (string, error) {
		if p := known.Load(); p != nil {
			return *p, nil
		}
		unread.Add(1)
		return "", errors.New("no such file")
	}
	tell(app.Password)
	seen := &observer{}
	s := openWith(t, c.Addresses(), rediscluster.Config{Observer: seen, Password: password})
	answers(t, s, subject(t, 0))
	load(t, s)

	changed := testenv.User{Name: app.Name, Password: "second"}
	if err := c.SetUser(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	before := seen.seen()["ok"]
	eventually(t, "who is signed in stays so", func() bool { return seen.seen()["ok"] > before+100 })
	if n := seen.seen()["auth"]; n > 0 {
		t.Errorf("%d calls had to sign in again, though no connection was lost", n)
	}
	for _, n := range c.Nodes() {
		n.Proxy().Cut()
	}
	eventually(t, "the old password is refused", func() bool { return seen.seen()["auth"] > 0 })
	late := openWith(t, c.Addresses(), rediscluster.Config{Password: password})
	fails(t, late, subject(t, 0), store.ErrUnavailable, "refused")
	known.Store(nil)
	eventually(t, "the password is asked for", func() bool { return unread.Load() > 0 })
	tell(changed.Password)
	for i := range 16 { // of all shards
		answers(t, s, subject(t, i))
		answers(t, late, subject(t, i))
	}
	if err := c.SetUser(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

// load calls the store until the test ends, from a few goroutines. Calls may fail as
// those of an outage do, in no other way.
func load(t *testing.T, s *rediscluster.Store) {
	t.Helper()
	done := make(chan struct{})
	var callers sync.WaitGroup
	t.Cleanup(func() { close(done); callers.Wait() })
	for i := range 4 {
		who := subject(t, i)
		callers.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, err := take(s, who, false); err != nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrTimeout) {
					t.Errorf("under load: %v", err)
				}
			}
		})
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
