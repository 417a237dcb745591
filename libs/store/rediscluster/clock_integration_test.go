package rediscluster_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// serverWithClock is a server whose clock is the machine's and an offset in
// seconds, which set changes while it runs. The test is skipped where Debian's
// package libfaketime is not installed.
func serverWithClock(t *testing.T) (r *testenv.Redis, set func(seconds int)) {
	t.Helper()
	const library = "/usr/lib/*/faketime/libfaketime.so.1"
	found, err := filepath.Glob(library)
	if err != nil || len(found) == 0 {
		t.Skipf("no %s", library)
	}
	offset := filepath.Join(t.TempDir(), "offset")
	set = func(seconds int) {
		t.Helper()
		if err := os.WriteFile(offset+".new", fmt.Appendf(nil, "%+d\n", seconds), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(offset+".new", offset); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	return envtest.Redis(t, testenv.RedisConfig{Command: []string{
		"env", "LD_PRELOAD=" + found[0], "FAKETIME_TIMESTAMP_FILE=" + offset, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "redis-server",
	}}), set
}

// A clock that steps back 10 s refuses nobody who has tokens, and an empty bucket
// refills at its rate at once, not after 10 s.
func TestClockStepsBack(t *testing.T) {
	r, set := serverWithClock(t)
	s, err := rediscluster.New(rediscluster.Config{URL: r.URL(), Timeout: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	answers(t, s, subject(t, 0))
	slow := limit.Limit{Rate: 10, Burst: 100}
	ask := func(who limit.Subject, need, want int64) (result store.Result) {
		t.Helper()
		err := s.Take(context.Background(), &store.Ask{Subject: who, Entries: []store.Entry{{Rule: rule, Limit: slow, Need: need, Want: want}}}, &result)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	empty, half := subject(t, 1), subject(t, 2)
	before := ask(empty, 1, 100)
	ask(half, 50, 50)
	set(-10)
	after := ask(half, 40, 40)
	if step := before.At - after.At; step < 5*time.Second {
		t.Fatalf("the server's clock stepped back by %v, want 10 s or so", step)
	}
	if !after.Allowed {
		t.Errorf("a bucket with 50 tokens refused 40: %+v", after)
	}
	first := ask(empty, 2, 2)
	if retry := first.Outcomes[0].Retry; first.Allowed || retry <= 0 || retry > 200*time.Millisecond {
		t.Errorf("an empty bucket of 10/s says of 2 tokens: %+v, want them within 200 ms", first)
	}
	var last store.Result
	for end := time.Now().Add(patience); !last.Allowed && time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		last = ask(empty, 2, 100)
	}
	elapsed, granted := (last.At - first.At).Seconds(), last.Outcomes[0].Granted
	if most := int64(10*elapsed + 2); !last.Allowed || elapsed > 5 || granted > most {
		t.Errorf("%d tokens after %.2f s on the server's clock, want 2 to %d, soon", granted, elapsed, most)
	}
}
