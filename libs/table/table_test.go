package table_test

import (
	"fmt"
	"testing"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/table"
)

func subject(t testing.TB, kind limit.Kind, id string) limit.Subject {
	t.Helper()
	s, err := limit.NewSubject("test", kind, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(tab *table.Table[int], s limit.Subject) *int {
	shard := tab.Shard(&s)
	shard.Lock()
	defer shard.Unlock()
	return &shard.Get(&s).Record
}

func has(tab *table.Table[int], s limit.Subject) bool {
	shard := tab.Shard(&s)
	shard.Lock()
	defer shard.Unlock()
	return shard.Find(&s) != nil
}

// A flood of addresses that come once stays within its bound, evicts no account
// and no address that is in use.
func TestFloodEvictsNobodyInUse(t *testing.T) {
	tab, err := table.New[int](table.Bounds{IPs: 640, Users: 64, Accounts: 64}, 16, table.Hooks[int]{})
	if err != nil {
		t.Fatal(err)
	}
	account, used := subject(t, limit.Account, "acct_1"), subject(t, limit.IP, "203.0.113.9")
	*get(tab, account), *get(tab, used) = 7, 8
	for i := range 100_000 {
		*get(tab, subject(t, limit.IP, fmt.Sprint("flood ", i))) = i
		if i%10 == 0 && *get(tab, used) != 8 {
			t.Fatalf("the address in use was evicted after %d others", i)
		}
	}
	if *get(tab, account) != 7 {
		t.Error("the account was evicted")
	}
	if n := tab.Len(limit.IP); n > 640 {
		t.Errorf("%d addresses kept, bound 640", n)
	}
	if has(tab, subject(t, limit.IP, "flood 1")) {
		t.Error("an address that came once long ago is still there")
	}
}

// An evicted record is told once, with its own subject, and an entry held across
// the eviction is not mistaken for its former owner's.
func TestEvictionIsTold(t *testing.T) {
	var told []string
	tab, err := table.New(table.Bounds{IPs: 1, Users: 1, Accounts: 1}, 1, table.Hooks[int]{Evicted: func(s limit.Subject, r *int) {
		told = append(told, fmt.Sprint(s.ID(), "=", *r))
		*r = 0
	}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := subject(t, limit.User, "a"), subject(t, limit.User, "b")
	shard := tab.Shard(&a)
	shard.Lock()
	defer shard.Unlock()
	held := shard.Get(&a)
	held.Record = 1
	if got := shard.Again(held, &a); got != held {
		t.Error("an entry that was not evicted is another")
	}
	if got := shard.Get(&b); got.Record != 0 {
		t.Errorf("b begins with a's record %d", got.Record)
	}
	if got := shard.Again(held, &a); got.Record != 0 {
		t.Errorf("a was given b's record")
	}
	if want := "[a=1 b=0]"; fmt.Sprint(told) != want {
		t.Errorf("told %v, want %s", told, want)
	}
}

// Bounds that could hold nobody are refused by name.
func TestBounds(t *testing.T) {
	if _, err := table.New[int](table.Bounds{IPs: 1, Users: 0, Accounts: 1}, 1, table.Hooks[int]{}); err == nil || err.Error() != "table bound of kind user is 0: want at least 1" {
		t.Error(err)
	}
	if _, err := table.New[int](table.DefaultBounds, 3, table.Hooks[int]{}); err == nil || err.Error() != "table shards is 3: want a power of two" {
		t.Error(err)
	}
}

// A pinned record stays, and the table grows by what is pinned and no more.
func TestPinnedStays(t *testing.T) {
	tab, err := table.New(table.Bounds{IPs: 2, Users: 2, Accounts: 2}, 1, table.Hooks[int]{Pinned: func(r *int) bool { return *r < 0 }})
	if err != nil {
		t.Fatal(err)
	}
	a, b := subject(t, limit.IP, "a"), subject(t, limit.IP, "b")
	*get(tab, a), *get(tab, b) = -1, -2
	for i := range 10 {
		*get(tab, subject(t, limit.IP, fmt.Sprint(i))) = i
	}
	if *get(tab, a) != -1 || *get(tab, b) != -2 {
		t.Error("a pinned record was evicted")
	}
	if n := tab.Len(limit.IP); n != 3 {
		t.Errorf("%d records, want the two that are pinned and one", n)
	}
}

// Sweep visits what is marked, in that order, until it is told to stop.
func TestSweep(t *testing.T) {
	tab, err := table.New(table.DefaultBounds, 1, table.Hooks[int]{})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"c", "a", "b"} {
		s := subject(t, limit.User, id)
		shard := tab.Shard(&s)
		shard.Lock()
		e := shard.Get(&s)
		e.Record = i
		shard.Mark(e)
		shard.Mark(e)
		shard.Unlock()
	}
	var visited []string
	visit := func(e *table.Entry[int]) bool {
		visited = append(visited, e.Subject().ID())
		return e.Record != 1
	}
	tab.Sweep(visit)
	tab.Sweep(visit)
	if fmt.Sprint(visited) != "[c a b c b]" {
		t.Errorf("visited %v", visited)
	}
}
