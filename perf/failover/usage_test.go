package failover

import (
	"strings"
	"testing"
)

// What grows from the first third of the edits to the last is found and named;
// what only goes up and down is not.
func TestDriftIsFound(t *testing.T) {
	for _, c := range []struct {
		what string
		of   func(u *usage, i int)
	}{
		{"", func(*usage, int) {}},
		{"", func(u *usage, i int) { u.heap += int64(i%2) * 10 << 20 }},
		{"", func(u *usage, i int) { u.heap += int64(i) << 10 }},
		{"bytes of heap", func(u *usage, i int) { u.heap += int64(i) << 15 }},
		{"bytes in the store", func(u *usage, i int) { u.store += int64(i) << 15 }},
		{"goroutines", func(u *usage, i int) { u.goroutines += i }},
		{"open connections", func(u *usage, i int) { u.clients += int64(i / 10) }},
	} {
		samples := make([]usage, 300)
		for i := range samples {
			samples[i] = usage{goroutines: 200, heap: 50 << 20, clients: 45, store: 20 << 20}
			c.of(&samples[i], i)
		}
		if err := flat(samples); (err == nil) != (c.what == "") || err != nil && !strings.Contains(err.Error(), c.what) {
			t.Errorf("%q drifts: %v", c.what, err)
		}
	}
	if err := flat(make([]usage, 2)); err == nil {
		t.Error("two samples are enough to tell")
	}
}

// More goroutines, memory or new connections than an outage may take are found.
func TestExcessIsFound(t *testing.T) {
	before := usage{goroutines: 200, heap: 50 << 20, accepted: 60}
	for what, u := range map[string]usage{
		"":            {goroutines: 2200, heap: 114 << 20, accepted: 70},
		"goroutines":  {goroutines: 2201},
		"heap":        {heap: 114<<20 + 1},
		"connections": {accepted: 71},
	} {
		if err := bounded("outage", before, []usage{before, u, before}, usage{goroutines: 2000, heap: 64 << 20, accepted: 10}); (err == nil) != (what == "") || err != nil && !strings.Contains(err.Error(), what) {
			t.Errorf("%q: %v", what, err)
		}
	}
}

// A node's figures are those of its INFO, and add up over nodes.
func TestUsageOfInfo(t *testing.T) {
	var u usage
	for range 2 {
		if err := u.add("# Clients\r\nconnected_clients:7\r\nused_memory:1000\r\nused_memory_human:1K\r\ntotal_connections_received:12\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if want := (usage{clients: 14, store: 2000, accepted: 24}); u != want {
		t.Errorf("got %+v, want %+v", u, want)
	}
	if err := u.add("used_memory:much"); err == nil {
		t.Error("a figure that is no number is taken")
	}
}
