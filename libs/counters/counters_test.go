package counters

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
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
