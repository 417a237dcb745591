package book

import (
	"context"
	"errors"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// podsSeen is how long a pod is shown that reports no more.
const podsSeen = 5 * time.Minute

// GetRule returns a rule and its rollout; see RulesService.
func (b *Book) GetRule(ctx context.Context, q *rulesv1.GetRuleRequest) (*rulesv1.GetRuleResponse, error) {
	domain, err := b.domainOf(q.GetDomain())
	if err != nil {
		return nil, err
	}
	item, err := b.store.Item(ctx, domain, rulesv1.Kind_KIND_RULE, q.GetId())
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return nil, asProblem(err)
	}
	response := &rulesv1.GetRuleResponse{Rule: item.GetRule()}
	rollout, err := b.underWay(ctx, domain, q.GetId())
	if err != nil {
		return nil, err
	}
	if rollout.Rule != nil {
		if response.Rollout, err = b.counted(ctx, rollout); err != nil {
			return nil, err
		}
	}
	if response.Rule == nil && response.Rollout == nil {
		return nil, notFound("rule", q.GetId())
	}
	return response, nil
}

// GetRoute returns a route class; see RulesService.
func (b *Book) GetRoute(ctx context.Context, q *rulesv1.GetRouteRequest) (*rulesv1.GetRouteResponse, error) {
	item, err := b.item(ctx, q.GetDomain(), rulesv1.Kind_KIND_ROUTE, "route class", q.GetId())
	if err != nil {
		return nil, err
	}
	return &rulesv1.GetRouteResponse{Route: item.GetRoute()}, nil
}

// GetOverride returns an override; see RulesService.
func (b *Book) GetOverride(ctx context.Context, q *rulesv1.GetOverrideRequest) (*rulesv1.GetOverrideResponse, error) {
	item, err := b.item(ctx, q.GetDomain(), rulesv1.Kind_KIND_OVERRIDE, "override", q.GetId())
	if err != nil {
		return nil, err
	}
	return &rulesv1.GetOverrideResponse{Override: item.GetOverride()}, nil
}

func (b *Book) item(ctx context.Context, named string, kind rulesv1.Kind, what, id string) (*rulesv1.Change, error) {
	domain, err := b.domainOf(named)
	if err != nil {
		return nil, err
	}
	item, err := b.store.Item(ctx, domain, kind, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, notFound(what, id)
	}
	return item, asProblem(err)
}

// ListPlans returns the plans; see RulesService.
func (b *Book) ListPlans(ctx context.Context, q *rulesv1.ListPlansRequest) (*rulesv1.ListPlansResponse, error) {
	domain, err := b.domainOf(q.GetDomain())
	if err != nil {
		return nil, err
	}
	plans, revision, err := b.store.Plans(ctx, domain)
	if err != nil {
		return nil, asProblem(err)
	}
	return &rulesv1.ListPlansResponse{Plans: plans, Revision: revision}, nil
}

// ListPods returns the pods; see RulesService.
func (b *Book) ListPods(ctx context.Context, q *rulesv1.ListPodsRequest) (*rulesv1.ListPodsResponse, error) {
	domain, err := b.domainOf(q.GetDomain())
	if err != nil {
		return nil, err
	}
	pods, err := b.store.Pods(ctx, domain, b.now().Add(-podsSeen))
	if err != nil {
		return nil, asProblem(err)
	}
	response := &rulesv1.ListPodsResponse{Pods: pods}
	if s := b.state.Load(); s != nil {
		response.Revision = s.revision(domain)
	}
	return response, nil
}

// counted is a rollout as callers see it; with counts while it is under way.
func (b *Book) counted(ctx context.Context, r ledger.Rollout) (*rulesv1.Rollout, error) {
	out := rolloutOf(r)
	if r.State != rulesv1.RolloutState_ROLLOUT_STATE_SHADOW && r.State != rulesv1.RolloutState_ROLLOUT_STATE_CANARY {
		return out, nil
	}
	counts, err := b.store.Counts(ctx, r.Domain, r.Rule.GetId())
	if errors.Is(err, ledger.ErrNotFound) {
		return out, nil // it has ended meanwhile
	}
	if err != nil {
		return nil, asProblem(err)
	}
	out.Candidate = &rulesv1.RolloutCounts{Evaluated: counts.Candidate.Evaluated, Refused: counts.Candidate.Refused}
	out.Base = &rulesv1.RolloutCounts{Evaluated: counts.Base.Evaluated, Refused: counts.Base.Refused}
	return out, nil
}
