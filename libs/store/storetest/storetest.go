package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// Harness is a store under test and its clock.
type Harness struct {
	Store store.Store // empty, for this test alone
	// SetClock sets the store's clock, back or forth, to a time since
	// store.Epoch; it stands still in between.
	SetClock func(time.Duration)
}

// Run runs the suite. open is called once a test and cleans up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"AllOrNothing", allOrNothing},
		{"RefusalChangesNothing", refusalChangesNothing},
		{"RefillAndRetry", refillAndRetry},
		{"CostAboveTheLimitIsNever", never},
		{"FractionsAreNotRounded", fractions},
		{"ShadowNeverRefuses", shadow},
		{"GrantsBetweenNeedAndWant", grants},
		{"GivesComeFirst", gives},
		{"StaleGivesAreIgnored", staleGives},
		{"GivesAloneSucceed", givesAlone},
		{"WindowsAreAlignedToUTC", windows},
		{"LogsLendNothing", logsLendNothing},
		{"QuotaOutlivesBucketOnlyAsks", quotaOutlives},
		{"LogsKeepAcceptedAttemptsOnly", logs},
		{"LogsCountCostAndTakeBackAttempts", logGives},
		{"EditsCarryOver", edits},
		{"ClockStepsBack", clockStepsBack},
		{"YearsOfIdleness", idleness},
		{"SubjectsAreApart", apart},
		{"ManyRulesOfOneSubject", manyRules},
		{"MalformedAsksAreRefusedWhole", malformed},
		{"LastTokenIsSpentOnce", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(newBench(t, open(t))) })
	}
}

// bench is a test's hands on the store: short ways to say an ask and what is expected.
type bench struct {
	*testing.T
	Harness
	now     time.Duration
	subject limit.Subject
}

// start is where the clock begins: noon of a day, so that windows of up to a
// day are in their middle.
const start = 300*24*time.Hour + 12*time.Hour

func newBench(t *testing.T, h Harness) *bench {
	b := &bench{T: t, Harness: h, now: start, subject: Subject(t, limit.Account, "acct_7Q2")}
	h.SetClock(start)
	return b
}

// Subject makes a subject of the domain "storetest".
func Subject(t testing.TB, kind limit.Kind, id string) limit.Subject {
	t.Helper()
	s, err := limit.NewSubject("storetest", kind, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Bucket is an enforced token bucket rule.
func Bucket(id string, rate limit.Rate, burst int64) *limit.Rule {
	return rule(id, limit.TokenBucket, limit.Limit{Rate: rate, Burst: burst})
}

// Window is an enforced fixed window rule.
func Window(id string, count int64, length time.Duration) *limit.Rule {
	return rule(id, limit.FixedWindow, limit.Limit{Count: count, Window: length})
}

// Log is an enforced sliding log rule.
func Log(id string, count int64, length time.Duration) *limit.Rule {
	return rule(id, limit.SlidingLog, limit.Limit{Count: count, Window: length})
}

// Shadowed returns a copy of the rule in shadow.
func Shadowed(r *limit.Rule) *limit.Rule {
	c := *r
	c.Mode = limit.Shadow
	return &c
}

func rule(id string, a limit.Algorithm, l limit.Limit) *limit.Rule {
	return &limit.Rule{
		Domain: "storetest", ID: id, Kind: limit.Account, Algorithm: a, Limit: l,
		Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountCost,
		Tag: limit.TagOf("storetest", id, a),
	}
}

// need is an entry that needs n and wants no more.
func need(r *limit.Rule, n int64) store.Entry {
	return store.Entry{Rule: r, Limit: r.Limit, Need: n, Want: n}
}

// want is an entry that needs some and wants more.
func want(r *limit.Rule, need, want int64) store.Entry {
	return store.Entry{Rule: r, Limit: r.Limit, Need: need, Want: want}
}

// give is an entry that hands n back.
func give(r *limit.Rule, n int64, from time.Duration) store.Entry {
	return store.Entry{Rule: r, Limit: r.Limit, Give: n, GivenFrom: from}
}

func (b *bench) advance(d time.Duration) {
	b.Helper()
	b.now += d
	b.SetClock(b.now)
}

// take asks and fails the test on an error.
func (b *bench) take(entries ...store.Entry) store.Result {
	b.Helper()
	var result store.Result
	if err := b.Store.Take(context.Background(), &store.Ask{Subject: b.subject, Entries: entries}, &result); err != nil {
		b.Fatalf("Take: %v", err)
	}
	if result.At != b.now {
		b.Fatalf("the store's clock is %v, want %v", result.At, b.now)
	}
	return result
}

// left asks for nothing and returns what is left in each rule.
func (b *bench) left(rules ...*limit.Rule) []int64 {
	b.Helper()
	var entries []store.Entry
	for _, r := range rules {
		entries = append(entries, need(r, 0))
	}
	var left []int64
	for _, o := range b.take(entries...).Outcomes {
		left = append(left, o.Remaining)
	}
	return left
}

// expect compares a result's verdict and outcomes.
func (b *bench) expect(what string, got store.Result, allowed bool, outcomes ...store.Outcome) {
	b.Helper()
	want := store.Result{At: b.now, Allowed: allowed, Outcomes: outcomes}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (b *bench) expectLeft(what string, rules []*limit.Rule, want ...int64) {
	b.Helper()
	if got := b.left(rules...); fmt.Sprint(got) != fmt.Sprint(want) {
		b.Fatalf("%s: left %v, want %v", what, got, want)
	}
}
