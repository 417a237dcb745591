package bench

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/table"
)

// The paths that are measured.
var paths = []struct {
	name    string
	bucket  limit.Limit
	verdict limit.Verdict
}{
	{"admitted", ample, limit.Allowed},
	{"refused", once, limit.Denied},
}

// A decision in the process allocates nothing, admitted or refused: neither the
// limiter, the store nor the answer.
func TestDecisionsAllocateNothing(t *testing.T) {
	for _, path := range paths {
		t.Run(path.name, func(t *testing.T) {
			l, _ := newLimiter(t, table.Bounds{})
			r, who := newRules(path.bucket), accounts(t, 1000)
			warm(t, l, r, who, path.verdict)
			var request limit.Request
			var decision limit.Decision
			next := uniform(1, len(who))
			each := func() {
				r.fill(&request, who[next()])
				l.Check(t.Context(), &request, &decision)
			}
			each()
			// The pool of calls may be emptied by a collection between two
			// requests; one in a thousand is none of the path's.
			if n := testing.AllocsPerRun(10_000, each); n >= 1 {
				t.Errorf("%v allocations a request, want 0", n)
			}
		})
	}
}

// BenchmarkCheck is one goroutine on one account: the hottest key there is.
func BenchmarkCheck(b *testing.B) {
	for _, path := range paths {
		b.Run(path.name, func(b *testing.B) {
			l, _ := newLimiter(b, table.Bounds{})
			r, who := newRules(path.bucket), accounts(b, 1)
			warm(b, l, r, who, path.verdict)
			measure(b, l, r, who)
		})
	}
}

// BenchmarkCheckAccounts spreads requests uniformly over accounts, from one
// that every core contends for to 100,000 that fit no cache.
func BenchmarkCheckAccounts(b *testing.B) {
	for _, n := range []struct {
		name  string
		count int
	}{{"1", 1}, {"1000", 1000}, {"100000", 100_000}} {
		for _, path := range paths {
			b.Run(n.name+"/"+path.name, func(b *testing.B) {
				l, _ := newLimiter(b, table.Bounds{})
				r, who := newRules(path.bucket), accounts(b, n.count)
				warm(b, l, r, who, path.verdict)
				measureParallel(b, l, r, who)
			})
		}
	}
}

// BenchmarkTimeRate is the comparator: Allow on one bucket without a map, by
// one goroutine and by all cores.
func BenchmarkTimeRate(b *testing.B) {
	b.Run("serial", func(b *testing.B) {
		bucket := rate.NewLimiter(rate.Limit(ample.Rate), int(ample.Burst))
		b.ReportAllocs()
		for b.Loop() {
			bucket.Allow()
		}
	})
	b.Run("parallel", func(b *testing.B) {
		bucket := rate.NewLimiter(rate.Limit(ample.Rate), int(ample.Burst))
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				bucket.Allow()
			}
		})
	})
}

// measure decides requests of subjects, uniformly distributed, one at a time.
func measure(b *testing.B, l *limiter.Limiter, r rules, who []limit.Subject) {
	var request limit.Request
	var decision limit.Decision
	next := uniform(1, len(who))
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		r.fill(&request, who[next()])
		l.Check(ctx, &request, &decision)
	}
}

// measureParallel does so on all cores, each with a source of its own.
func measureParallel(b *testing.B, l *limiter.Limiter, r rules, who []limit.Subject) {
	var seed atomic.Uint64
	ctx := b.Context()
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var request limit.Request
		var decision limit.Decision
		next := uniform(seed.Add(1), len(who))
		for pb.Next() {
			r.fill(&request, who[next()])
			l.Check(ctx, &request, &decision)
		}
	})
}

// perCall is the mean time of one call, in nanoseconds.
func perCall(n int, call func()) float64 {
	start := time.Now()
	for range n {
		call()
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
