package rollout

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/book"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/memstore"
)

// world is three instances with a guard each on one store, and the pods that report
// to it. It lives in a bubble of synctest.
type world struct {
	t     *testing.T
	store *memstore.Store
	books []*book.Book
	pods  []*pod
}

// pod reports what a test says that its rule has decided.
type pod struct {
	*rulesv1.Pod
	faults []string
	counts map[int64]*rulesv1.RuleCounts // by version
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: memstore.New()}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	log := slog.New(slog.DiscardHandler)
	for i := range 3 {
		b, err := book.Open(ctx, book.Config{Store: w.store, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := b.Import(ctx, "file", &rulesv1.Ruleset{Plans: []*rulesv1.Plan{{Id: "free"}}, Rules: []*rulesv1.Rule{rule(20)}}); err != nil {
				t.Fatal(err)
			}
		}
		running.Go(func() { b.Run(ctx) })
		guard := New(b, w.store, DefaultPolicy(), log, time.Now)
		running.Go(func() { guard.Run(ctx) })
		w.books = append(w.books, b)
	}
	return w
}

func rule(burst int64) *rulesv1.Rule {
	return &rulesv1.Rule{
		Id: "free-global", Plan: "free", Identity: rulesv1.Identity_IDENTITY_API_KEY, Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET,
		Rate: proto.Float64(10), Burst: proto.Int64(burst),
	}
}

// pod adds a pod that reports every 2 s from now on.
func (w *world) pod(id string, canary bool) *pod {
	p := &pod{Pod: &rulesv1.Pod{Id: id, Canary: canary}, counts: map[int64]*rulesv1.RuleCounts{}}
	w.pods = append(w.pods, p)
	return p
}

// decide adds decisions of a version.
func (p *pod) decide(version, evaluated, refused int64) {
	c := p.counts[version]
	if c == nil {
		c = &rulesv1.RuleCounts{Rule: "free-global", Version: version}
		p.counts[version] = c
	}
	c.Evaluated += evaluated
	c.Refused += refused
}

// pass lets time go by, in which the pods report; traffic is called before each
// report.
func (w *world) pass(d time.Duration, traffic func()) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if traffic != nil {
			traffic()
		}
		head, err := w.store.Head(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		var reports []ledger.Report
		for _, p := range w.pods {
			r := ledger.Report{Domain: book.DomainDefault, Pod: p.Pod, Incarnation: "i", Revision: head, Faults: p.faults, At: time.Now()}
			for _, c := range p.counts {
				r.Counts = append(r.Counts, proto.CloneOf(c))
			}
			reports = append(reports, r)
		}
		if err := w.store.Report(w.t.Context(), reports); err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
	}
}

// begin puts a candidate, version 2.
func (w *world) begin(candidate *rulesv1.Rule) {
	w.t.Helper()
	response, err := w.books[0].PutRule(w.t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: candidate, Write: &rulesv1.Write{ExpectedVersion: proto.Int64(1), Why: "smaller"}})
	if err != nil || response.GetRollout() == nil {
		w.t.Fatalf("no rollout: %v, %v", response, err)
	}
}

// advance takes the rollout on by hand.
func (w *world) advance() {
	w.t.Helper()
	if _, err := w.books[1].AdvanceRollout(w.t.Context(), "ann", &rulesv1.AdvanceRolloutRequest{Rule: "free-global", Write: &rulesv1.Write{ExpectedVersion: proto.Int64(2), Why: "I know better"}}); err != nil {
		w.t.Fatal(err)
	}
}

// audit is what the audit log says since the import, the first first.
func (w *world) audit() (lines []string) {
	w.t.Helper()
	entries, err := w.store.History(w.t.Context(), ledger.HistoryQuery{}, ledger.Position{}, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		if e.Action != ledger.ActionImport {
			lines = append(lines, fmt.Sprintf("%s by %s: %s", e.Action, e.Author, e.Why))
		}
	}
	return lines
}

