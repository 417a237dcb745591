package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	golimiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store/memory"
)

// plenty is a limit that lends as a large one does, and that no benchmark
// empties.
var plenty = limit.Limit{Rate: limit.RateMax, Burst: 1e8}

const (
	slice    = 2000                   // requests: about half a millisecond, well above a clock reading
	warmUp   = 200 * time.Millisecond // 20 slots of demand, by which leases are sized
	leaseHit = 0.99                   // part of the requests that a lease must pay, or it is not what is measured
)

// contestant is one way to decide a request.
type contestant struct {
	name   string
	decide func()
}

// BenchmarkRatios reports how many times Allow of x/time/rate each way to decide
// takes, for one hot account: the median over slices that take turns within one
// run, so that what the machine does meanwhile falls on all. One iteration is one
// turn of all.
//
// A lease pays for requests of two rules; knowledge and the cap refuse them, and
// counting after admits them, by one. Of the others none tells what is left of two
// limits, and none but go-limiter finds the account's bucket by itself.
func BenchmarkRatios(b *testing.B) {
	all := []contestant{
		{"lease-2-rules", leased(b)},
		{"knowledge-1-rule", refusing(b, limit.ByKnowledge)},
		{"cap-1-rule", refusing(b, limit.ByCap)},
		{"count-after-1-rule", counting(b)},
		{"go-limiter", goLimiter(b)},
		{"syncmap-atomic", syncMapAtomic()},
	}
	bucket := rate.NewLimiter(rate.Limit(plenty.Rate), int(plenty.Burst))
	ratios, times := make([][]float64, len(all)), make([][]float64, len(all))
	var allow []float64
	for b.Loop() {
		base := perCall(slice, func() { bucket.Allow() })
		allow = append(allow, base)
		for i, c := range all {
			took := perCall(slice, c.decide)
			ratios[i], times[i] = append(ratios[i], took/base), append(times[i], took)
		}
	}
	b.ReportMetric(median(allow), "ns/allow")
	for i, c := range all {
		b.ReportMetric(median(ratios[i]), c.name+"-x")
		b.ReportMetric(median(times[i]), c.name+"-ns")
	}
	b.ReportMetric(0, "ns/op") // of a turn of all: it means nothing
}

// BenchmarkCores reports what 2 cores give of 1, over 1,000 accounts that are
// asked for uniformly: requests a second, and how many times those of one core.
// The slices of both, and of the others, take turns.
func BenchmarkCores(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("needs two cores")
	}
	const accountsAsked, parallelSlice = 1000, 20_000
	var mapped sync.Map
	who := accounts(b, accountsAsked)
	for _, s := range who {
		mapped.Store(s, rate.NewLimiter(rate.Limit(plenty.Rate), int(plenty.Burst)))
	}
	l := newPaced(b)
	r := twoRules(plenty)
	workers := []struct {
		name string
		make func(seed uint64) func()
	}{
		{"lease-2-rules", func(seed uint64) func() { return many(b, l, r, who, seed) }},
		{"syncmap-time/rate", func(seed uint64) func() {
			next := uniform(seed, accountsAsked)
			return func() {
				v, _ := mapped.Load(who[next()])
				v.(*rate.Limiter).Allow()
			}
		}},
	}
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	gains, rates := make([][]float64, len(workers)), make([][]float64, len(workers))
	warmFor(workers[0].make(9))
	for b.Loop() {
		for i, w := range workers {
			var perSecond [3]float64
			for cores := 1; cores <= 2; cores++ {
				runtime.GOMAXPROCS(cores)
				var deciding sync.WaitGroup
				start := time.Now()
				for k := range cores {
					decide := w.make(uint64(k + 1))
					deciding.Go(func() {
						for range parallelSlice {
							decide()
						}
					})
				}
				deciding.Wait()
				perSecond[cores] = float64(cores*parallelSlice) / time.Since(start).Seconds()
			}
			gains[i], rates[i] = append(gains[i], perSecond[2]/perSecond[1]), append(rates[i], perSecond[2])
		}
	}
	for i, w := range workers {
		b.ReportMetric(median(gains[i]), w.name+"-x-of-1-core")
		b.ReportMetric(median(rates[i]), w.name+"-2-cores/s")
	}
	b.ReportMetric(0, "ns/op") // of a turn of all
}

// newPaced is a limiter that lends as one over a store elsewhere does.
func newPaced(tb testing.TB) *limiter.Limiter {
	tb.Helper()
	return newPacedOver(tb, newCounters(tb))
}

