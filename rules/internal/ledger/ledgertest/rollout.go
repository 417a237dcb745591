package ledgertest

import (
	"errors"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// In short.
const (
	inShadow = rulesv1.Stage_STAGE_SHADOW
	inCanary = rulesv1.Stage_STAGE_CANARY
)

// rollouts lists rollouts without what the clock says.
func (b *bench) rollouts(q ledger.RolloutQuery) (all []ledger.Rollout) {
	b.Helper()
	for _, r := range must(b.Rollouts(b.ctx(), q, ledger.Position{}, 100))(b) {
		if r.StartedAt.IsZero() || r.Since.Before(r.StartedAt) {
			b.Errorf("a rollout began at %v and is in its state since %v", r.StartedAt, r.Since)
		}
		r.StartedAt, r.Since = time.Time{}, time.Time{}
		all = append(all, r)
	}
	return all
}

// by is an entry with another author, action and reason.
func by(author, action, why string, e *ledger.Entry) *ledger.Entry {
	e.Author, e.Action, e.Why = author, action, why
	return e
}

// A rollout goes from shadow to canary to its end, remembers who began it, the rule
// that it began with and why it is where it is, and a new one may begin then.
func rolloutLives(b *bench) {
	b.put(rule("r", 1))
	b.put(candidate("r", 2, inShadow))
	first := ledger.Rollout{
		Domain: domain, Rule: ruleOf("r", 2), BaseVersion: 1, State: rulesv1.RolloutState_ROLLOUT_STATE_SHADOW,
		Author: "ada", Why: "because", Position: ledger.Position{Revision: 2},
	}
	b.same("in shadow", b.rollouts(ledger.RolloutQuery{}), []ledger.Rollout{first})
	b.write(by("rollout guard", ledger.ActionAdvance, "it baked", entry(candidate("r", 2, inCanary))))
	first.State, first.Why = rulesv1.RolloutState_ROLLOUT_STATE_CANARY, "it baked"
	b.same("in canary", b.rollouts(ledger.RolloutQuery{}), []ledger.Rollout{first})
	b.same("its candidate", must(b.Item(b.ctx(), domain, kindCandidate, "r"))(b), candidate("r", 2, inCanary))
	b.write(by("rollout guard", ledger.ActionPromote, "it is fine", gone(kindCandidate, "r", 2)),
		by("rollout guard", ledger.ActionPromote, "it is fine", entry(rule("r", 2))))
	first.State, first.Why = rulesv1.RolloutState_ROLLOUT_STATE_PROMOTED, "it is fine"
	b.same("promoted", b.rollouts(ledger.RolloutQuery{}), []ledger.Rollout{first})
	b.same("the rule", must(b.Item(b.ctx(), domain, kindRule, "r"))(b), rule("r", 2))
	b.put(plan("p"), candidate("r", 3, inShadow))
	b.write(by("bob", ledger.ActionRollback, "no good", gone(kindCandidate, "r", 3)))
	second := ledger.Rollout{
		Domain: domain, Rule: ruleOf("r", 3), BaseVersion: 2, State: rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK,
		Author: "ada", Why: "no good", Position: ledger.Position{Revision: 5, Ordinal: 1},
	}
	b.same("rolled back", b.rollouts(ledger.RolloutQuery{}), []ledger.Rollout{second, first})
	if got := b.rollouts(ledger.RolloutQuery{Active: true}); len(got) != 0 {
		b.Errorf("under way: %v", got)
	}
	b.put(candidate("new", 1, inCanary))
	b.same("of a new rule", b.rollouts(ledger.RolloutQuery{Active: true}), []ledger.Rollout{{
		Domain: domain, Rule: ruleOf("new", 1), State: rulesv1.RolloutState_ROLLOUT_STATE_CANARY,
		Author: "ada", Why: "because", Position: ledger.Position{Revision: 7},
	}})
}

// Rollouts come by their time, the latest first, page by page, of what is asked for.
func rolloutPages(b *bench) {
	elsewhere := entry(candidate("a", 1, inShadow))
	elsewhere.Domain = "internal"
	b.write(entry(candidate("a", 1, inShadow)), entry(candidate("b", 1, inShadow)), elsewhere)
	b.write(gone(kindCandidate, "a", 1))
	b.put(candidate("a", 2, inShadow))
	for _, c := range []struct {
		q    ledger.RolloutQuery
		want []ledger.Position
	}{
		{ledger.RolloutQuery{}, []ledger.Position{{Revision: 3}, {Revision: 1, Ordinal: 2}, {Revision: 1, Ordinal: 1}, {Revision: 1}}},
		{ledger.RolloutQuery{Domain: domain}, []ledger.Position{{Revision: 3}, {Revision: 1, Ordinal: 1}, {Revision: 1}}},
		{ledger.RolloutQuery{Domain: domain, Rule: "a"}, []ledger.Position{{Revision: 3}, {Revision: 1}}},
		{ledger.RolloutQuery{Active: true}, []ledger.Position{{Revision: 3}, {Revision: 1, Ordinal: 2}, {Revision: 1, Ordinal: 1}}},
	} {
		for _, most := range []int{1, 2, 100} {
			var got []ledger.Position
			for before := (ledger.Position{}); len(got) <= len(c.want); before = got[len(got)-1] {
				page := must(b.Rollouts(b.ctx(), c.q, before, most))(b)
				if len(page) == 0 {
					break
				}
				for _, r := range page {
					got = append(got, r.Position)
				}
			}
			b.same("positions", got, c.want)
		}
	}
}

// A rule has one rollout at a time, and what its candidate names stays there.
func oneRollout(b *bench) {
	b.put(plan("p"), rule("r", 1))
	on := candidate("r", 2, inShadow)
	ofPlan("p")(on.GetCandidate().GetRule())
	b.put(on)
	b.refused("another version", entry(candidate("r", 3, inShadow)))
	b.refused("its plan", gone(kindPlan, "p", 0))
	b.write(gone(kindCandidate, "r", 2))
	b.write(gone(kindPlan, "p", 0))
	b.refused("the end of none", gone(kindCandidate, "r", 2))
}

// told is a report with counts of versions of rule "r".
func told(pod, incarnation string, canary bool, revision int64, counts ...*rulesv1.RuleCounts) ledger.Report {
	return ledger.Report{
		Domain: domain, Pod: &rulesv1.Pod{Id: pod, Region: "eu", Canary: canary}, Incarnation: incarnation, Revision: revision,
		Counts: counts, At: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC),
	}
}

