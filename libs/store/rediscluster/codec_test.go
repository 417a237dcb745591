package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/storetest"
)

// No id chooses a slot, closes the hash tag or equals another's key.
func TestHostileKeys(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"acct_7Q2", "}", "{", "{a}", "a}{b", "\x00", "a b", "a+b", "a%20b", "%", "~", "~A", "\xff", "ü", strings.Repeat("x", 65), strings.Repeat("x", 1<<20), strings.Repeat("x", 64)} {
		key := Key(storetest.Subject(t, limit.User, id))
		if strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 || !strings.HasPrefix(key, "rl:{storetest/user:") || !strings.HasSuffix(key, "}") {
			t.Errorf("%.20q has the key %q", id, key)
		}
		if len(key) > 220 {
			t.Errorf("%.20q has a key of %d bytes", id, len(key))
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%.20q has the key of %.20q", id, other)
		}
		seen[key] = id
	}
	if got, want := Key(storetest.Subject(t, limit.Account, "acct_7Q2")), "rl:{storetest/account:acct_7Q2}"; got != want {
		t.Errorf("key %q, want %q", got, want)
	}
}

// The largest ask of every kind is within Lua's bounds; the server says so in
// TestLargestAsks.
func largest(t *testing.T, kind func(string) *limit.Rule, give bool) *store.Ask {
	ask := &store.Ask{Subject: storetest.Subject(t, limit.Account, "acct_7Q2")}
	for i := range store.EntriesMax {
		r := kind(fmt.Sprint("r", i))
		e := store.Entry{Rule: r, Limit: r.Limit}
		if give && i == 0 {
			e.Give = 1
		} else {
			e.Need, e.Want, e.Member = 1, 1, uint64(i)
		}
		ask.Entries = append(ask.Entries, e)
	}
	return ask
}

// An ask may hold as many entries as the contract says, of any algorithm.
func TestLargestAsks(t *testing.T) {
	h := driven(t, server(t))
	for name, kind := range map[string]func(string) *limit.Rule{
		"buckets": func(id string) *limit.Rule { return storetest.Bucket(id, 1, 10) },
		"windows": func(id string) *limit.Rule { return storetest.Window(id, 10, time.Minute) },
		"logs":    func(id string) *limit.Rule { return storetest.Log(id, 10, time.Minute) },
		"shadows": func(id string) *limit.Rule { return storetest.Shadowed(storetest.Log(id, 10, time.Minute)) },
	} {
		for _, give := range []bool{false, true} {
			var result store.Result
			if err := h.Store.Take(t.Context(), largest(t, kind, give), &result); err != nil || !result.Allowed {
				t.Errorf("%s, giving %t: %v, %+v", name, give, err, result)
			}
		}
	}
}

// A reply that is not what the script returns is an error, never a grant.
func TestDecodeRefusesOtherReplies(t *testing.T) {
	ask := largest(t, func(id string) *limit.Rule { return storetest.Bucket(id, 1, 10) }, false)
	order, _ := order(ask)
	var result store.Result
	good := strings.Repeat("\x00", 8*(2+3*store.EntriesMax))
	if err := decode(good, ask, order[:], &result); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"", "OK", good[8:], good + "\x00", good + good, strings.Repeat("\xff", len(good))} {
		if err := decode(reply, ask, order[:], &result); err == nil {
			t.Errorf("a reply of %d bytes was taken", len(reply))
		}
	}
}

// A Redis URL is refused by what is wrong with it, and never shown with a secret.
func TestConfig(t *testing.T) {
	for url, want := range map[string]string{
		"":                           `redis URL "": want redis://HOST:PORT[,HOST:PORT] or rediss://…`,
		"http://127.0.0.1:1":         `redis URL "http://127.0.0.1:1": want redis://HOST:PORT[,HOST:PORT] or rediss://…`,
		"redis://127.0.0.1:1/3":      `redis URL "redis://127.0.0.1:1/3": want redis://HOST:PORT[,HOST:PORT] or rediss://…`,
		"redis://u:secret@127.0.0.1": "redis URL holds a password: give it by file or environment",
		"redis://u:secret@\x7f":      "redis URL: net/url: invalid control character in URL",
	} {
		if _, err := New(Config{URL: url}); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", url, err, want)
		}
	}
	if _, err := New(Config{URL: "redis://127.0.0.1:1", Timeout: -1}); err == nil {
		t.Error("a negative timeout was taken")
	}
}

// A store that is absent is an outage, not a failure to start.
func TestAbsentStore(t *testing.T) {
	s, err := New(Config{URL: "redis://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var result store.Result
	ask := largest(t, func(id string) *limit.Rule { return storetest.Bucket(id, 1, 10) }, false)
	if err := s.Take(context.Background(), ask, &result); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want %v", err, store.ErrUnavailable)
	}
}

// Each error of a call is of a class: what the shard is taken for, and what the
// caller is told.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want class
		is   error
	}{
		{context.DeadlineExceeded, classTimeout, store.ErrTimeout},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), classRefused, store.ErrUnavailable},
		{rueidis.ErrClosing, classConnection, store.ErrTimeout},
		{context.Canceled, classCancelled, store.ErrTimeout},
	} {
		got := classify(c.err)
		if got != c.want || !errors.Is(got.wrap("0-5460", c.err), c.is) || !errors.Is(got.wrap("0-5460", c.err), c.err) {
			t.Errorf("%v is of class %s: %v", c.err, got, got.wrap("0-5460", c.err))
		}
	}
}

// A shard keeps its breaker while its slots are the same, whoever serves them.
func TestShardIsItsSlots(t *testing.T) {
	s := newShards(func(string, breaker.State, breaker.State) {}, nil)
	s.update(0, []slotRange{{0, 5460, "a"}, {5461, 10922, "b"}, {10923, 16383, "c"}})
	before := s.of(100)
	if ok, _ := before.breaker.Allow(0); !ok {
		t.Fatal("a new shard's breaker is not closed")
	}
	before.breaker.Done(0, 0, 0, breaker.Unreachable, false)
	s.update(time.Millisecond, []slotRange{{10923, 16383, "c"}, {0, 5460, "replica-of-a"}, {5461, 10922, "b"}})
	if s.of(100) != before || before.name != "0" {
		t.Errorf("after a failover the shard is %q, before %q", s.of(100).name, before.name)
	}
	if ok, probe := before.breaker.Allow(time.Millisecond); !ok || !probe {
		t.Error("the replica that took over was not probed at once")
	}
	if n := len(s.byName()); n != 3 {
		t.Errorf("%d shards", n)
	}
	s.update(0, []slotRange{{0, 99, "a"}, {101, 5460, "a"}, {100, 100, "b"}, {5461, 10922, "b"}, {10923, 16383, "c"}})
	if got := s.of(100); got == before || got != s.of(6000) || got.name != "100" {
		t.Errorf("a slot that moved is of shard %q", got.name)
	}
}
