package members

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func member(t *testing.T, cfg Config) *Members {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Pods count each other while they run; one that leaves is gone a heartbeat's life
// later, for the set may just be incomplete; the count is kept over a restart.
func TestPodsCountEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roster, file := NewLocal(), filepath.Join(t.TempDir(), "pods")
		first := member(t, Config{Pod: "pod-0", Least: 1, File: file, Roster: roster})
		second := member(t, Config{Pod: "pod-1", Least: 9, Roster: roster})
		go first.Run(t.Context())
		ctx, leave := context.WithCancel(t.Context())
		go second.Run(ctx)
		time.Sleep(2 * beat)
		synctest.Wait()
		if first.Count() != 3 || second.Count() != 9 {
			t.Errorf("they count %d and %d; want 2 and the process of the roster, and the least", first.Count(), second.Count())
		}
		leave()
		time.Sleep(2 * beat)
		synctest.Wait()
		if first.Count() != 3 {
			t.Errorf("right after a pod has left %d are counted", first.Count())
		}
		time.Sleep(Life + 2*beat)
		synctest.Wait()
		if first.Count() != 2 {
			t.Errorf("a heartbeat's life after a pod has left %d are counted", first.Count())
		}
		if again := member(t, Config{Pod: "pod-0", Least: 1, File: file}); again.Count() != 2 {
			t.Errorf("after a restart %d are counted", again.Count())
		}
	})
}

// A pod that says nothing more is forgotten after Life, as one that crashed is.
func TestSilentPodIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		roster := NewLocal()
		if live, err := roster.Beat(t.Context(), "a", true); live != 2 || err != nil {
			t.Errorf("%d live, %v", live, err)
		}
		time.Sleep(Life)
		if roster.Count() != 2 {
			t.Error("it is forgotten too soon")
		}
		time.Sleep(time.Nanosecond)
		if roster.Count() != 1 {
			t.Error("it is not forgotten")
		}
	})
}

// However many names pods give themselves, no more are noted than a region may have.
func TestLocalRosterIsBounded(t *testing.T) {
	roster := NewLocal()
	for i := range podsMax {
		roster.seen[fmt.Sprint(i)] = time.Now()
	}
	if _, err := roster.Beat(t.Context(), "one more", true); err == nil || len(roster.seen) != podsMax {
		t.Errorf("%d are noted, %v", len(roster.seen), err)
	}
	if live, err := roster.Beat(t.Context(), "1", true); live != podsMax+1 || err != nil {
		t.Errorf("one that is known: %d live, %v", live, err)
	}
}

type away struct{}

func (away) Beat(context.Context, string, bool) (int, error) { return 0, errors.New("away") }

// While the roster is away the last count stands.
func TestMembersWithoutRoster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods")
	if err := os.WriteFile(file, []byte("50\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := member(t, Config{Pod: "pod-0", Least: 1, File: file, Roster: away{}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m.Run(ctx)
	if m.Count() != 50 {
		t.Errorf("%d are counted, want the 50 of the file", m.Count())
	}
}

// What is out of range is refused by name.
func TestConfig(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "pods")
	if err := os.WriteFile(bad, []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]Config{
		`pod id "" has 0 bytes: want 1 to 253`:                              {Least: 1},
		"region pods is 0: want 1 to 100000":                                {Pod: "a"},
		`the last count of pods in ` + bad + ` is "many": want 1 to 100000`: {Pod: "a", Least: 1, File: bad},
	} {
		if _, err := New(cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