func met(version, evaluated, refused int64) *rulesv1.RuleCounts {
	return &rulesv1.RuleCounts{Rule: "r", Version: version, Evaluated: evaluated, Refused: refused}
}

// report stores reports, the first half on another instance.
func (b *bench) report(reports ...ledger.Report) {
	b.Helper()
	other := b.open()
	half := len(reports) / 2
	if err := errors.Join(other.Report(b.ctx(), reports[:half]), b.Report(b.ctx(), reports[half:])); err != nil {
		b.Fatal(err)
	}
}

// counted says what Counts should be: candidate evaluated and refused, base evaluated and refused, pods.
func (b *bench) counted(when string, n ...int64) {
	b.Helper()
	var want ledger.Counts
	want.Candidate.Evaluated, want.Candidate.Refused, want.Base.Evaluated, want.Base.Refused, want.Pods = n[0], n[1], n[2], n[3], int(n[4])
	b.same(when, must(b.Counts(b.ctx(), domain, "r"))(b), want)
}

// Of a pod counts what it decided after its first report in the stage: what it had
// decided before, and reports of pods that do not go by the stage yet, do not. A new
// stage begins at 0.
func countsBegin(b *bench) {
	b.put(rule("r", 1))
	if _, err := b.Counts(b.ctx(), domain, "r"); !errors.Is(err, ledger.ErrNotFound) {
		b.Errorf("without a rollout: %v, want %v", err, ledger.ErrNotFound)
	}
	stage := b.put(candidate("r", 2, inShadow))
	b.counted("at first", 0, 0, 0, 0, 0)
	b.report(told("a", "1", false, stage-1, met(1, 1000, 100)))
	b.counted("a pod that has not heard of it", 0, 0, 0, 0, 0)
	b.report(told("a", "1", false, stage, met(1, 1100, 110)), told("b", "1", true, stage+5))
	b.counted("the first reports", 0, 0, 0, 0, 2)
	b.report(told("a", "1", false, stage, met(1, 1110, 111), met(2, 10, 5), met(3, 7, 7), &rulesv1.RuleCounts{Rule: "other", Version: 2, Evaluated: 99}))
	b.counted("one pod goes on", 10, 5, 10, 1, 2)
	b.report(told("b", "1", true, stage+5, met(1, 30, 3), met(2, 20, 20)))
	b.counted("the other too", 30, 25, 40, 4, 2)
	b.report(told("a", "1", false, stage, met(1, 1105, 110), met(2, 5, 0)))
	b.counted("a report that was overtaken", 30, 25, 40, 4, 2)
	stage = b.put(candidate("r", 2, inCanary))
	b.counted("the next stage", 0, 0, 0, 0, 0)
	b.write(gone(kindCandidate, "r", 2))
	if _, err := b.Counts(b.ctx(), domain, "r"); !errors.Is(err, ledger.ErrNotFound) {
		b.Errorf("after the rollout: %v, want %v", err, ledger.ErrNotFound)
	}
	b.put(candidate("r", 3, inShadow))
	b.report(told("a", "1", false, stage+2, met(1, 9000, 0)))
	b.counted("the next rollout", 0, 0, 0, 0, 1)
}

