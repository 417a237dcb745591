package rediscluster

import (
	"errors"
	"testing"

	"github.com/shiplane/limits/libs/store"
)

// Pods of one region are counted together, those of another apart; one that leaves
// counts no more.
func TestRoster(t *testing.T) {
	s := driven(t, server(t)).Store.(*Store)
	west, err := NewRoster(s, "eu-west")
	if err != nil {
		t.Fatal(err)
	}
	east, err := NewRoster(s, "us-east")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		roster *Roster
		pod    string
		alive  bool
		want   int
	}{{west, "a", true, 1}, {west, "b", true, 2}, {east, "a", true, 1}, {west, "a", true, 2}, {west, "b", false, 1}, {west, "a", true, 1}} {
		if live, err := c.roster.Beat(t.Context(), c.pod, c.alive); live != c.want || err != nil {
			t.Errorf("%+v: %d live, %v", c, live, err)
		}
	}
}

// Without a store nothing is known; a region's name is checked.
func TestRosterWithoutStore(t *testing.T) {
	s, err := New(Config{URL: "redis://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := NewRoster(s, "eu-west")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Beat(t.Context(), "a", true); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without a store: %v", err)
	}
	if _, err := NewRoster(s, ""); err == nil {
		t.Error("a region without a name")
	}
}