func (w *world) mustSay(want ...string) {
	w.t.Helper()
	if got := w.audit(); !slices.Equal(got, want) {
		w.t.Errorf("the audit log says\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// mustHave fails unless a version of the rule is in force, and no rollout under way.
func (w *world) mustHave(version int64) {
	w.t.Helper()
	got, err := w.books[2].GetRule(w.t.Context(), &rulesv1.GetRuleRequest{Id: "free-global"})
	if err != nil || got.GetRule().GetVersion() != version || got.GetRollout() != nil {
		w.t.Errorf("in force is %v (%v), want version %d and no rollout", got, err, version)
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

// A good edit goes from shadow to canary pods to everywhere, each stage lasting its
// bake; of three guards one acts at each step.
func TestGoodEditIsPromoted(t *testing.T) {
	bubble(t, func(w *world) {
		pods := []*pod{w.pod("p1", false), w.pod("p2", true)}
		traffic := func() {
			for _, p := range pods {
				p.decide(1, 20, 1)
				p.decide(2, 20, 1)
			}
		}
		w.begin(rule(19))
		w.pass(58*time.Second, traffic)
		w.mustSay("rollout by ann: smaller")
		w.pass(54*time.Second, traffic)
		if got := w.audit(); len(got) != 2 || !strings.HasPrefix(got[1], "advance by rollout guard: after 1m0s of shadow: refused ") {
			t := strings.Join(got, "\n")
			w.t.Fatalf("after the bake of shadow: %s", t)
		}
		w.pass(16*time.Second, traffic)
		got := w.audit()
		if len(got) != 4 || !strings.HasPrefix(got[2], "promote by rollout guard: after 1m0s on canary pods: refused ") || got[2] != got[3] {
			w.t.Errorf("after both bakes:\n%s", strings.Join(got, "\n"))
		}
		w.mustHave(2)
	})
}

// A rule that denies everything is stopped in shadow, long before the bake is over,
// and nobody has felt it.
func TestDenyAllIsStoppedInShadow(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.pod("p1", false)
		w.begin(rule(1))
		w.pass(12*time.Second, func() { p.decide(1, 25, 0); p.decide(2, 25, 25) })
		got := w.audit()
		if len(got) != 2 || !strings.HasPrefix(got[1], "rollback by rollout guard: refused ") || !strings.HasSuffix(got[1], ": rolled back") {
			w.t.Errorf("the audit log says %q", got)
		}
		var refused, evaluated int
		if _, err := fmt.Sscanf(got[1], "rollback by rollout guard: refused %d of %d requests that the version in force has admitted: rolled back", &refused, &evaluated); err != nil || refused != evaluated || evaluated < 100 {
			w.t.Errorf("the figures of %q (%v)", got[1], err)
		}
		w.mustHave(1)
	})
}

// Forced through shadow by a person, it is rolled back on the canary pods' word.
func TestDenyAllForcedThroughShadowIsStoppedInCanary(t *testing.T) {
	bubble(t, func(w *world) {
		p, canary := w.pod("p1", false), w.pod("p2", true)
		w.begin(rule(1))
		w.advance()
		w.pass(30*time.Second, func() { p.decide(1, 500, 0); p.decide(2, 500, 500) }) // these pods do not count here
		w.mustSay("rollout by ann: smaller", "advance by ann: I know better")
		w.pass(4*time.Second, func() { canary.decide(1, 49, 0); canary.decide(2, 49, 49) }) // 98 are too few
		w.pass(6*time.Second, nil)
		w.mustSay("rollout by ann: smaller", "advance by ann: I know better")
		w.pass(8*time.Second, func() { canary.decide(1, 2, 0); canary.decide(2, 2, 2) })
		got := w.audit()
		if len(got) != 3 || !strings.HasPrefix(got[2], "rollback by rollout guard: refused ") {
			w.t.Errorf("the audit log says %q", got)
		}
		w.mustHave(1)
	})
}

// A rule that in shadow would refuse everything is not enforced, though its
// candidate refuses no more than it does; nor is a new rule that does.
func TestWhatNobodyFelt(t *testing.T) {
	for name, why := range map[string]string{
		"free-global": "the version in force none, being in shadow mode",
		"new":         "where no rule is in force",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, version := w.pod("p1", true), int64(0)
				if name == "free-global" {
					answer, err := w.books[0].ShadowRule(w.t.Context(), "ann", &rulesv1.ShadowRuleRequest{Id: name, Write: &rulesv1.Write{ExpectedVersion: proto.Int64(1)}})
					if err != nil {
						w.t.Fatal(err)
					}
					version = answer.GetRule().GetVersion()
				}
				candidate := rule(20)
				candidate.Id = name
				if _, err := w.books[0].PutRule(w.t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: candidate, Write: &rulesv1.Write{ExpectedVersion: &version}}); err != nil {
					w.t.Fatal(err)
				}
				p.counts[0], p.counts[1] = &rulesv1.RuleCounts{Rule: name, Version: version}, &rulesv1.RuleCounts{Rule: name, Version: version + 1}
				w.pass(12*time.Second, func() { p.decide(0, 50, 50); p.decide(1, 50, 50) })
				if got := w.audit(); !strings.Contains(got[len(got)-1], "rollback by rollout guard: refused ") || !strings.HasSuffix(got[len(got)-1], why+": rolled back") {
					w.t.Errorf("the audit log says %q", got)
				}
			})
		})
	}
}

