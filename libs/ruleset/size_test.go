package ruleset

import (
	"fmt"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// overridden is a ruleset with n overrides.
func overridden(t testing.TB, n int) *Ruleset {
	t.Helper()
	set := &rulesv1.Ruleset{Domain: "public-api", Revision: 1, Rules: []*rulesv1.Rule{bucketRule("a", 10, 20)}}
	for i := range n {
		set.Overrides = append(set.Overrides, &rulesv1.Override{Id: fmt.Sprintf("o-%06d", i), Rule: "a", Key: fmt.Sprintf("acct_%d", i), Burst: proto.Int64(30)})
	}
	made, faults := Compile(set, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return made
}

// A change of one override allocates about as many bytes among 100,000 as among 10:
// what it copies does not grow with their number.
func TestChangeCostsWhatItChanges(t *testing.T) {
	cost := func(n int) uint64 {
		set := overridden(t, n)
		change := []*rulesv1.Change{putOf(&rulesv1.Override{Id: "o-000003", Rule: "a", Key: "acct_3", Burst: proto.Int64(40)})}
		const times = 50
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			if _, faults := set.Apply(change, 2); len(faults) > 0 {
				t.Fatal(faults)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / times
	}
	few, many := cost(10), cost(overridesMax)
	t.Logf("%d bytes among 10 overrides, %d among %d", few, many, overridesMax)
	// A part of each map, of some 100 entries: 20 and 7 KiB. A copy of one list of them
	// all would be 800 KiB.
	if many > few+100<<10 {
		t.Errorf("%d bytes among 10 overrides, %d among %d", few, many, overridesMax)
	}
}

func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			set := overridden(b, n)
			change := []*rulesv1.Change{putOf(&rulesv1.Override{Id: "o-000003", Rule: "a", Key: "acct_3", Burst: proto.Int64(40)})}
			b.ReportAllocs()
			for b.Loop() {
				set.Apply(change, 2)
			}
		})
	}
}

// large is a set of 1,000 rules and 40,000 overrides, as the whole product may have.
func large() *rulesv1.Ruleset {
	set := &rulesv1.Ruleset{Domain: "public-api", Revision: 1}
	for i := range 40 {
		set.Plans = append(set.Plans, &rulesv1.Plan{Id: fmt.Sprint("plan-", i)})
		set.Routes = append(set.Routes, &rulesv1.Route{Id: fmt.Sprint("route-", i), Match: []string{fmt.Sprint("GET /v1/route-", i)}})
	}
	for i := range 1000 {
		rule := bucketRule(fmt.Sprint("rule-", i), 10, 20)
		rule.Scope, rule.Plan, rule.Route = 0, fmt.Sprint("plan-", i%40), fmt.Sprint("route-", i/40)
		set.Rules = append(set.Rules, rule)
	}
	for i := range 40_000 {
		set.Overrides = append(set.Overrides, &rulesv1.Override{
			Id: fmt.Sprintf("o-%08d", i), Rule: fmt.Sprint("rule-", i%1000), Key: fmt.Sprintf("acct_%d", i), Burst: proto.Int64(30), Author: "ops", Reason: "launch week",
		})
	}
	return set
}

// BenchmarkCompile makes the snapshot of a large set; held-B is what it keeps of
// memory, its own copy of the set included.
func BenchmarkCompile(b *testing.B) {
	set := large()
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	made, faults := Compile(set, nil)
	if len(faults) > 0 {
		b.Fatal(faults)
	}
	keeps := held() - before
	b.ReportAllocs()
	for b.Loop() {
		if made, faults = Compile(set, nil); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
	b.ReportMetric(float64(keeps), "held-B")
	runtime.KeepAlive(made)
}
