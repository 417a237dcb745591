package bench

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/table"
)

const (
	inUse        = 1000   // accounts
	floodBetween = 10_000 // keys that come between two requests of each account in use

	// recordBytes bounds what one subject takes in the limiter and the store
	// together: two keys of two strings, two entries, the states of three
	// rules and their index. Measured: 1,580.
	recordBytes = 1800
)

// long adds what takes a minute: make bench gives it.
var long = flag.Bool("long", false, "flood with ten million keys, too")

// However many keys come once, a third of each kind, the memory of limiter and
// store stays under the bounds of their tables times the size of a record, and
// no account that is in use is evicted: its counters remember every request, for
// one that was evicted is full when it comes back. To take less time, the ten
// million meet one rule each and go through smaller tables, which evict sooner.
func TestFloodOfKeysEvictsNobodyInUse(t *testing.T) {
	small := table.Bounds{IPs: 1 << 13, Users: 1 << 13, Accounts: 1 << 13}
	for _, c := range []struct {
		name   string
		keys   int
		bounds table.Bounds
		rules  int // that a key meets which comes once
		skip   bool
	}{
		{"the default bounds", 1_000_000, table.DefaultBounds, 3, testing.Short()},
		{"small bounds", 1_000_000, small, 3, false},
		{"ten million", 10_000_000, small, 1, !*long},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.skip {
				t.Skip("takes many seconds: -long, and not -short")
			}
			floodWith(t, c.keys, c.bounds, c.rules)
		})
	}
}

func floodWith(t *testing.T, keys int, bounds table.Bounds, perKey int) {
	before := heap()
	all := newRules(limit.Limit{Rate: limit.RateMin, Burst: limit.BurstMax})
	f := flood{t: t, rules: all, rulesOnce: all[:perKey], who: accounts(t, inUse)}
	f.limiter, f.counters = newLimiter(t, bounds)
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
	closeLimiter(t, f.limiter)
	f.remember()
}

// flood asks a limiter on behalf of accounts in use and of keys that come once.
type flood struct {
	t                *testing.T
	limiter          *limiter.Limiter
	counters         *memory.Store
	rules, rulesOnce rules
	who              []limit.Subject
	rounds           int64 // of requests of the accounts in use
	request          limit.Request
	decision         limit.Decision
}

// askInUse sends one request of each account in use.
func (f *flood) askInUse() {
	f.rounds++
	for _, s := range f.who {
		f.ask(s, f.rules)
	}
}

// askOnce sends one request of each key from first to end.
func (f *flood) askOnce(first, end int) {
	kinds := [limit.Kinds]limit.Kind{limit.IP, limit.User, limit.Account}
	for i := first; i < end; i++ {
		f.ask(subject(f.t, kinds[i%len(kinds)], "once_"+strconv.Itoa(i)), f.rulesOnce)
	}
}

func (f *flood) ask(s limit.Subject, met rules) {
	met.fill(&f.request, s)
	if f.limiter.Check(f.t.Context(), &f.request, &f.decision); f.decision.Verdict != limit.Allowed {
		f.t.Fatalf("%v is %v by %v, want allowed", s, f.decision.Verdict, f.decision.DecidedBy)
	}
}

// remember fails unless the counters of every account in use have been charged
// each of its requests.
func (f *flood) remember() {
	var result store.Result
	for _, s := range f.who {
		ask := store.Ask{Subject: s}
		for _, r := range f.rules {
			ask.Entries = append(ask.Entries, store.Entry{Rule: r, Limit: r.Limit})
		}
		if err := f.counters.Take(f.t.Context(), &ask, &result); err != nil {
			f.t.Fatal(err)
		}
		for _, i := range []int{0, 2} { // the route's bucket refills at once
			if charged := f.rules[i].Limit.Size() - result.Outcomes[i].Remaining; charged < f.rounds {
				f.t.Errorf("%v was charged %d of %d requests by %s: it was evicted", s, charged, f.rounds, f.rules[i].ID)
			}
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