func newCounters(tb testing.TB) *memory.Store {
	tb.Helper()
	counters, err := memory.New(memory.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return counters
}

func newPacedOver(tb testing.TB, counters *memory.Store) *limiter.Limiter {
	tb.Helper()
	l, err := limiter.New(limiter.Config{Store: counters})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeLimiter(tb, l) })
	return l
}

// twoRules are the buckets of newRules without the quota.
func twoRules(l limit.Limit) rules {
	all := newRules(l)[:2]
	all[1].Limit = l
	return all
}

// one decides requests of one subject, the request made beforehand.
func one(tb testing.TB, l *limiter.Limiter, r rules, s limit.Subject) func() {
	var request limit.Request
	var decision limit.Decision
	r.fill(&request, s)
	ctx := tb.Context()
	return func() { l.Check(ctx, &request, &decision) }
}

// many decides requests of the subjects, uniformly distributed.
func many(tb testing.TB, l *limiter.Limiter, r rules, who []limit.Subject, seed uint64) func() {
	var request limit.Request
	var decision limit.Decision
	ctx, next := tb.Context(), uniform(seed, len(who))
	return func() {
		r.fill(&request, who[next()])
		l.Check(ctx, &request, &decision)
	}
}

// warmFor lets the demand be known.
func warmFor(decide func()) {
	for start := time.Now(); time.Since(start) < warmUp; {
		for range 100 {
			decide()
		}
	}
}

// leased is what admits by lease, after it was seen to.
func leased(tb testing.TB) func() {
	tb.Helper()
	l, who := newPaced(tb), accounts(tb, 1)
	warmFor(one(tb, l, twoRules(plenty), who[0]))
	var request limit.Request
	var decision limit.Decision
	twoRules(plenty).fill(&request, who[0])
	hits := 0
	for range slice {
		if l.Check(tb.Context(), &request, &decision); decision.Verdict == limit.Allowed && decision.DecidedBy == limit.ByLease {
			hits++
		}
	}
	if part := float64(hits) / slice; part < leaseHit {
		tb.Fatalf("set-up: a lease pays %.1f %% of the requests, want %.1f %%", 100*part, 100*leaseHit)
	}
	return one(tb, l, twoRules(plenty), who[0])
}

// refusing is what refuses by the cap, for this limiter has had the only token, or
// by knowledge, for another one has. What is known is asked for anew once a second.
func refusing(tb testing.TB, by limit.DecidedBy) func() {
	tb.Helper()
	counters := newCounters(tb)
	l, who, r := newPacedOver(tb, counters), accounts(tb, 1), newRules(once)[:1]
	if by == limit.ByKnowledge {
		one(tb, newPacedOver(tb, counters), r, who[0])()
	}
	warm(tb, l, r, who, limit.Denied)
	var request limit.Request
	var decision limit.Decision
	r.fill(&request, who[0])
	if l.Check(tb.Context(), &request, &decision); decision.DecidedBy != by {
		tb.Fatalf("set-up: %v refuses, want %v", decision.DecidedBy, by)
	}
	return one(tb, l, r, who[0])
}

// counting is what counts after.
func counting(tb testing.TB) func() {
	tb.Helper()
	l, who, r := newPaced(tb), accounts(tb, 1), newRules(plenty)[:1]
	r[0].Check = limit.CheckAfter
	warm(tb, l, r, who, limit.Allowed)
	return one(tb, l, r, who[0])
}

// goLimiter is the store in memory of sethvargo/go-limiter, which counts in
// fixed intervals and finds the account by its name.
func goLimiter(tb testing.TB) func() {
	tb.Helper()
	var s golimiter.Store
	s, err := memorystore.New(&memorystore.Config{Tokens: 1 << 62, Interval: time.Hour})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	ctx := tb.Context()
	if _, _, _, ok, err := s.Take(ctx, "acct_0"); err != nil || !ok {
		tb.Fatal(fmt.Errorf("set-up: go-limiter refuses: %w", err))
	}
	return func() { _, _, _, _, _ = s.Take(ctx, "acct_0") }
}

// syncMapAtomic is the least that can be done: a count that is found by name
// and goes down, never refilled.
func syncMapAtomic() func() {
	var counts sync.Map
	counts.Store("acct_0", &atomic.Int64{})
	return func() {
		v, _ := counts.Load("acct_0")
		v.(*atomic.Int64).Add(-1)
	}
}
