package book

import (
	"context"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// CreatePlan adds a plan; see RulesService.
func (b *Book) CreatePlan(ctx context.Context, author string, q *rulesv1.CreatePlanRequest) (*rulesv1.CreatePlanResponse, error) {
	if q.GetPlan() == nil {
		return nil, badField("plan", nil, "is missing")
	}
	o, err := b.order(q.GetDomain(), author, q.GetWrite(), "plan")
	if err != nil {
		return nil, err
	}
	plan := proto.CloneOf(q.GetPlan())
	revision, err := b.write(ctx, o, func(_ context.Context, d *draft) error {
		if d.at.plan(plan.GetId()) != nil {
			return problem(CodeVersionConflict, "there is a plan %s already", plan.GetId())
		}
		d.add(ledger.ActionPut, d.write.GetWhy(), 0, putPlan(plan), nil)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &rulesv1.CreatePlanResponse{Plan: plan, Revision: revision}, nil
}

// DeletePlan deletes a plan; see RulesService.
func (b *Book) DeletePlan(ctx context.Context, author string, q *rulesv1.DeletePlanRequest) (*rulesv1.DeletePlanResponse, error) {
	o, err := b.order(q.GetDomain(), author, q.GetWrite(), "plan")
	if err != nil {
		return nil, err
	}
	revision, err := b.write(ctx, o, func(_ context.Context, d *draft) error {
		was := d.at.plan(q.GetId())
		if was == nil {
			return notFound("plan", q.GetId())
		}
		d.add(ledger.ActionDelete, d.write.GetWhy(), 0, deletion(rulesv1.Kind_KIND_PLAN, q.GetId()), putPlan(was))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &rulesv1.DeletePlanResponse{Revision: revision}, nil
}

func putPlan(p *rulesv1.Plan) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Plan{Plan: p}}
}
