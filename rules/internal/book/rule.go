package book

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// edited is what became of a rule.
type edited struct {
	rule    *rulesv1.Rule
	rollout *rulesv1.Rollout // nil if it is in force
}

// PutRule creates or replaces a rule; see RulesService. What is guarded, the
// package's comment says.
func (b *Book) PutRule(ctx context.Context, author string, q *rulesv1.PutRuleRequest) (*rulesv1.PutRuleResponse, error) {
	if q.GetRule() == nil {
		return nil, badField("rule", nil, "is missing")
	}
	o, guarded, err := b.ruleOrder(q.GetDomain(), author, q.GetWrite(), q.GetRollout())
	if err != nil {
		return nil, err
	}
	var e edited
	revision, err := b.write(ctx, o, func(ctx context.Context, d *draft) error {
		if _, err := d.free(q.GetRule().GetId()); err != nil {
			return err
		}
		e, err = d.become(ctx, q.GetRule(), ledger.ActionPut, guarded)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &rulesv1.PutRuleResponse{Rule: e.rule, Rollout: e.rollout, Revision: revision}, nil
}

// EnforceRule puts a rule in enforce mode; see RulesService.
func (b *Book) EnforceRule(ctx context.Context, author string, q *rulesv1.EnforceRuleRequest) (*rulesv1.EnforceRuleResponse, error) {
	o, guarded, err := b.ruleOrder(q.GetDomain(), author, q.GetWrite(), q.GetRollout())
	if err != nil {
		return nil, err
	}
	e, revision, err := b.setMode(ctx, o, q.GetId(), rulesv1.Mode_MODE_ENFORCE, ledger.ActionEnforce, guarded)
	if err != nil {
		return nil, err
	}
	return &rulesv1.EnforceRuleResponse{Rule: e.rule, Rollout: e.rollout, Revision: revision}, nil
}

// ShadowRule puts a rule in shadow mode at once; see RulesService.
func (b *Book) ShadowRule(ctx context.Context, author string, q *rulesv1.ShadowRuleRequest) (*rulesv1.ShadowRuleResponse, error) {
	o, _, err := b.ruleOrder(q.GetDomain(), author, q.GetWrite(), 0)
	if err != nil {
		return nil, err
	}
	e, revision, err := b.setMode(ctx, o, q.GetId(), rulesv1.Mode_MODE_SHADOW, ledger.ActionShadow, false)
	if err != nil {
		return nil, err
	}
	return &rulesv1.ShadowRuleResponse{Rule: e.rule, Revision: revision}, nil
}

func (b *Book) setMode(ctx context.Context, o order, id string, mode rulesv1.Mode, action string, guarded bool) (e edited, revision int64, err error) {
	revision, err = b.write(ctx, o, func(ctx context.Context, d *draft) error {
		was, err := d.existing(id)
		if err != nil {
			return err
		}
		rule := proto.CloneOf(was)
		rule.Mode = mode
		e, err = d.become(ctx, rule, action, guarded)
		return err
	})
	return e, revision, err
}

// DeleteRule deletes a rule; see RulesService.
func (b *Book) DeleteRule(ctx context.Context, author string, q *rulesv1.DeleteRuleRequest) (*rulesv1.DeleteRuleResponse, error) {
	o, _, err := b.ruleOrder(q.GetDomain(), author, q.GetWrite(), 0)
	if err != nil {
		return nil, err
	}
	revision, err := b.write(ctx, o, func(ctx context.Context, d *draft) error {
		was, err := d.existing(q.GetId())
		if err != nil {
			return err
		}
		version, err := d.nextVersion(ctx, rulesv1.Kind_KIND_RULE, q.GetId())
		if err != nil {
			return err
		}
		d.add(ledger.ActionDelete, d.write.GetWhy(), version, deletion(rulesv1.Kind_KIND_RULE, q.GetId()), putRule(was))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &rulesv1.DeleteRuleResponse{Revision: revision}, nil
}

// ruleOrder checks what all writes of a rule say, and whether an edit is guarded.
func (b *Book) ruleOrder(domain, author string, w *rulesv1.Write, mode rulesv1.RolloutMode) (o order, guarded bool, err error) {
	if !known(mode, rulesv1.RolloutMode_name) {
		return order{}, false, badField("rollout", int32(mode), "want guarded or immediate, or nothing")
	}
	if mode == rulesv1.RolloutMode_ROLLOUT_MODE_UNSPECIFIED {
		mode = b.rollout
	}
	if o, err = b.order(domain, author, w, "rule"); err != nil {
		return order{}, false, err
	}
	return o, mode == rulesv1.RolloutMode_ROLLOUT_MODE_GUARDED, o.precondition()
}

// free returns a rule in force, nil for none, that may be written: it has the
// version that is expected, and no rollout is under way.
func (d *draft) free(id string) (*rulesv1.Rule, error) {
	was := d.at.rule(id)
	if err := d.expect(was.GetVersion()); err != nil {
		return nil, err
	}
	if c := d.at.candidate(id); c != nil {
		return nil, problem(CodeRolloutInProgress, "version %d of rule %s is being rolled out: wait for it, advance it, or end it by a rollback", c.GetRule().GetVersion(), id)
	}
	return was, nil
}

// existing is free for a rule that has to be there.
func (d *draft) existing(id string) (*rulesv1.Rule, error) {
	if d.at.rule(id) == nil && d.at.candidate(id) == nil {
		return nil, notFound("rule", id)
	}
	was, err := d.free(id)
	if err == nil && was == nil {
		return nil, notFound("rule", id)
	}
	return was, err
}

// nextVersion is the version that a change of an item makes.
func (d *draft) nextVersion(ctx context.Context, kind rulesv1.Kind, id string) (int64, error) {
	last, err := d.tx.LastVersion(ctx, d.domain, kind, id)
	return last + 1, err
}

// become makes a rule what it is to be: at once, or by a rollout if it is guarded
// and callers could feel it.
func (d *draft) become(ctx context.Context, rule *rulesv1.Rule, action string, guarded bool) (edited, error) {
	was := d.at.rule(rule.GetId())
	version, err := d.nextVersion(ctx, rulesv1.Kind_KIND_RULE, rule.GetId())
	if err != nil {
		return edited{}, err
	}
	rule = withVersion(rule, version)
	why := d.write.GetWhy()
	if !guarded || !felt(was, rule) {
		d.add(action, why, version, putRule(rule), ruleBefore(was))
		return edited{rule: rule}, nil
	}
	d.add(ledger.ActionRollout, why, version, putCandidate(rule, rulesv1.Stage_STAGE_SHADOW), nil)
	return edited{rule, rolloutOf(ledger.Rollout{
		Domain: d.domain, Rule: rule, BaseVersion: was.GetVersion(), State: rulesv1.RolloutState_ROLLOUT_STATE_SHADOW,
		StartedAt: d.tx.Now(), Since: d.tx.Now(), Author: d.author, Why: why,
	})}, nil
}

// felt reports whether an edit may refuse what was not refused before: the rule
// enforces, and is not what it was. was is nil for a new rule.
func felt(was, rule *rulesv1.Rule) bool {
	if rule.GetMode() == rulesv1.Mode_MODE_SHADOW {
		return false
	}
	return !sameRule(was, rule)
}

// sameRule reports whether two rules differ in nothing but their versions, or in
// what one says and the other leaves to its default.
func sameRule(a, b *rulesv1.Rule) bool {
	return a != nil && proto.Equal(spelledOut(a), spelledOut(b))
}

// spelledOut is a copy of a rule without its version and with its defaults.
func spelledOut(r *rulesv1.Rule) *rulesv1.Rule {
	r = withVersion(r, 0)
	r.Mode = cmp.Or(r.GetMode(), rulesv1.Mode_MODE_ENFORCE)
	r.FailMode = cmp.Or(r.GetFailMode(), rulesv1.FailMode_FAIL_MODE_OPEN)
	r.Counts = cmp.Or(r.GetCounts(), rulesv1.Counts_COUNTS_REQUESTS)
	r.Check = cmp.Or(r.GetCheck(), rulesv1.Check_CHECK_BEFORE)
	return r
}
