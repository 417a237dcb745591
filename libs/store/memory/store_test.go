package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/store/storetest"
	"github.com/shiplane/limits/libs/table"
)

// The in-process store keeps the contract.
func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var now atomic.Int64
		s, err := memory.New(memory.Config{Now: func() time.Duration { return time.Duration(now.Load()) }})
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Harness{Store: s, SetClock: func(d time.Duration) { now.Store(int64(d)) }}
	})
}

// A configuration out of range is refused by name.
func TestConfig(t *testing.T) {
	_, err := memory.New(memory.Config{Bounds: table.Bounds{IPs: -1, Users: 1, Accounts: 1}})
	if err == nil || err.Error() != "table bound of kind ip is -1: want at least 1" {
		t.Error(err)
	}
}

// Without a clock of its own the store counts from the epoch.
func TestSystemClock(t *testing.T) {
	s, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := storetest.Bucket("r", 1, 1)
	var result store.Result
	ask := store.Ask{Subject: storetest.Subject(t, 1, "a"), Entries: []store.Entry{{Rule: r, Limit: r.Limit}}}
	before := time.Since(store.Epoch).Truncate(time.Microsecond)
	if err := s.Take(t.Context(), &ask, &result); err != nil {
		t.Fatal(err)
	}
	if after := time.Since(store.Epoch); result.At < before || result.At > after {
		t.Errorf("the store's clock reads %v between %v and %v", result.At, before, after)
	}
}
