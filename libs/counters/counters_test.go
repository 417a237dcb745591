package counters

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shiplane/limits/libs/command"
)

// A pod is not ready before its store has answered, unless it has waited for
// Patience: a store that is away is what the fail modes are for.
func TestReadyAwaitsTheStore(t *testing.T) {
	const soon = Patience / 10
	for _, c := range []struct {
		name    string
		reached time.Duration // after the start; 0: never
		want    time.Duration
	}{{"an answer", soon, soon}, {"none", 0, Patience}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, reached := &Counters{begun: make(chan struct{})}, make(chan struct{})
				if c.reached > 0 {
					time.AfterFunc(c.reached, func() { close(reached) })
				}
				begin := time.Now()
				go store.await(t.Context(), reached)
				time.Sleep(c.want - time.Nanosecond)
				synctest.Wait()
				if store.Ready() == nil {
					t.Errorf("ready before %v", c.want)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if err := store.Ready(); err != nil {
					t.Errorf("after %v: %v", time.Since(begin), err)
				}
			})
		})
	}
}

// A pod that ends while it awaits its store does not wait on.
func TestEndDoesNotAwaitTheStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store := &Counters{begun: make(chan struct{})}
	store.await(ctx, nil)
	if err := store.Ready(); err != nil {
		t.Error(err)
	}
}

// What is wrong with the flags of checkers is said by flag, and shows no password;
// without checkers their flags are of no use, with them a store is not.
func TestFlagsOfCheckers(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags CheckerFlags
		store string
		want  string // "": nothing is wrong
	}{
		{"none", CheckerFlags{}, "memory", ""},
		{"two", CheckerFlags{Checker: "http://a:8081,https://b:8081", CheckerToken: "t", CheckerCA: "ca", CheckerCert: "c", CheckerKey: "k"}, "memory", ""},
		{"a password", CheckerFlags{Checker: "http://a,http://me:hunter2@b"}, "memory", "holds a user or password"},
		{"another scheme", CheckerFlags{Checker: "redis://a"}, "memory", `--checker "redis://a": URL of a checker`},
		{"a store too", CheckerFlags{Checker: "http://a"}, "redis://b:6379", "--store exclude each other"},
		{"a token for nobody", CheckerFlags{CheckerToken: "t"}, "memory", `--checker-token-file "t": is for checkers`},
		{"a certificate without its key", CheckerFlags{Checker: "https://a", CheckerCert: "c"}, "memory", "--checker-key go together"},
		{"too long a wait", CheckerFlags{Checker: "http://a", CheckerTimeout: "2s"}, "memory", "--checker-timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var faults command.Faults
			store := &StoreFlags{Store: c.store, StoreTimeout: "5ms", Region: "local", RegionPods: "3", PodID: "pod-1"}
			c.flags.CheckerTimeout = cmp.Or(c.flags.CheckerTimeout, "12ms")
			cfg := c.flags.Config(store, &faults)
			err := faults.Err()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a password is shown: %v", err)
			}
			if err == nil && c.flags.Checker != "" && (len(cfg.Checkers.URLs) != 2 || cfg.Checkers.Timeout != 12*time.Millisecond || cfg.Members.Pod != "pod-1" || cfg.Members.Least != 3) {
				t.Errorf("configuration is %+v", cfg)
			}
		})
	}
}

// The password is what the file holds when it is asked for, without the line's end;
// a file that is gone, empty or huge holds none.
func TestPasswordIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	password := passwordFrom(file)
	if _, err := password(); err == nil {
		t.Error("a missing file holds a password")
	}
	for _, c := range []struct{ text, want string }{{"first\n", "first"}, {"second\r\n", "second"}, {" third", " third"}} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := password(); got != c.want || err != nil {
			t.Errorf("%q holds %q, %v", c.text, got, err)
		}
	}
	for _, text := range []string{"", "\n", string(make([]byte, passwordMax+1))} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := password(); err == nil {
			t.Errorf("a file of %d bytes holds %q", len(text), got)
		}
	}
}

// No decision waits for more than 20 ms with the timeouts that are the default, of a
// Redis or of checkers; where one is given more time there is time for a second wait.
func TestNoDecisionWaitsLonger(t *testing.T) {
	for _, timeout := range []time.Duration{5 * time.Millisecond, 12 * time.Millisecond} {
		if most := budget(timeout) + timeout; most > 20*time.Millisecond || budget(timeout) < timeout/2 {
			t.Errorf("%v of a timeout: %v in all", timeout, most)
		}
	}
	if got := budget(time.Second); got != 500*time.Millisecond {
		t.Errorf("a second's budget: %v", got)
	}
}
