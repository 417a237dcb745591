package book

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	stateShadow   = rulesv1.RolloutState_ROLLOUT_STATE_SHADOW
	stateCanary   = rulesv1.RolloutState_ROLLOUT_STATE_CANARY
	statePromoted = rulesv1.RolloutState_ROLLOUT_STATE_PROMOTED
	stateBack     = rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK
)

// beginRollout puts a rule guarded, and fails unless that began a rollout.
func beginRollout(t *testing.T, b *Book, rule *rulesv1.Rule, version int64) *rulesv1.Rollout {
	t.Helper()
	response, err := b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: rule, Write: at(version)})
	if err != nil || response.GetRollout() == nil {
		t.Fatalf("no rollout: %v, %v", response, err)
	}
	return response.GetRollout()
}

// inForce is a rule as GetRule tells it.
func inForce(t *testing.T, b *Book, id string) *rulesv1.GetRuleResponse {
	t.Helper()
	response, err := b.GetRule(t.Context(), &rulesv1.GetRuleRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// An edit that callers could feel becomes a candidate beside the rule in force; one
// that they could not, or that is said to be immediate, is in force at once.
func TestWhatIsGuarded(t *testing.T) {
	shadow := func(r *rulesv1.Rule) *rulesv1.Rule { r.Mode = rulesv1.Mode_MODE_SHADOW; return r }
	enforce := func(r *rulesv1.Rule) *rulesv1.Rule { r.Mode = rulesv1.Mode_MODE_ENFORCE; return r }
	for _, test := range []struct {
		name    string
		was, is *rulesv1.Rule
		mode    rulesv1.RolloutMode
		guarded bool
	}{
		{"a new rule", nil, bucket("r", "free", 1, 20), 0, true},
		{"a new rule in shadow", nil, shadow(bucket("r", "free", 1, 20)), 0, false},
		{"a tighter rate", bucket("r", "free", 2, 20), bucket("r", "free", 1, 20), 0, true},
		{"a looser rate", bucket("r", "free", 1, 20), bucket("r", "free", 2, 20), 0, true},
		{"said to be guarded", bucket("r", "free", 1, 20), bucket("r", "free", 2, 20), guarded, true},
		{"said to be immediate", bucket("r", "free", 1, 20), bucket("r", "free", 2, 20), immediate, false},
		{"enforced from shadow", shadow(bucket("r", "free", 1, 20)), bucket("r", "free", 1, 20), 0, true},
		{"in shadow from enforced", bucket("r", "free", 1, 20), shadow(bucket("r", "free", 1, 20)), 0, false},
		{"shadow to shadow", shadow(bucket("r", "free", 1, 20)), shadow(bucket("r", "free", 2, 20)), 0, false},
		{"no change", bucket("r", "free", 1, 20), bucket("r", "free", 1, 20), 0, false},
		{"no change but in spelling", bucket("r", "free", 1, 20), enforce(bucket("r", "free", 1, 20)), 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, _ := seeded(t)
			version := int64(0)
			if test.was != nil {
				version = put(t, b, test.was, 0).GetRule().GetVersion()
			}
			response, err := b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: test.is, Write: at(version), Rollout: test.mode})
			if err != nil {
				t.Fatal(err)
			}
			got := inForce(t, b, "r")
			if guarded := response.GetRollout() != nil; guarded != test.guarded || (got.GetRollout() != nil) != test.guarded {
				t.Errorf("guarded: %v; %v", guarded, got)
			}
			want := version
			if !test.guarded {
				want = version + 1
			}
			if got.GetRule().GetVersion() != want || response.GetRule().GetVersion() != version+1 {
				t.Errorf("in force is version %d, want %d; written was %d, want %d", got.GetRule().GetVersion(), want, response.GetRule().GetVersion(), version+1)
			}
		})
	}
}

