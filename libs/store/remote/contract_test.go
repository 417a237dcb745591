package remote

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/store/storetest"
)

// driven is a store behind a checker whose clock a test drives.
func driven(t *testing.T) storetest.Harness {
	t.Helper()
	var now atomic.Int64
	counters, err := memory.New(memory.Config{Now: func() time.Duration { return time.Duration(now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := open(t, Config{Timeout: ample}, startChecker(t, counters))
	return storetest.Harness{Store: s, SetClock: func(d time.Duration) { now.Store(int64(d)) }}
}

// A store behind a checker keeps the contract.
func TestContract(t *testing.T) { storetest.Run(t, driven) }

// Whatever the history, a store behind a checker says what the same store says.
func TestHistories(t *testing.T) { storetest.Histories(t, driven) }
