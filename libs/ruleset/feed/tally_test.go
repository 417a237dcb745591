package feed

import (
	"sync"
	"testing"

	"github.com/shiplane/limits/libs/limit"
)

func counted(t *Tally, rule string, number int64) (evaluated, refused int64, known bool) {
	for _, c := range t.report() {
		if c.Rule == rule && c.Version == number {
			return c.Evaluated, c.Refused, true
		}
	}
	return 0, 0, false
}

// Only what a rule decided counts: not where another rule refused first, nor where its
// counter did not answer, and a rule in shadow only as it tells itself.
func TestOnlyDecisionsCount(t *testing.T) {
	var tally Tally
	rule, shadow := &limit.Rule{ID: "a", Version: 3, Mode: limit.Enforce}, &limit.Rule{ID: "a@4", Version: 4, Mode: limit.Shadow}
	for _, o := range []limit.Outcome{
		{Rule: rule}, {Rule: rule, DecidedBy: limit.ByFallback}, {Rule: rule, DecidedBy: limit.ByFailClosed, Short: true},
		{Rule: rule, DecidedBy: limit.ByBan, Short: true}, {Rule: rule, DecidedBy: limit.ByLease}, {Rule: shadow, DecidedBy: limit.ByLease, Short: true},
	} {
		tally.Count(&limit.Decision{Outcomes: []limit.Outcome{o}})
	}
	tally.Shadow(shadow, 5, 2)
	if evaluated, refused, _ := counted(&tally, "a", 3); evaluated != 2 || refused != 1 {
		t.Errorf("the rule counts %d, %d", evaluated, refused)
	}
	if evaluated, refused, _ := counted(&tally, "a", 4); evaluated != 5 || refused != 2 {
		t.Errorf("the candidate counts %d, %d", evaluated, refused)
	}
}

// Counting loses nothing while rulesets are replaced, also for requests that still
// hold an old one; and what is no longer in force is told for a while only.
func TestCountsOutliveRulesets(t *testing.T) {
	var tally Tally
	const workers, each = 4, 2000
	rules := make([]*limit.Rule, 500)
	for i := range rules {
		rules[i] = &limit.Rule{ID: "a", Version: int64(i / 100), Mode: limit.Enforce} // the same version by several pointers
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range each {
				tally.Count(&limit.Decision{Outcomes: []limit.Outcome{{Rule: rules[i%len(rules)], DecidedBy: limit.ByLease, Short: i%2 == 0}}})
			}
		})
	}
	all.Go(func() {
		for i := range 50 {
			tally.follow(rules[i%2:])
		}
	})
	all.Wait()
	var evaluated, refused int64
	for _, c := range tally.report() {
		evaluated, refused = evaluated+c.Evaluated, refused+c.Refused
	}
	if evaluated != workers*each || refused != workers*each/2 {
		t.Errorf("counted %d requests and %d refusals", evaluated, refused)
	}
	for i := range retiredMax + 10 {
		rule := &limit.Rule{ID: "b", Version: int64(i)}
		tally.Shadow(rule, 1, 0)
		tally.follow([]*limit.Rule{rule})
	}
	if n := len(tally.report()); n != retiredMax+1 {
		t.Errorf("%d versions are told of, want the one in force and the last %d", n, retiredMax)
	}
	if _, _, known := counted(&tally, "b", retiredMax+9); !known {
		t.Error("the version in force is not told of")
	}
}

// Counting allocates nothing.
func TestCountingAllocatesNothing(t *testing.T) {
	var tally Tally
	d := &limit.Decision{Outcomes: []limit.Outcome{
		{Rule: &limit.Rule{ID: "a", Mode: limit.Enforce}, DecidedBy: limit.ByLease},
		{Rule: &limit.Rule{ID: "b", Mode: limit.Enforce}, DecidedBy: limit.ByLease, Short: true},
	}}
	if n := testing.AllocsPerRun(100, func() { tally.Count(d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTally counts a decision of two rules, from all cores at once.
func BenchmarkTally(b *testing.B) {
	var tally Tally
	rules := [2]*limit.Rule{{ID: "a", Mode: limit.Enforce}, {ID: "b", Mode: limit.Enforce}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		d := &limit.Decision{Outcomes: []limit.Outcome{{Rule: rules[0], DecidedBy: limit.ByLease}, {Rule: rules[1], DecidedBy: limit.ByLease}}}
		for pb.Next() {
			tally.Count(d)
		}
	})
	if evaluated, _, _ := counted(&tally, "a", 0); evaluated != int64(b.N) {
		b.Errorf("counted %d of %d", evaluated, b.N)
	}
}