// Without traffic a rollout goes on after three bakes of each stage, and says so;
// without canary pods it goes from shadow to everywhere, and says so.
func TestNoTraffic(t *testing.T) {
	bubble(t, func(w *world) {
		w.pod("p1", true)
		w.begin(rule(19))
		w.pass(7*time.Minute, nil)
		w.mustSay("rollout by ann: smaller",
			"advance by rollout guard: after 3m0s of shadow: no traffic was seen: on to canary pods",
			"promote by rollout guard: after 3m0s on canary pods: no traffic was seen: promoted",
			"promote by rollout guard: after 3m0s on canary pods: no traffic was seen: promoted")
	})
	bubble(t, func(w *world) {
		w.begin(rule(19))
		w.pass(4*time.Minute, nil)
		why := "promote by rollout guard: after 3m0s of shadow: no traffic was seen: promoted without canary pods, of which none has reported within 1m0s"
		w.mustSay("rollout by ann: smaller", why, why)
		w.mustHave(2)
	})
}

// A candidate that a canary pod could not take is given up; another pod's faults,
// or faults of other rules, are no reason.
func TestFaultyOnACanaryPod(t *testing.T) {
	bubble(t, func(w *world) {
		p, canary := w.pod("p1", false), w.pod("p2", true)
		p.faults = []string{"candidate of free-global: candidates[0].rule.burst is 19: want another"}
		canary.faults = []string{"rule free-global-2: rules[1].burst is 0: want 1 to 1000000000"}
		w.begin(rule(19))
		w.pass(30*time.Second, nil)
		w.mustSay("rollout by ann: smaller")
		canary.faults = p.faults
		w.pass(6*time.Second, nil)
		w.mustSay("rollout by ann: smaller",
			"rollback by rollout guard: could not be taken by pod p2 (candidate of free-global: candidates[0].rule.burst is 19: want another): rolled back")
		w.mustHave(1)
	})
}

// Canary pods that report no more since they got the candidate end the rollout.
func TestCanaryPodsThatDie(t *testing.T) {
	bubble(t, func(w *world) {
		w.pod("p1", true)
		w.begin(rule(19))
		w.pass(10*time.Second, nil)
		w.advance()
		w.pods = nil
		w.pass(4*time.Minute, nil)
		w.mustSay("rollout by ann: smaller", "advance by ann: I know better",
			"rollback by rollout guard: no canary pod has reported within 1m0s: rolled back")
	})
}

// A guard whose clock is wrong by an hour neither hurries a rollout nor holds it up
// where another instance is right.
func TestGuardWithAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.pod("p1", false)
		w.begin(rule(19))
		synctest.Wait()
		ahead := New(w.books[0], w.store, DefaultPolicy(), slog.New(slog.DiscardHandler), func() time.Time { return time.Now().Add(time.Hour) })
		behind := New(w.books[0], w.store, DefaultPolicy(), slog.New(slog.DiscardHandler), func() time.Time { return time.Now().Add(-time.Hour) })
		for _, g := range []*Guard{ahead, behind} {
			if err := g.Look(t.Context()); err != nil {
				t.Error(err)
			}
		}
		w.mustSay("rollout by ann: smaller")
	})
}
