package limiter

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/storetest"
)

// describeStats is for scenarios: the calls, and a line for each rule.
func describeStats(all Stats) []string {
	out := []string{fmt.Sprintf("%d asks, %d errands", all.Asks, all.Errands)}
	slices.SortFunc(all.Rules, func(a, b RuleStats) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range all.Rules {
		line := fmt.Sprintf("  %s leased=%d returned=%d lost=%d held=%d stranded=%d holds=%d", r.ID, r.Leased, r.Returned, r.Lost, r.Held, r.Stranded, r.Holds)
		if hot := r.Hottest; hot.Admitted > 0 {
			line += fmt.Sprintf(" hottest=%v %d of %.0f", hot.Subject, hot.Admitted, hot.Entitled)
		}
		out = append(out, line)
	}
	return out
}

// Whatever is asked, edited and fails: each token that the store has granted a
// pod is counted as spent, returned, lost or held, once.
func TestEveryTokenIsCounted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		rules := []*limit.Rule{
			storetest.Bucket("account", 100, 200), storetest.Bucket("route", 50, 20),
			storetest.Window("quota", 300, time.Second), storetest.Log("log", 10, time.Second),
		}
		address := storetest.Bucket("address", 1000, 2000)
		address.Kind = limit.IP
		spent := map[string]int64{}
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			w.now += time.Duration(rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 1500)).Draw(rt, "wait")) * time.Millisecond
			w.fault = nil
			if rapid.IntRange(0, 9).Draw(rt, "fails") == 0 {
				w.fault = store.ErrTimeout
			}
			if rapid.IntRange(0, 20).Draw(rt, "edit") == 0 {
				edited := *rules[0]
				edited.Limit = limit.Limit{Rate: limit.Rate(rapid.IntRange(1, 200).Draw(rt, "rate")), Burst: rapid.Int64Range(1, 300).Draw(rt, "burst")}
				rules[0] = &edited
			}
			pod := w.pod(fmt.Sprint(rapid.IntRange(1, 2).Draw(rt, "pod")))
			var request limit.Request
			add := func(r *limit.Rule, id string) {
				if rapid.Bool().Draw(rt, "meets "+r.ID) {
					request.Charges = append(request.Charges, limit.Charge{
						Subject: storetest.Subject(t, r.Kind, id), Rule: r, Limit: r.Limit, Cost: r.Charge(rapid.Int64Range(1, 5).Draw(rt, "cost")),
					})
				}
			}
			add(address, "203.0.113.9")
			for _, r := range rules {
				add(r, "acme")
			}
			for range rapid.IntRange(1, 20).Draw(rt, "times") {
				var decision limit.Decision
				w.decide(pod, &request, &decision)
				w.errands()
				addSpent(spent, &decision)
			}
			pod.Sweep(w.now)
			w.errands()
		}
		for _, pod := range w.order {
			pod.Sweep(w.now)
			w.errands()
		}
		for rule, counted := range w.unspent() {
			if counted != spent[rule] {
				rt.Errorf("%s: %d tokens were leased and neither returned, lost nor held, %d were spent", rule, counted, spent[rule])
			}
		}
	})
}

// addSpent adds what an admitted request took of tokens that the store granted.
func addSpent(spent map[string]int64, d *limit.Decision) {
	if d.Verdict != limit.Allowed {
		return
	}
	for _, o := range d.Outcomes {
		if o.DecidedBy == limit.ByLease || o.DecidedBy == limit.ByStore {
			spent[o.Rule.ID] += o.Cost
		}
	}
}

// unspent is what the pods' counts say that was spent, by rule.
func (w *world) unspent() map[string]int64 {
	sums := map[string]int64{}
	for _, pod := range w.order {
		for _, r := range pod.Stats().Rules {
			sums[r.ID] += r.Leased - r.Returned - r.Lost - r.Held
		}
	}
	return sums
}

// Rules beyond the bound are counted together, without a name.
func TestRulesCountedAreBounded(t *testing.T) {
	var c Core
	for i := range rulesCounted + 3 {
		c.book.of(storetest.Bucket(fmt.Sprint(i), 1, 10)).leased.Add(2)
	}
	all := c.Stats().Rules
	if len(all) != rulesCounted+1 {
		t.Fatalf("%d rules are counted, want %d and those beyond", len(all), rulesCounted)
	}
	if last := all[len(all)-1]; last.ID != "" || last.Leased != 6 {
		t.Errorf("those beyond: %+v, want 6 leased and no name", last)
	}
}
