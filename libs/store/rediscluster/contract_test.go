package rediscluster

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/store/storetest"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// server is the URL of a server for this test.
func server(t *testing.T) string {
	t.Helper()
	return envtest.Redis(t, testenv.RedisConfig{}).URL()
}

// driven is a store on a server whose scripts' clock a test drives.
func driven(t *testing.T, url string) storetest.Harness {
	t.Helper()
	var now atomic.Int64
	s, err := newStore(Config{URL: url, Timeout: time.Second}, func() time.Duration { return time.Duration(now.Load()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	waitConnected(t, s)
	client := *s.client.Load()
	if err := client.Do(t.Context(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	return storetest.Harness{Store: s, SetClock: func(d time.Duration) { now.Store(int64(d)) }}
}

func waitConnected(t testing.TB, s *Store) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.client.Load() == nil; {
		if time.Now().After(deadline) {
			t.Fatal("no connection within 10 s")
		}
		<-time.After(time.Millisecond)
	}
}

// The Redis store keeps the contract.
func TestContract(t *testing.T) {
	url := server(t)
	storetest.Run(t, func(t *testing.T) storetest.Harness { return driven(t, url) })
}

// Whatever the history, the script says what the in-process store says.
func TestHistories(t *testing.T) {
	storetest.Histories(t, func(t *testing.T) storetest.Harness { return driven(t, server(t)) })
}
