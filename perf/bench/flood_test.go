package bench

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/table"
)

const (
	inUse        = 1000   // accounts
	floodBetween = 10_000 // keys that come between two requests of each account in use

	// recordBytes bounds what one subject takes in the limiter and the store
	// together: two keys of two strings, two entries, the states of three
	// rules and their index: 1,300 bytes where the maps are tight, 1,600 once
	// they have grown by deletions.
	recordBytes = 1800
)

// However many keys come once, a third of each kind, the memory of limiter and
// store stays under the bounds of their tables times the size of a record, and
// no account that is in use is evicted from either: each has been charged
// exactly what it was admitted. The ten million go through smaller tables, which
// evict the sooner, for the sake of the time it takes.
func TestFloodOfKeysEvictsNobodyInUse(t *testing.T) {
	for _, c := range []struct {
		name   string
		keys   int
		bounds table.Bounds
		slow   bool
	}{
		{"one million keys, the default bounds", 1_000_000, table.DefaultBounds, true},
		{"one million keys, small bounds", 1_000_000, table.Bounds{IPs: 1 << 13, Users: 1 << 13, Accounts: 1 << 13}, false},
		{"ten million keys, small bounds", 10_000_000, table.Bounds{IPs: 1 << 13, Users: 1 << 13, Accounts: 1 << 13}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && testing.Short() {
				t.Skip("takes many seconds")
			}
			floodWith(t, c.keys, c.bounds)
		})
	}
}

func floodWith(t *testing.T, keys int, bounds table.Bounds) {
	before := heap()
	f := flood{t: t, limiter: newLimiter(t, bounds), rules: newRules(limit.Limit{Rate: limit.RateMin, Burst: limit.BurstMax}), who: accounts(t, inUse)}
	for first := 0; first < keys; first += floodBetween {
		f.askInUse()
		f.askOnce(first, first+floodBetween)
	}
	f.askInUse()

	bound := int64(bounds.IPs+bounds.Users+bounds.Accounts) * recordBytes
	grown := heap() - before
	t.Logf("%d keys: the heap grew by %.1f MiB, the bound is %.1f MiB", keys, float64(grown)/(1<<20), float64(bound)/(1<<20))
	if grown > bound {
		t.Errorf("the heap grew by %d bytes, want at most %d", grown, bound)
	}
	runtime.KeepAlive(&f) // or there were nothing left to measure
}

// flood asks a limiter on behalf of accounts in use and of keys that come once.
type flood struct {
	t        *testing.T
	limiter  *limiter.Limiter
	rules    rules
	who      []limit.Subject
	rounds   int64 // of requests of the accounts in use
	request  limit.Request
	decision limit.Decision
}

// askInUse sends one request of each account in use. Its bucket and its quota
// show every request before: a counter that was evicted is full again.
func (f *flood) askInUse() {
	f.rounds++
	for _, s := range f.who {
		f.rules.fill(&f.request, s)
		f.limiter.Check(f.t.Context(), &f.request, &f.decision)
		if f.decision.Verdict != limit.Allowed {
			f.t.Fatalf("%v is %v by %v, want allowed", s, f.decision.Verdict, f.decision.DecidedBy)
		}
		bucket, count := f.decision.Outcomes[0].Remaining, f.decision.Outcomes[2].Remaining
		if bucket != limit.BurstMax-f.rounds || count != limit.CountMax-f.rounds {
			f.t.Fatalf("after %d requests %v has %d tokens and a quota of %d left, want %d and %d: it was evicted",
				f.rounds, s, bucket, count, limit.BurstMax-f.rounds, limit.CountMax-f.rounds)
		}
	}
}

// askOnce sends one request of each key from first to end.
func (f *flood) askOnce(first, end int) {
	kinds := [limit.Kinds]limit.Kind{limit.IP, limit.User, limit.Account}
	for i := first; i < end; i++ {
		f.rules.fill(&f.request, subject(f.t, kinds[i%len(kinds)], "once_"+strconv.Itoa(i)))
		if f.limiter.Check(f.t.Context(), &f.request, &f.decision); f.decision.Verdict != limit.Allowed {
			f.t.Fatalf("key %d is %v by %v, want allowed", i, f.decision.Verdict, f.decision.DecidedBy)
		}
	}
}

// heap is what is reachable, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
