package bench

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/table"
)

// A limit that a benchmark cannot reach, and one that is gone after one request
// and stays so while the benchmark runs.
var (
	ample = limit.Limit{Rate: limit.RateMax, Burst: limit.BurstMax}
	once  = limit.Limit{Rate: limit.RateMin, Burst: 1}
	quota = limit.Limit{Count: limit.CountMax, Window: 24 * time.Hour}
)

// rules are what one request meets.
type rules []*limit.Rule

func newRules(bucket limit.Limit) rules {
	rule := func(id string, algorithm limit.Algorithm, l limit.Limit) *limit.Rule {
		return &limit.Rule{
			Domain: "bench", ID: id, Plan: "plan", Kind: limit.Account,
			Algorithm: algorithm, Limit: l, Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountRequests,
			Tag: limit.TagOf("bench", id, algorithm),
		}
	}
	return rules{
		rule("plan-global", limit.TokenBucket, bucket),
		rule("labels-route", limit.TokenBucket, ample),
		rule("plan-daily", limit.FixedWindow, quota),
	}
}

// fill makes request one of the subject under the rules, as a ruleset does.
func (r rules) fill(request *limit.Request, subject limit.Subject) {
	request.Reset()
	for _, rule := range r {
		request.Charges = append(request.Charges, limit.Charge{Subject: subject, Rule: rule, Limit: rule.Limit, Cost: rule.Charge(1)})
	}
}

// newLimiter makes a limiter over a store in memory, as the gateway does without
// flags, and returns both.
func newLimiter(tb testing.TB, bounds table.Bounds) (*limiter.Limiter, *memory.Store) {
	tb.Helper()
	counters, err := memory.New(memory.Config{Bounds: bounds})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := limiter.New(limiter.Config{Store: counters, Bounds: bounds, Unpaced: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeLimiter(tb, l) })
	return l, counters
}

// closeLimiter has the limiter hand back what it holds.
func closeLimiter(tb testing.TB, l *limiter.Limiter) {
	tb.Helper()
	if err := l.Close(context.WithoutCancel(tb.Context())); err != nil {
		tb.Error(err)
	}
}

func subject(tb testing.TB, kind limit.Kind, id string) limit.Subject {
	tb.Helper()
	s, err := limit.NewSubject("bench", kind, id)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func accounts(tb testing.TB, n int) []limit.Subject {
	tb.Helper()
	all := make([]limit.Subject, n)
	for i := range all {
		all[i] = subject(tb, limit.Account, "acct_"+strconv.Itoa(i))
	}
	return all
}

// warm has each subject decided twice, so that its records exist and what is
// known of it is known. It fails unless the next verdict is want, and a refusal
// is decided without the store.
func warm(tb testing.TB, l *limiter.Limiter, r rules, subjects []limit.Subject, want limit.Verdict) {
	tb.Helper()
	var request limit.Request
	var decision limit.Decision
	for range 2 {
		for _, s := range subjects {
			r.fill(&request, s)
			l.Check(tb.Context(), &request, &decision)
		}
	}
	for _, s := range subjects {
		r.fill(&request, s)
		l.Check(tb.Context(), &request, &decision)
		if decision.Verdict != want || want == limit.Denied && decision.DecidedBy >= limit.ByStore {
			tb.Fatalf("set-up: %v is %v by %v, want %v, a refusal in the process", s, decision.Verdict, decision.DecidedBy, want)
		}
	}
}

// uniform returns a stream of indices below n, evenly distributed.
func uniform(seed uint64, n int) func() int {
	random := rand.New(rand.NewPCG(seed, 0))
	return func() int { return random.IntN(n) }
}
