// Package table is a bounded map from subjects to records, for state that is
// kept in the process: the pod's local state and the in-process store.
//
// It is partitioned by kind, so that a flood of new addresses or user names
// evicts no account, and sharded, each shard with a lock of its own. A full
// partition evicts by second chance: whoever was looked up since the hand last
// passed stays. So what is in use survives a flood of keys that come once, and
// a table's memory is at most its bounds times the size of a record, a key
// (two strings of up to 64 bytes) and about 100 bytes of index.
package table

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/shiplane/limits/libs/limit"
)

// Bounds is how many records of each kind a table keeps at most. Each is split
// evenly among the shards and rounded up.
type Bounds struct {
	IPs, Users, Accounts int
}

// DefaultBounds hold three times the design's 40,000 accounts.
var DefaultBounds = Bounds{IPs: 1 << 17, Users: 1 << 17, Accounts: 1 << 17}

// Table maps subjects to records of type R. Safe for concurrent use through
// its shards' locks.
type Table[R any] struct {
	seed   maphash.Seed
	shards []Shard[R]
}

// Shard is a part of a table: lock it, use it, unlock it.
type Shard[R any] struct {
	sync.Mutex
	entries map[limit.Subject]*Entry[R]
	rings   [limit.Kinds + 1]ring[R]
	evicted func(limit.Subject, *R)
	_       [64]byte // no two locks on one cache line
}

// Entry is a place in a shard. Its record belongs to Subject only while the
// shard is locked: afterwards it may be evicted and become another's.
type Entry[R any] struct {
	Record  R
	subject limit.Subject
	used    bool
}

// ring holds the entries of one kind in the order in which the hand passes.
type ring[R any] struct {
	entries []*Entry[R]
	bound   int
	hand    int
}

// New makes a table of the given number of shards, a power of two (one makes
// eviction deterministic). evicted, if not nil, is called under the shard's
// lock with each record that is evicted, and must leave it fit for reuse by
// another subject; nil zeroes it. An error names a bound below 1.
func New[R any](bounds Bounds, shards int, evicted func(limit.Subject, *R)) (*Table[R], error) {
	for kind, bound := range bounds.byKind() {
		if kind > 0 && bound < 1 {
			return nil, fmt.Errorf("table bound of kind %s is %d: want at least 1", limit.Kind(kind), bound)
		}
	}
	if shards < 1 || shards&(shards-1) != 0 {
		return nil, fmt.Errorf("table shards is %d: want a power of two", shards)
	}
	if evicted == nil {
		evicted = func(_ limit.Subject, r *R) { *r = *new(R) }
	}
	t := &Table[R]{seed: maphash.MakeSeed(), shards: make([]Shard[R], shards)}
	for i := range t.shards {
		s := &t.shards[i]
		s.entries = make(map[limit.Subject]*Entry[R])
		s.evicted = evicted
		for kind, bound := range bounds.byKind() {
			s.rings[kind].bound = (bound + shards - 1) / shards
		}
	}
	return t, nil
}

func (b Bounds) byKind() [limit.Kinds + 1]int {
	return [limit.Kinds + 1]int{limit.IP: b.IPs, limit.User: b.Users, limit.Account: b.Accounts}
}

// Shard returns the shard that subject belongs to. The hash is seeded anew in
// each process: nobody can choose keys that crowd one shard.
func (t *Table[R]) Shard(subject limit.Subject) *Shard[R] {
	if len(t.shards) == 1 {
		return &t.shards[0]
	}
	h := maphash.String(t.seed, subject.ID())
	return &t.shards[h&uint64(len(t.shards)-1)]
}

// Len is the number of records of a kind. It takes every shard's lock in turn.
func (t *Table[R]) Len(kind limit.Kind) int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		n += len(s.rings[kind].entries)
		s.Unlock()
	}
	return n
}

// Find returns subject's entry, nil if it has none. The shard must be locked.
func (s *Shard[R]) Find(subject limit.Subject) *Entry[R] {
	e := s.entries[subject]
	if e != nil {
		e.used = true
	}
	return e
}

// Get returns subject's entry and makes one if it has none. The shard must be locked.
func (s *Shard[R]) Get(subject limit.Subject) *Entry[R] {
	if e := s.Find(subject); e != nil {
		return e
	}
	ring := &s.rings[subject.Kind()]
	var e *Entry[R]
	if len(ring.entries) < ring.bound {
		e = &Entry[R]{}
		ring.entries = append(ring.entries, e)
	} else {
		e = ring.victim()
		delete(s.entries, e.subject)
		s.evicted(e.subject, &e.Record)
	}
	e.subject = subject.Clone()
	s.entries[e.subject] = e
	return e
}

// Again returns e if it still is subject's, else what Get returns: for a caller
// that unlocked the shard in between. The shard must be locked.
func (s *Shard[R]) Again(e *Entry[R], subject limit.Subject) *Entry[R] {
	if e.subject == subject {
		return e
	}
	return s.Get(subject)
}

// victim passes the hand over the ring until it finds an entry that was not
// used since its last round; after one round none is left that was.
func (r *ring[R]) victim() *Entry[R] {
	for {
		e := r.entries[r.hand]
		r.hand = (r.hand + 1) % len(r.entries)
		if !e.used {
			return e
		}
		e.used = false
	}
}
