package memory

import (
	"context"
	"slices"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	states "github.com/shiplane/limits/libs/store/counter"
	"github.com/shiplane/limits/libs/table"
)

// Config is what a Store is made of. The zero Config is the default.
type Config struct {
	Bounds table.Bounds         // zero: table.DefaultBounds
	Shards int                  // locks, a power of two; zero: 64
	Now    func() time.Duration // the store's clock since store.Epoch; nil: the system's, monotonic
}

// Store is a store.Store in memory. Safe for concurrent use.
type Store struct {
	table *table.Table[record]
	now   func() time.Duration
}

// record is all counters of one subject.
type record struct {
	counters []counter
}

type counter struct {
	states.Counter
	tag     uint32
	expires time.Duration // from when on it is full, as it was last seen
}

// New makes an empty store. An error names the bound or number of shards that
// is out of range.
func New(cfg Config) (*Store, error) {
	if cfg.Bounds == (table.Bounds{}) {
		cfg.Bounds = table.DefaultBounds
	}
	if cfg.Shards == 0 {
		cfg.Shards = 64
	}
	if cfg.Now == nil {
		cfg.Now = systemClock()
	}
	records, err := table.New(cfg.Bounds, cfg.Shards, table.Hooks[record]{Evicted: forget})
	if err != nil {
		return nil, err
	}
	return &Store{table: records, now: cfg.Now}, nil
}

// forget empties an evicted record and keeps its slice for the next subject.
func forget(_ limit.Subject, r *record) {
	clear(r.counters)
	r.counters = r.counters[:0]
}

// systemClock reads the wall clock once and then only the monotonic one.
func systemClock() func() time.Duration {
	start := time.Now()
	offset := start.Sub(store.Epoch)
	return func() time.Duration { return offset + time.Since(start) }
}

// Take implements store.Store. It does not block and ignores ctx.
func (s *Store) Take(_ context.Context, ask *store.Ask, result *store.Result) error {
	if err := ask.Validate(); err != nil {
		return err
	}
	shard := s.table.Shard(&ask.Subject)
	shard.Lock()
	// Within the lock, so that a subject's charges are in the order of their times.
	now := s.now().Truncate(time.Microsecond)
	shard.Get(&ask.Subject).Record.settle(now, ask.Entries, result)
	shard.Unlock()
	return nil
}

// settle applies an ask to the record, in the steps that every store takes:
// mend and give, look whether every entry has its need, take.
func (r *record) settle(now time.Duration, entries []store.Entry, result *store.Result) {
	result.At, result.Allowed = now, true
	result.Outcomes = result.Outcomes[:0]
	if len(r.counters) >= pruneAt {
		r.counters = slices.DeleteFunc(r.counters, func(c counter) bool { return c.expires+pruneGrace <= now })
	}
	old := len(r.counters)
	var counters [store.EntriesMax]int
	for i := range entries {
		e := &entries[i]
		counters[i] = r.find(now, e)
		c := &r.counters[counters[i]]
		c.Prepare(now, e)
		o := store.Outcome{Short: !c.Holds(now, e)}
		if o.Short && e.Rule.Mode != limit.Shadow {
			result.Allowed = false
		}
		result.Outcomes = append(result.Outcomes, o)
	}
	for i := range entries {
		e, o, c := &entries[i], &result.Outcomes[i], &r.counters[counters[i]]
		o.Never = e.Need > e.Limit.Size()
		if o.Short && !o.Never {
			o.Retry = c.Wait(now, e)
		}
		if result.Allowed && !o.Short && e.Want > 0 {
			o.Granted = c.Take(now, e)
		}
		o.Remaining, o.Reset = c.Rest(now, e)
		c.expires = now + o.Reset
	}
	// What was not there and was granted nothing stays away: no counter is a full
	// one under any limit.
	for i := len(r.counters) - 1; i >= old; i-- {
		if at := slices.Index(counters[:len(entries)], i); result.Outcomes[at].Granted == 0 {
			r.counters = slices.Delete(r.counters, i, i+1)
		}
	}
}

// pruneAt is the number of counters from which a record drops those that are
// full again: rules come and go, an account's record must not grow with them.
const pruneAt = 16

// pruneGrace is how long a counter that is full again is kept all the same: an
// edit to a slower limit must find what was drained under the faster.
const pruneGrace = time.Minute

// find returns the index of the entry's counter and makes a full one if there is none.
func (r *record) find(now time.Duration, e *store.Entry) int {
	for i := range r.counters {
		if r.counters[i].tag == e.Rule.Tag {
			return i
		}
	}
	r.counters = append(r.counters, counter{Counter: states.Fresh(now, e), tag: e.Rule.Tag})
	return len(r.counters) - 1
}
