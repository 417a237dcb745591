package limiter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/storetest"
)

// Whenever a pod refuses by what it knows, the store lacks what the pod lacks,
// whatever other pods took meanwhile, and whatever was edited. Tokens that are
// handed back are the stated exception: they are seen within knowledgeTrust, and
// one request asks for them within knowledgePace more.
func TestNobodyIsRefusedWhomTheStoreWouldAdmit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		rules := []*limit.Rule{
			storetest.Bucket("a", limit.Rate(rapid.IntRange(1, 200).Draw(rt, "rate")), rapid.Int64Range(1, 50).Draw(rt, "burst")),
			storetest.Bucket("b", 0.1, 5),
			storetest.Window("w", rapid.Int64Range(5, 100).Draw(rt, "count"), time.Minute),
			storetest.Log("l", rapid.Int64Range(5, 20).Draw(rt, "size"), time.Minute),
		}
		subject := storetest.Subject(t, limit.Account, "acme")
		revision := int64(1)
		for i := range rapid.IntRange(1, 80).Draw(rt, "requests") {
			w.now += time.Duration(rapid.OneOf(rapid.IntRange(0, 5_000), rapid.IntRange(0, 3_000_000)).Draw(rt, "wait")) * time.Microsecond
			if rapid.IntRange(0, 20).Draw(rt, "edit") == 0 {
				edited := *rules[0]
				edited.Limit = limit.Limit{Rate: limit.Rate(rapid.IntRange(1, 200).Draw(rt, "new rate")), Burst: rapid.Int64Range(1, 50).Draw(rt, "new burst")}
				rules[0] = &edited
				revision++
			}
			var request limit.Request
			for _, r := range rules {
				if rapid.Bool().Draw(rt, "meets "+r.ID) {
					request.Charges = append(request.Charges, limit.Charge{Subject: subject, Rule: r, Limit: r.Limit, Cost: r.Charge(rapid.Int64Range(0, 6).Draw(rt, "cost")), Revision: revision})
				}
			}
			if len(request.Charges) == 0 {
				continue
			}
			pod := w.pod(fmt.Sprint(rapid.IntRange(1, 3).Draw(rt, "pod")))
			var decision limit.Decision
			w.decide(pod, &request, &decision)
			w.mustBeShort(rt, i, pod, subject, &decision)
		}
	})
}

// handBack is tokens that a pod has given back, by the pods' clock.
type handBack struct {
	tag    uint32
	at     time.Duration
	tokens int64
}

// note keeps what an ask gives back.
func (w *world) note(ask *store.Ask) {
	for i := range ask.Entries {
		if e := &ask.Entries[i]; e.Give > 0 {
			w.returned = append(w.returned, handBack{tag: e.Rule.Tag, at: w.now, tokens: e.Give})
		}
	}
}

// mustBeShort asks the store for nothing and compares what is left with what
// the rules that refused by knowledge lacked.
func (w *world) mustBeShort(rt *rapid.T, i int, pod *Core, subject limit.Subject, d *limit.Decision) {
	shard := pod.table.Shard(&subject)
	shard.Lock()
	r := &shard.Get(&subject).Record
	shard.Unlock()
	for j := range d.Outcomes {
		o := &d.Outcomes[j]
		if !o.Short || o.Never || o.DecidedBy != limit.ByKnowledge {
			continue
		}
		var result store.Result
		ask := store.Ask{Subject: subject, Entries: []store.Entry{{Rule: o.Rule, Limit: o.Limit}}}
		if err := w.store.Take(context.Background(), &ask, &result); err != nil {
			rt.Fatal(err)
		}
		known := r.find(o.Rule.Tag)
		lacks, unseen := known.lacks(o.Cost), int64(0)
		for _, h := range w.returned {
			if h.tag == o.Rule.Tag && h.at >= known.known.at && w.now-h.at < knowledgeTrust+knowledgePace {
				unseen += h.tokens
			}
		}
		if left := result.Outcomes[0].Remaining; left-unseen >= lacks {
			rt.Fatalf("request %d: refused for rule %s, cost %d, lacking %d, while the store holds %d", i, o.Rule.ID, o.Cost, lacks, left)
		}
	}
}
