package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
)

// Histories plays random histories through the store and through the
// in-process one, by the same clock, and compares every reply to the last bit:
// all algorithms, needs and wants, gives, shadow, edits, clocks that step. open
// is called once; histories are kept apart by their subjects.
func Histories(t *testing.T, open func(t *testing.T) Harness) {
	h := open(t)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		now := start
		oracle, err := memory.New(memory.Config{Shards: 1, Now: func() time.Duration { return now }})
		if err != nil {
			rt.Fatal(err)
		}
		g := history{rules: drawRules(rt)}
		subjects := []limit.Subject{Subject(t, limit.Account, fmt.Sprint("acct_", run)), Subject(t, limit.User, fmt.Sprint("{u\x00 ", run))}
		for step := range rapid.IntRange(1, 40).Draw(rt, "steps") {
			now += drawStep(rt)
			h.SetClock(now)
			ask := store.Ask{Subject: rapid.SampledFrom(subjects).Draw(rt, "subject"), Entries: g.draw(rt)}
			var got, want store.Result
			if err := h.Store.Take(context.Background(), &ask, &got); err != nil {
				rt.Fatalf("step %d: %v", step, err)
			}
			if err := oracle.Take(context.Background(), &ask, &want); err != nil {
				rt.Fatalf("step %d: the oracle: %v", step, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("step %d, %+v (-oracle +store):\n%s", step, ask, diff)
			}
			g.note(&ask, &got)
		}
	})
}

// history is what a run of asks can refer back to.
type history struct {
	rules  []*limit.Rule
	grants []store.Entry // that could be handed back
	member uint64
}

func drawRules(t *rapid.T) []*limit.Rule {
	rules := []*limit.Rule{
		Bucket("b1", limit.Rate(rapid.Float64Range(0.01, 1e5).Draw(t, "rate")), rapid.Int64Range(1, 2000).Draw(t, "burst")),
		Bucket("b2", 1.0/3, 7),
		Window("w1", rapid.Int64Range(1, 3000).Draw(t, "count"), time.Minute),
		Window("w2", 20, 24*time.Hour),
		Log("l1", rapid.Int64Range(1, 8).Draw(t, "attempts"), time.Minute),
		Log("l2", 30, time.Hour),
	}
	return append(rules, Shadowed(Bucket("s1", 5, 10)), Shadowed(Window("s2", 10, time.Hour)), Shadowed(Log("s3", 4, time.Minute)))
}

func drawStep(t *rapid.T) time.Duration {
	us := rapid.OneOf(rapid.IntRange(0, 3000), rapid.IntRange(0, 90_000_000), rapid.IntRange(-20_000_000, 0)).Draw(t, "step in µs")
	return time.Duration(us) * time.Microsecond
}

// draw makes an ask's entries: at most one a rule.
func (g *history) draw(t *rapid.T) []store.Entry {
	var entries []store.Entry
	for i, r := range g.rules {
		if rapid.IntRange(0, 2).Draw(t, "meets "+r.ID) > 0 {
			continue
		}
		if rapid.IntRange(0, 9).Draw(t, "edit") == 0 {
			r = drawEdit(t, r)
			g.rules[i] = r
		}
		e := store.Entry{Rule: r, Limit: r.Limit}
		if len(g.grants) > 0 && rapid.IntRange(0, 3).Draw(t, "gives") == 0 {
			back := rapid.SampledFrom(g.grants).Draw(t, "back")
			if back.Rule.ID == r.ID {
				e.Give, e.GivenFrom, e.Member = back.Give, back.GivenFrom, back.Member
			}
		}
		if e.Give == 0 || r.Algorithm != limit.SlidingLog {
			e.Need = rapid.Int64Range(0, 4).Draw(t, "need")
			e.Want = e.Need + rapid.Int64Range(0, 3).Draw(t, "more")
		}
		if e.Give == 0 {
			g.member++
			e.Member = g.member
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return []store.Entry{need(g.rules[0], 1)}
	}
	return entries
}

// drawEdit is the rule after an edit of its size, its speed or its mode.
func drawEdit(t *rapid.T, r *limit.Rule) *limit.Rule {
	edited := *r
	l := &edited.Limit
	switch rapid.IntRange(0, 2).Draw(t, "edit what") {
	case 0:
		times := rapid.SampledFrom([]float64{0.1, 2, 10}).Draw(t, "rate times")
		if l.Window == 0 { // edits of edits reach the bounds
			l.Rate = min(max(l.Rate*limit.Rate(times), limit.RateMin), limit.RateMax)
		}
		l.Window *= time.Duration(rapid.SampledFrom([]int{1, 2, 60}).Draw(t, "window times"))
		if l.Window > 24*time.Hour {
			l.Window = time.Minute
		}
	case 1:
		times := rapid.SampledFrom([]float64{0.3, 2}).Draw(t, "size times")
		l.Burst, l.Count = int64(float64(l.Burst)*times), int64(float64(l.Count)*times)
		if l.Window > 0 {
			l.Count = min(max(l.Count, 1), limit.LogCountMax)
		} else {
			l.Burst = min(max(l.Burst, 1), limit.BurstMax)
		}
	default:
		edited.Mode = limit.Enforce + limit.Shadow - edited.Mode
	}
	return &edited
}

// note keeps what was granted, to be handed back later.
func (g *history) note(ask *store.Ask, result *store.Result) {
	for i, o := range result.Outcomes {
		if o.Granted > 0 {
			e := ask.Entries[i]
			g.grants = append(g.grants, store.Entry{Rule: e.Rule, Give: o.Granted, GivenFrom: result.At, Member: e.Member})
		}
	}
}