// A rule whose rollout is under way takes no other edit; a person may take it to
// its next stage, one at a time, and each step is in the audit log with who and why.
func TestRolloutByHand(t *testing.T) {
	b, store := seeded(t)
	ctx := t.Context()
	began := beginRollout(t, b, bucket("free-global", "free", 50, 20), 1)
	if began.GetRule().GetVersion() != 2 || began.GetBaseVersion() != 1 || began.GetState() != stateShadow || began.GetAuthor() != "ann" || began.GetStartedAt() == nil {
		t.Errorf("began %v", began)
	}
	for name, call := range map[string]func() error{
		"put": func() error {
			_, err := b.PutRule(ctx, "bob", &rulesv1.PutRuleRequest{Rule: bucket("free-global", "free", 60, 20), Write: at(1), Rollout: immediate})
			return err
		},
		"enforce": func() error {
			_, err := b.EnforceRule(ctx, "bob", &rulesv1.EnforceRuleRequest{Id: "free-global", Write: at(1)})
			return err
		},
		"shadow": func() error {
			_, err := b.ShadowRule(ctx, "bob", &rulesv1.ShadowRuleRequest{Id: "free-global", Write: at(1)})
			return err
		},
		"delete": func() error {
			_, err := b.DeleteRule(ctx, "bob", &rulesv1.DeleteRuleRequest{Id: "free-global", Write: at(1)})
			return err
		},
		"rollback to a version": func() error {
			_, err := b.RollbackRule(ctx, "bob", &rulesv1.RollbackRuleRequest{Id: "free-global", ToVersion: 7, Write: at(1)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { refusedWith(t, call(), CodeRolloutInProgress) })
	}
	unchanged(t, store, 2)

	advance := func(version int64, from rulesv1.Stage) (*rulesv1.Rollout, error) {
		response, err := b.AdvanceRollout(ctx, "bob", &rulesv1.AdvanceRolloutRequest{Rule: "free-global", Write: at(version), From: from})
		return response.GetRollout(), err
	}
	_, err := advance(1, 0)
	if p := refusedWith(t, err, CodeVersionConflict); p.Current != 2 {
		t.Errorf("the candidate's version is said to be %d", p.Current)
	}
	got, err := advance(2, rulesv1.Stage_STAGE_SHADOW)
	if err != nil || got.GetState() != stateCanary || got.GetAuthor() != "ann" {
		t.Errorf("advanced to %v, %v", got, err)
	}
	_, err = advance(2, rulesv1.Stage_STAGE_SHADOW)
	refusedWith(t, err, CodeVersionConflict)
	got, err = advance(2, rulesv1.Stage_STAGE_CANARY)
	if err != nil || got.GetState() != statePromoted {
		t.Errorf("advanced to %v, %v", got, err)
	}
	_, err = advance(2, 0)
	refusedWith(t, err, CodeNotFound)
	if r := inForce(t, b, "free-global"); r.GetRule().GetRate() != 50 || r.GetRule().GetVersion() != 2 || r.GetRollout() != nil {
		t.Errorf("after the promotion: %v", r)
	}
	want := []string{"2 promote by bob", "2 promote by bob", "2 advance by bob", "2 rollout by ann", "1 import by file"}
	if lines := history(t, b, "free-global"); !slices.Equal(lines, want) {
		t.Errorf("history %q, want %q", lines, want)
	}
}

// A rollback of a rule that is being rolled out leaves the version in force, and
// the version of the candidate is never used again.
func TestRollbackGivesARolloutUp(t *testing.T) {
	for name, version := range map[string]int64{"by the version in force": 1, "by the candidate's": 2} {
		t.Run(name, func(t *testing.T) {
			b, _ := seeded(t)
			beginRollout(t, b, bucket("free-global", "free", 50, 20), 1)
			got, err := b.RollbackRule(t.Context(), "bob", &rulesv1.RollbackRuleRequest{Id: "free-global", Write: at(version)})
			if err != nil || got.GetRollout().GetState() != stateBack || got.GetRule().GetVersion() != 1 || got.GetRule().GetRate() != 10 {
				t.Errorf("rolled back: %v, %v", got, err)
			}
			if r := inForce(t, b, "free-global"); r.GetRule().GetVersion() != 1 || r.GetRollout() != nil {
				t.Errorf("in force: %v", r)
			}
			if again := beginRollout(t, b, bucket("free-global", "free", 60, 20), 1); again.GetRule().GetVersion() != 3 {
				t.Errorf("the next candidate has version %d, want 3", again.GetRule().GetVersion())
			}
		})
	}
	b, _ := seeded(t)
	beginRollout(t, b, bucket("new", "free", 1, 20), 0)
	if _, err := b.RollbackRule(t.Context(), "bob", &rulesv1.RollbackRuleRequest{Id: "new", Write: at(0)}); err != nil {
		t.Error(err)
	}
	_, err := b.GetRule(t.Context(), &rulesv1.GetRuleRequest{Id: "new"})
	refusedWith(t, err, CodeNotFound)
}

// A rollback puts an earlier content back at once as a new version: the one before,
// the one that is named, or the last one of a rule that was deleted.
func TestRollback(t *testing.T) {
	b, _ := seeded(t)
	ctx := t.Context()
	put(t, b, bucket("free-global", "free", 50, 20), 1)
	beginRollout(t, b, bucket("free-global", "free", 60, 20), 2) // version 3 is never in force
	back := func(version, to int64) (*rulesv1.RollbackRuleResponse, error) {
		return b.RollbackRule(ctx, "bob", &rulesv1.RollbackRuleRequest{Id: "free-global", ToVersion: to, Write: at(version)})
	}
	must := func(version, to, wantVersion int64, wantRate float64) {
		t.Helper()
		got, err := back(version, to)
		if err != nil || got.GetRule().GetVersion() != wantVersion || got.GetRule().GetRate() != wantRate || got.GetRollout() != nil {
			t.Fatalf("rolled back to %v, %v; want version %d, %v/s", got, err, wantVersion, wantRate)
		}
	}
	if _, err := back(2, 0); err != nil { // gives the rollout up
		t.Fatal(err)
	}
	must(2, 0, 4, 10)
	must(4, 2, 5, 50)
	_, err := back(5, 3)
	refusedWith(t, err, CodeNotFound)
	must(5, 0, 6, 10)
	if _, err := b.DeleteRule(ctx, "ann", &rulesv1.DeleteRuleRequest{Id: "free-global", Write: at(6)}); err != nil {
		t.Fatal(err)
	}
	must(0, 0, 8, 10)
	_, err = b.RollbackRule(ctx, "bob", &rulesv1.RollbackRuleRequest{Id: "never-was", Write: at(0)})
	refusedWith(t, err, CodeNotFound)
}

// Nothing is written that would be at odds with a rollout once that is promoted.
func TestRolloutsStayPromotable(t *testing.T) {
	b, store := seeded(t)
	ctx := t.Context()
	beginRollout(t, b, bucket("free-global", "free", 10, 15), 1)
	bulk := &rulesv1.Route{Id: "bulk", Match: []string{"POST /v1/bulk"}, Cost: proto.Int64(18)}
	_, err := b.PutRoute(ctx, "ann", &rulesv1.PutRouteRequest{Route: bulk, Write: at(1)})
	refusedWith(t, err, CodeInvalidRule) // the rule in force holds 20, its candidate 15
	_, err = b.DeletePlan(ctx, "ann", &rulesv1.DeletePlanRequest{Id: "free"})
	refusedWith(t, err, CodeInvalidRule)
	unchanged(t, store, 2)
}

// daily is free-global as a window: overrides of its rate do not fit it.
func daily() *rulesv1.Rule {
	return &rulesv1.Rule{
		Id: "free-global", Plan: "free", Identity: rulesv1.Identity_IDENTITY_API_KEY, Algorithm: rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW,
		Limit: proto.Int64(1000), Window: durationpb.New(24 * time.Hour),
	}
}

// An override that fits the rule in force and not its candidate is refused, and
// says why; one that is there all the same ends the rollout when it is to be
// promoted, and not before.
func TestRolloutAtOddsIsGivenUp(t *testing.T) {
	b, store := seeded(t)
	beginRollout(t, b, daily(), 1)
	override := &rulesv1.Override{Rule: "free-global", Key: "acct_9", Rate: proto.Float64(5), Reason: "r"}
	_, err := b.CreateOverride(t.Context(), "ann", &rulesv1.CreateOverrideRequest{Override: override})
	mustSay(t, refusedWith(t, err, CodeInvalidRule), "override.rate", "", "does not belong to a fixed_window")

	override.Id = "o-raw"
	if _, err := store.Write(t.Context(), func(ctx context.Context, tx ledger.Tx) error {
		return tx.Append(ctx, &ledger.Entry{Domain: DomainDefault, Change: putOverride(override), Action: ledger.ActionPut, Author: "someone else"})
	}); err != nil {
		t.Fatal(err)
	}
	step := Step{Domain: DomainDefault, Rule: "free-global", Version: 2, From: rulesv1.Stage_STAGE_SHADOW, To: statePromoted, Author: "guard", Why: "w"}
	if acted, err := b.StepRollout(t.Context(), step); !acted || err != nil {
		t.Errorf("acted: %v, %v", acted, err)
	}
	got := inForce(t, b, "free-global")
	rollouts, err := b.ListRollouts(t.Context(), &rulesv1.ListRolloutsRequest{})
	if err != nil || got.GetRule().GetVersion() != 1 || rollouts.GetRollouts()[0].GetState() != stateBack || !strings.HasPrefix(rollouts.GetRollouts()[0].GetWhy(), "cannot take effect any more: ") {
		t.Errorf("after the promotion: %v, %v, %v", got, rollouts, err)
	}
}

// A step of a guard is made once, by whoever comes first, and never before its time
// by the store's clock.
func TestStepsAreConditional(t *testing.T) {
	b, store := seeded(t)
	other := open(t, store)
	beginRollout(t, b, bucket("free-global", "free", 50, 20), 1)
	rollout, err := b.underWay(t.Context(), DomainDefault, "free-global")
	if err != nil {
		t.Fatal(err)
	}
	step := Step{Domain: DomainDefault, Rule: "free-global", Version: 2, From: rulesv1.Stage_STAGE_SHADOW, To: stateCanary, Author: "guard", Why: "w"}
	early, otherVersion, otherStage := step, step, step
	early.NotBefore = rollout.Since.Add(1 << 40)
	otherVersion.Version = 3
	otherStage.From = rulesv1.Stage_STAGE_CANARY
	for _, s := range []Step{early, otherVersion, otherStage} {
		if acted, err := b.StepRollout(t.Context(), s); acted || err != nil {
			t.Errorf("step %+v was made: %v, %v", s, acted, err)
		}
	}
	unchanged(t, store, 2)
	for _, want := range []bool{true, false} {
		if acted, err := other.StepRollout(t.Context(), step); acted != want || err != nil {
			t.Errorf("acted: %v, %v; want %v", acted, err, want)
		}
	}
	entries, err := store.History(t.Context(), ledger.HistoryQuery{}, ledger.Position{}, 1)
	if err != nil || entries[0].Author != "guard" || entries[0].Why != "w" || entries[0].Action != ledger.ActionAdvance {
		t.Errorf("the audit log says %v, %v", entries, err)
	}
}
