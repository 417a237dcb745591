package rediscluster

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// inspected are a bucket, a window and a log of one account, and a bucket that
// the reader is not told of.
func inspected(t *testing.T) (limit.Subject, []store.Entry) {
	t.Helper()
	subject, err := limit.NewSubject("public-api", limit.Account, "acct {7}")
	if err != nil {
		t.Fatal(err)
	}
	entry := func(id string, a limit.Algorithm, l limit.Limit, need int64) store.Entry {
		r := &limit.Rule{Domain: "public-api", ID: id, Kind: limit.Account, Algorithm: a, Limit: l, Mode: limit.Enforce, FailMode: limit.FailOpen, Tag: limit.TagOf("public-api", id, a)}
		return store.Entry{Rule: r, Limit: l, Need: need, Want: need, Member: 77}
	}
	return subject, []store.Entry{
		entry("global", limit.TokenBucket, limit.Limit{Rate: limit.RateMin, Burst: 100}, 30),
		entry("daily", limit.FixedWindow, limit.Limit{Count: 1000, Window: 24 * time.Hour}, 1),
		entry("login", limit.SlidingLog, limit.Limit{Count: 5, Window: time.Hour}, 1),
		entry("other", limit.TokenBucket, limit.Limit{Rate: limit.RateMin, Burst: 9}, 9),
	}
}

// A reading tells what the counters hold as Take does, on a cluster too, and
// changes no byte of any key.
func TestInspectorReadsAndChangesNothing(t *testing.T) {
	cluster := envtest.RedisCluster(t, testenv.RedisClusterConfig{})
	cfg := Config{URL: "redis://" + cluster.Addresses()[0], Timeout: time.Second}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	waitConnected(t, s)
	i, err := NewInspector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	subject, entries := inspected(t)

	fresh, err := i.Read(t.Context(), subject, entries[:3])
	if err != nil {
		t.Fatal(err)
	}
	if c := fresh.Counters; fresh.Bytes != 0 || c[0].Found || c[1].Found || c[2].Found || c[0].Level != 100 || c[1].Remaining != 1000 || c[2].Remaining != 5 {
		t.Errorf("nobody has counted, and the reading is %+v", fresh)
	}
	var result store.Result
	if err := s.Take(t.Context(), &store.Ask{Subject: subject, Entries: entries}, &result); err != nil || !result.Allowed {
		t.Fatalf("set-up: %v, %+v", err, result)
	}
	keys := []string{Key(subject), LogKey(subject, "login")}
	before := dump(t, s, keys)
	got, err := i.Read(t.Context(), subject, entries[:3])
	if err != nil {
		t.Fatal(err)
	}
	if after := dump(t, s, keys); !slices.Equal(before, after) {
		t.Error("the reading has changed a key")
	}
	c := got.Counters
	if !c[0].Found || math.Abs(c[0].Level-70) > 1e-3 || c[0].Counter.Tokens.At != result.At || c[0].TTL <= 0 {
		t.Errorf("the bucket of 100 that gave 30: %+v", c[0])
	}
	if !c[1].Found || c[1].Counter.Window.Count != 1 || c[1].Remaining != 999 || c[1].Reset > 24*time.Hour {
		t.Errorf("the window that counted 1 of 1000: %+v", c[1])
	}
	if log := c[2].Counter.Log; len(log) != 1 || log[0].Member != 77 || log[0].At != result.At || c[2].Remaining != 4 || c[2].TTL <= 0 {
		t.Errorf("the log of one attempt: %+v", c[2])
	}
	if len(got.Unknown) != 1 || got.Unknown[0] != entries[3].Rule.Tag {
		t.Errorf("unknown tags %x, want that of rule other", got.Unknown)
	}
	if got.At < result.At || got.At > result.At+time.Minute || got.Bytes != recordHeader+3*recordEntry {
		t.Errorf("%d bytes at %v, after the charge at %v", got.Bytes, got.At, result.At)
	}
}

// dump is the keys' bytes and expiries.
func dump(t *testing.T, s *Store, keys []string) (all []string) {
	t.Helper()
	client := *s.client.Load()
	for _, key := range keys {
		bytes, err := client.Do(t.Context(), client.B().Dump().Key(key).Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		expiry, err := client.Do(t.Context(), client.B().Arbitrary("PEXPIRETIME").Keys(key).Build()).ToAny()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes, time.UnixMilli(expiry.(int64)).String())
	}
	return all
}

// A key that no version of the store writes is named, not guessed at; a server
// that is not there is unavailable.
func TestInspectorFaults(t *testing.T) {
	if _, err := NewInspector(Config{URL: "redis://127.0.0.1:1"}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	for _, record := range []string{"1234567", "123456789", "1234567812345678901"} {
		if states, err := parseRecord(record); err == nil {
			t.Errorf("a record of %d bytes was read: %v", len(record), states)
		}
	}
}