// In the canary stage each version counts where it is enforced: the candidate on
// canary pods, its base on all others.
func canaryCounts(b *bench) {
	b.put(rule("r", 1))
	stage := b.put(candidate("r", 2, inCanary))
	b.report(told("a", "1", true, stage), told("b", "1", false, stage))
	b.report(told("a", "1", true, stage, met(1, 10, 1), met(2, 10, 2)), told("b", "1", false, stage, met(1, 500, 3), met(2, 500, 500)))
	b.counted("canary", 10, 2, 500, 3, 2)
}

// A pod that starts again counts from 0: what it decided before is kept beside.
func restartsAddUp(b *bench) {
	b.put(rule("r", 1))
	stage := b.put(candidate("r", 2, inShadow))
	b.report(told("a", "1", false, stage), told("a", "1", false, stage, met(1, 10, 1), met(2, 10, 2)))
	b.report(told("a", "2", false, stage), told("a", "2", false, stage, met(1, 4, 4), met(2, 4, 0)))
	b.counted("two lives", 14, 2, 14, 5, 1)
}

// Several reports of a pod at once are taken in their order.
func reportsReplace(b *bench) {
	b.put(rule("r", 1))
	stage := b.put(candidate("r", 2, inShadow))
	if err := b.Report(b.ctx(), nil); err != nil {
		b.Errorf("no reports: %v", err)
	}
	if err := b.Report(b.ctx(), []ledger.Report{
		told("a", "1", false, stage-1, met(1, 1, 0)), told("a", "1", false, stage, met(1, 5, 0)), told("a", "1", false, stage+1, met(1, 9, 0), met(2, 4, 1)),
	}); err != nil {
		b.Fatal(err)
	}
	b.counted("at once", 4, 1, 4, 0, 1)
	got := must(b.Pods(b.ctx(), domain, time.Time{}))(b)
	if len(got) != 1 || got[0].GetRevision() != stage+1 {
		b.Errorf("pods: %v, want one at revision %d", got, stage+1)
	}
}
