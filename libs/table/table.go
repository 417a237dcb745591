// Package table is a bounded map from subjects to records, for state that is
// kept in the process: the pod's local state and the in-process store.
//
// It is partitioned by kind, so that a flood of new addresses or user names
// evicts no account, and sharded, each shard with a lock of its own. A full
// partition evicts by second chance: whoever was looked up since the hand last
// passed stays. So what is in use survives a flood of keys that come once, and
// a table's memory is at most its bounds times the size of a record, a key
// (two strings of up to 64 bytes) and a few hundred bytes of index: a Go map that
// deletes as often as it adds grows to twice its need. A record that is
// pinned is not evicted: only as many as are pinned at once go beyond the bound.
package table

import (
	"fmt"
	"sync"

	"github.com/shiplane/limits/libs/limit"
)

// Bounds is how many records of each kind a table keeps at most. Each is split
// evenly among the shards and rounded up.
type Bounds struct {
	IPs, Users, Accounts int
}

// DefaultBounds hold three times the design's 40,000 accounts. A limiter over an
// in-process store, each with these bounds and three rules a subject, takes
// about 1,600 bytes a subject, so 620 MB if all are full.
var DefaultBounds = Bounds{IPs: 1 << 17, Users: 1 << 17, Accounts: 1 << 17}

// Table maps subjects to records of type R. Safe for concurrent use through
// its shards' locks.
type Table[R any] struct {
	shards []Shard[R]
}

// Shard is a part of a table: lock it, use it, unlock it.
type Shard[R any] struct {
	sync.Mutex
	entries map[uint64]*Entry[R] // by the subjects' hash; those of one hash are chained
	rings   [limit.Kinds + 1]ring[R]
	hooks   *Hooks[R]
	marked  []*Entry[R]
	_       [64]byte // no two locks on one cache line
}

// Hooks is what a table asks its owner, under the shard's lock. Each may be nil.
type Hooks[R any] struct {
	// Pinned reports whether the record must not be evicted now.
	Pinned func(*R) bool
	// Evicted is told of each record that is evicted, and leaves it fit for
	// reuse by another subject. nil zeroes it.
	Evicted func(limit.Subject, *R)
}

// Entry is a place in a shard. Its record belongs to Subject only while the
// shard is locked: afterwards it may be evicted and become another's.
type Entry[R any] struct {
	Record  R
	subject limit.Subject
	next    *Entry[R] // of the same hash
	used    bool
	marked  bool
}

// Subject is whose record it is. The shard must be locked.
func (e *Entry[R]) Subject() limit.Subject { return e.subject }

// ring holds the entries of one kind in the order in which the hand passes.
type ring[R any] struct {
	entries []*Entry[R]
	bound   int
	hand    int
}

// New makes a table of the given number of shards, a power of two (one makes
// eviction deterministic). An error names a bound below 1.
func New[R any](bounds Bounds, shards int, hooks Hooks[R]) (*Table[R], error) {
	for kind, bound := range bounds.byKind() {
		if kind > 0 && bound < 1 {
			return nil, fmt.Errorf("table bound of kind %s is %d: want at least 1", limit.Kind(kind), bound)
		}
	}
	if shards < 1 || shards&(shards-1) != 0 {
		return nil, fmt.Errorf("table shards is %d: want a power of two", shards)
	}
	if hooks.Evicted == nil {
		hooks.Evicted = func(_ limit.Subject, r *R) { *r = *new(R) }
	}
	if hooks.Pinned == nil {
		hooks.Pinned = func(*R) bool { return false }
	}
	t := &Table[R]{shards: make([]Shard[R], shards)}
	for i := range t.shards {
		s := &t.shards[i]
		s.entries = make(map[uint64]*Entry[R])
		s.hooks = &hooks
		for kind, bound := range bounds.byKind() {
			s.rings[kind].bound = (bound + shards - 1) / shards
		}
	}
	return t, nil
}

func (b Bounds) byKind() [limit.Kinds + 1]int {
	return [limit.Kinds + 1]int{limit.IP: b.IPs, limit.User: b.Users, limit.Account: b.Accounts}
}

// Shard returns the shard that subject belongs to.
func (t *Table[R]) Shard(subject *limit.Subject) *Shard[R] {
	return &t.shards[subject.Hash()>>32&uint64(len(t.shards)-1)]
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
func (s *Shard[R]) Find(subject *limit.Subject) *Entry[R] {
	for e := s.entries[subject.Hash()]; e != nil; e = e.next {
		if e.subject == *subject {
			e.used = true
			return e
		}
	}
	return nil
}

// Get returns subject's entry and makes one if it has none. The shard must be locked.
func (s *Shard[R]) Get(subject *limit.Subject) *Entry[R] {
	if e := s.Find(subject); e != nil {
		return e
	}
	ring := &s.rings[subject.Kind()]
	var e *Entry[R]
	if len(ring.entries) >= ring.bound {
		e = ring.victim(s.hooks.Pinned)
	}
	if e == nil {
		e = &Entry[R]{}
		ring.entries = append(ring.entries, e)
	} else {
		s.remove(e)
		s.hooks.Evicted(e.subject, &e.Record)
	}
	e.subject = subject.Clone()
	e.next = s.entries[subject.Hash()]
	s.entries[subject.Hash()] = e
	return e
}

// remove takes e out of its chain.
func (s *Shard[R]) remove(e *Entry[R]) {
	hash := e.subject.Hash()
	at := s.entries[hash]
	if at == e {
		if e.next == nil {
			delete(s.entries, hash)
		} else {
			s.entries[hash] = e.next
		}
		return
	}
	for at.next != e {
		at = at.next
	}
	at.next = e.next
}

// Again returns e if it still is subject's, else what Get returns: for a caller
// that unlocked the shard in between. The shard must be locked.
func (s *Shard[R]) Again(e *Entry[R], subject *limit.Subject) *Entry[R] {
	if e.subject == *subject {
		return e
	}
	return s.Get(subject)
}

// Mark puts e on the shard's list of entries that Sweep visits, once.
func (s *Shard[R]) Mark(e *Entry[R]) {
	if !e.marked {
		e.marked = true
		s.marked = append(s.marked, e)
	}
}

// Sweep visits the marked entries of each shard in the order in which they were
// marked, under the shard's lock; those for which visit returns false are
// unmarked. An entry may have been evicted and be another subject's since.
func (t *Table[R]) Sweep(visit func(*Entry[R]) (keep bool)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		kept := s.marked[:0]
		for _, e := range s.marked {
			if e.marked = visit(e); e.marked {
				kept = append(kept, e)
			}
		}
		clear(s.marked[len(kept):])
		s.marked = kept
		s.Unlock()
	}
}

// victim passes the hand over the ring until it finds an entry that was not
// used since its last round and is not pinned. Two rounds pass every entry
// unused; nil means that all are pinned.
func (r *ring[R]) victim(pinned func(*R) bool) *Entry[R] {
	for range 2 * len(r.entries) {
		e := r.entries[r.hand]
		r.hand = (r.hand + 1) % len(r.entries)
		if !e.used && !pinned(&e.Record) {
			return e
		}
		e.used = false
	}
	return nil
}
