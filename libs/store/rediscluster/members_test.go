package rediscluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func member(t *testing.T, s *Store, cfg MembersConfig) *Members {
	t.Helper()
	m, err := NewMembers(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Pods count each other, a pod that leaves is gone at once, regions are apart,
// and the count is never below the least and kept over a restart.
func TestMembers(t *testing.T) {
	s := driven(t, server(t)).Store.(*Store)
	file := filepath.Join(t.TempDir(), "pods")
	var pods []*Members
	for i := range 3 {
		pods = append(pods, member(t, s, MembersConfig{Region: "eu-west", Pod: fmt.Sprint("pod-", i), Least: 1, File: file}))
	}
	other := member(t, s, MembersConfig{Region: "us-east", Pod: "pod-9", Least: 2})
	for _, m := range append(pods, other, pods[0]) {
		m.beat(t.Context(), true)
	}
	if pods[0].Count() != 3 || other.Count() != 2 {
		t.Errorf("eu-west counts %d, us-east %d; want 3, and its least 2", pods[0].Count(), other.Count())
	}
	pods[2].beat(t.Context(), false)
	pods[0].beat(t.Context(), true)
	if pods[0].Count() != 3 {
		t.Errorf("right after a pod has left %d are counted: the set may just be incomplete", pods[0].Count())
	}
	pods[0].fell = pods[0].fell.Add(-memberLife)
	pods[0].beat(t.Context(), true)
	if pods[0].Count() != 2 {
		t.Errorf("a heartbeat's life after a pod has left %d are counted", pods[0].Count())
	}
	if again := member(t, s, MembersConfig{Region: "eu-west", Pod: "pod-0", Least: 1, File: file}); again.Count() != 2 {
		t.Errorf("after a restart %d are counted", again.Count())
	}
}

// While the store is away the last count stands.
func TestMembersWithoutStore(t *testing.T) {
	s, err := New(Config{URL: "redis://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file := filepath.Join(t.TempDir(), "pods")
	if err := os.WriteFile(file, []byte("50\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := member(t, s, MembersConfig{Region: "eu-west", Pod: "pod-0", Least: 1, File: file})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	m.Run(ctx)
	if m.Count() != 50 {
		t.Errorf("%d are counted, want the 50 of the file", m.Count())
	}
}

// What is out of range is refused by name.
func TestMembersConfig(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "pods")
	if err := os.WriteFile(bad, []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]MembersConfig{
		"region is empty":                                                   {Pod: "a", Least: 1},
		`pod id "" has 0 bytes: want 1 to 253`:                              {Region: "r", Least: 1},
		"region pods is 0: want 1 to 100000":                                {Region: "r", Pod: "a"},
		`the last count of pods in ` + bad + ` is "many": want 1 to 100000`: {Region: "r", Pod: "a", Least: 1, File: bad},
	} {
		if _, err := NewMembers(nil, cfg); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
