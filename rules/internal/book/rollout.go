package book

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// AdvanceRollout brings a rollout to its next stage, whatever its guard says; see
// RulesService.
func (b *Book) AdvanceRollout(ctx context.Context, author string, q *rulesv1.AdvanceRolloutRequest) (*rulesv1.AdvanceRolloutResponse, error) {
	o, _, err := b.ruleOrder(q.GetDomain(), author, q.GetWrite(), 0)
	if err != nil {
		return nil, err
	}
	if !known(q.GetFrom(), rulesv1.Stage_name) {
		return nil, badField("from", int32(q.GetFrom()), "want shadow or canary, or nothing")
	}
	began, err := b.underWay(ctx, o.domain, q.GetRule())
	if err != nil {
		return nil, err
	}
	response := &rulesv1.AdvanceRolloutResponse{}
	response.Revision, err = b.write(ctx, o, func(_ context.Context, d *draft) error {
		c := d.at.candidate(q.GetRule())
		if c == nil {
			return notFound("rollout under way of rule", q.GetRule())
		}
		if err := d.expect(c.GetRule().GetVersion()); err != nil {
			return err
		}
		if from := q.GetFrom(); from != rulesv1.Stage_STAGE_UNSPECIFIED && from != c.GetStage() {
			return &Problem{Code: CodeVersionConflict, Detail: "the rollout is in another stage by now: read it again", Current: c.GetRule().GetVersion()}
		}
		response.Rollout = rolloutOf(d.onward(c, began, d.write.GetWhy()))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// underWay is the rollout of a rule; the zero Rollout if none is under way.
func (b *Book) underWay(ctx context.Context, domain, rule string) (ledger.Rollout, error) {
	rollouts, err := b.store.Rollouts(ctx, ledger.RolloutQuery{Domain: domain, Rule: rule, Active: true}, ledger.Position{}, 1)
	if err != nil || len(rollouts) == 0 {
		return ledger.Rollout{}, asProblem(err)
	}
	return rollouts[0], nil
}

// onward brings a candidate to its next stage.
func (d *draft) onward(c *rulesv1.Candidate, began ledger.Rollout, why string) ledger.Rollout {
	if c.GetStage() == rulesv1.Stage_STAGE_SHADOW {
		rule := c.GetRule()
		d.add(ledger.ActionAdvance, why, rule.GetVersion(), putCandidate(rule, rulesv1.Stage_STAGE_CANARY), putCandidate(rule, c.GetStage()))
		return d.step(c, began, rulesv1.RolloutState_ROLLOUT_STATE_CANARY, why)
	}
	return d.promote(c, began, why)
}

// promote makes a candidate the rule.
func (d *draft) promote(c *rulesv1.Candidate, began ledger.Rollout, why string) ledger.Rollout {
	rule := c.GetRule()
	d.add(ledger.ActionPromote, why, rule.GetVersion(), deletion(rulesv1.Kind_KIND_CANDIDATE, rule.GetId()), putCandidate(rule, c.GetStage()))
	d.add(ledger.ActionPromote, why, rule.GetVersion(), putRule(rule), ruleBefore(d.at.rule(rule.GetId())))
	return d.step(c, began, rulesv1.RolloutState_ROLLOUT_STATE_PROMOTED, why)
}

// giveUp ends a rollout.
func (d *draft) giveUp(c *rulesv1.Candidate, began ledger.Rollout, why string) ledger.Rollout {
	rule := c.GetRule()
	d.add(ledger.ActionRollback, why, rule.GetVersion(), deletion(rulesv1.Kind_KIND_CANDIDATE, rule.GetId()), putCandidate(rule, c.GetStage()))
	return d.step(c, began, rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK, why)
}

// step is a rollout once it is in a state. began may be out of date, or of none.
func (d *draft) step(c *rulesv1.Candidate, began ledger.Rollout, state rulesv1.RolloutState, why string) ledger.Rollout {
	r := ledger.Rollout{
		Domain: d.domain, Rule: c.GetRule(), BaseVersion: d.at.rule(c.GetRule().GetId()).GetVersion(),
		State: state, Since: d.tx.Now(), Why: why,
	}
	if began.Rule.GetVersion() == r.Rule.GetVersion() {
		r.StartedAt, r.Author = began.StartedAt, began.Author
	}
	return r
}

// Step is one step of a rollout by its guard.
type Step struct {
	Domain, Rule string
	Version      int64         // the candidate's
	From         rulesv1.Stage // where it has to be
	NotBefore    time.Time     // by the store's clock; zero for at once
	To           rulesv1.RolloutState
	Author, Why  string
}

// errPassed ends a step that has nothing left to do.
var errPassed = errors.New("the rollout is elsewhere by now")

// StepRollout makes a step, if the rollout still is where it has to be: of several
// instances that come to the same verdict one acts, and acted says which. A
// promotion that by now would be at odds with other rules ends the rollout.
func (b *Book) StepRollout(ctx context.Context, s Step) (acted bool, err error) {
	acted, err = b.stepRollout(ctx, s)
	var p *Problem
	if errors.As(err, &p) && p.Code == CodeInvalidRule && s.To != rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK {
		s.To, s.Why = rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK, shorten("cannot take effect any more: "+p.Error())
		return b.stepRollout(ctx, s)
	}
	return acted, err
}

func (b *Book) stepRollout(ctx context.Context, s Step) (bool, error) {
	o := order{domain: s.Domain, author: s.Author, field: "rule"}
	_, err := b.write(ctx, o, func(_ context.Context, d *draft) error {
		c := d.at.candidate(s.Rule)
		if c == nil || c.GetRule().GetVersion() != s.Version || c.GetStage() != s.From || d.tx.Now().Before(s.NotBefore) {
			return errPassed
		}
		switch s.To {
		case rulesv1.RolloutState_ROLLOUT_STATE_CANARY:
			d.onward(c, ledger.Rollout{}, s.Why)
		case rulesv1.RolloutState_ROLLOUT_STATE_PROMOTED:
			d.promote(c, ledger.Rollout{}, s.Why)
		default:
			d.giveUp(c, ledger.Rollout{}, s.Why)
		}
		return nil
	})
	if errors.Is(err, errPassed) {
		return false, nil
	}
	return err == nil, err
}

// shorten cuts a text to what the audit log holds.
func shorten(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), whyMax)], "")
}

// rolloutOf is a rollout as callers see it, without counts.
func rolloutOf(r ledger.Rollout) *rulesv1.Rollout {
	out := &rulesv1.Rollout{Rule: r.Rule, BaseVersion: r.BaseVersion, State: r.State, Author: r.Author, Why: r.Why}
	if !r.StartedAt.IsZero() {
		out.StartedAt = timestamppb.New(r.StartedAt)
	}
	if !r.Since.IsZero() {
		out.Since = timestamppb.New(r.Since)
	}
	return out
}
