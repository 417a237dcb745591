package book

import (
	"context"
	"errors"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// versionsBack bounds how many versions that were never in force (rollouts that
// were given up, deletions) a rollback looks past, with a query each.
const versionsBack = 100

// RollbackRule puts an earlier version of a rule back at once, of a deleted one
// too (which does not exist: expected_version 0). While a rollout of the rule is under
// way it ends that instead; expected_version may then be the candidate's. See
// RulesService.
func (b *Book) RollbackRule(ctx context.Context, author string, q *rulesv1.RollbackRuleRequest) (*rulesv1.RollbackRuleResponse, error) {
	o, _, err := b.ruleOrder(q.GetDomain(), author, q.GetWrite(), 0)
	if err != nil {
		return nil, err
	}
	if q.GetToVersion() < 0 {
		return nil, badField("to_version", q.GetToVersion(), "want 0 or more")
	}
	began, err := b.underWay(ctx, o.domain, q.GetId())
	if err != nil {
		return nil, err
	}
	response := &rulesv1.RollbackRuleResponse{}
	response.Revision, err = b.write(ctx, o, func(ctx context.Context, d *draft) error {
		if c := d.at.candidate(q.GetId()); c != nil {
			response.Rule = d.at.rule(q.GetId())
			response.Rollout, err = d.endRollout(c, began, q.GetToVersion())
			return err
		}
		response.Rule, err = d.goBack(ctx, q.GetId(), q.GetToVersion())
		return err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// endRollout gives a rollout up because a person asked for it.
func (d *draft) endRollout(c *rulesv1.Candidate, began ledger.Rollout, to int64) (*rulesv1.Rollout, error) {
	id := c.GetRule().GetId()
	inForce := d.at.rule(id).GetVersion()
	if d.write.GetExpectedVersion() != c.GetRule().GetVersion() {
		if err := d.expect(inForce); err != nil {
			return nil, err
		}
	}
	if to != 0 && to != inForce {
		return nil, problem(CodeRolloutInProgress, "rule %s has a rollout under way: end it first, by a rollback without to_version", id)
	}
	return rolloutOf(d.giveUp(c, began, d.write.GetWhy())), nil
}

// goBack puts an earlier version back.
func (d *draft) goBack(ctx context.Context, id string, to int64) (*rulesv1.Rule, error) {
	current := d.at.rule(id).GetVersion()
	if err := d.expect(current); err != nil {
		return nil, err
	}
	earlier, err := d.earlier(ctx, id, current, to)
	if err != nil {
		return nil, err
	}
	e, err := d.become(ctx, earlier, ledger.ActionRollback, false)
	return e.rule, err
}

// earlier is the version of a rule to go back to: to, or if that is 0 the one in
// force before current, or for a rule that is gone its last one.
func (d *draft) earlier(ctx context.Context, id string, current, to int64) (*rulesv1.Rule, error) {
	if to != 0 {
		rule, err := d.tx.Version(ctx, d.domain, id, to)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, problem(CodeNotFound, "rule %s was never in force at version %d", id, to)
		}
		return rule, err
	}
	if current == 0 {
		last, err := d.tx.LastVersion(ctx, d.domain, rulesv1.Kind_KIND_RULE, id)
		if err != nil {
			return nil, err
		}
		current = last + 1
	}
	for version := current - 1; version > 0 && version >= current-versionsBack; version-- {
		rule, err := d.tx.Version(ctx, d.domain, id, version)
		if !errors.Is(err, ledger.ErrNotFound) {
			return rule, err
		}
	}
	return nil, problem(CodeNotFound, "rule %s has no version to go back to among the %d before this one", id, min(versionsBack, max(current-1, 0)))
}
