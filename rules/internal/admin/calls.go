package admin

import (
	"context"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// What each call does is said in the contract, proto/shiplane/rules/v1/service.proto.

// GetRule implements RulesService.
func (s *Service) GetRule(ctx context.Context, q *rulesv1.GetRuleRequest) (*rulesv1.GetRuleResponse, error) {
	return read(ctx, s, q, s.book.GetRule)
}

// ListRules implements RulesService.
func (s *Service) ListRules(ctx context.Context, q *rulesv1.ListRulesRequest) (*rulesv1.ListRulesResponse, error) {
	return read(ctx, s, q, s.book.ListRules)
}

// PutRule implements RulesService.
func (s *Service) PutRule(ctx context.Context, q *rulesv1.PutRuleRequest) (*rulesv1.PutRuleResponse, error) {
	return write(ctx, s, q, s.book.PutRule)
}

// DeleteRule implements RulesService.
func (s *Service) DeleteRule(ctx context.Context, q *rulesv1.DeleteRuleRequest) (*rulesv1.DeleteRuleResponse, error) {
	return write(ctx, s, q, s.book.DeleteRule)
}

// ListRuleHistory implements RulesService.
func (s *Service) ListRuleHistory(ctx context.Context, q *rulesv1.ListRuleHistoryRequest) (*rulesv1.ListRuleHistoryResponse, error) {
	return read(ctx, s, q, s.book.ListRuleHistory)
}

// ShadowRule implements RulesService.
func (s *Service) ShadowRule(ctx context.Context, q *rulesv1.ShadowRuleRequest) (*rulesv1.ShadowRuleResponse, error) {
	return write(ctx, s, q, s.book.ShadowRule)
}

// EnforceRule implements RulesService.
func (s *Service) EnforceRule(ctx context.Context, q *rulesv1.EnforceRuleRequest) (*rulesv1.EnforceRuleResponse, error) {
	return write(ctx, s, q, s.book.EnforceRule)
}

// RollbackRule implements RulesService.
func (s *Service) RollbackRule(ctx context.Context, q *rulesv1.RollbackRuleRequest) (*rulesv1.RollbackRuleResponse, error) {
	return write(ctx, s, q, s.book.RollbackRule)
}

// ListRollouts implements RulesService.
func (s *Service) ListRollouts(ctx context.Context, q *rulesv1.ListRolloutsRequest) (*rulesv1.ListRolloutsResponse, error) {
	return read(ctx, s, q, s.book.ListRollouts)
}

// AdvanceRollout implements RulesService.
func (s *Service) AdvanceRollout(ctx context.Context, q *rulesv1.AdvanceRolloutRequest) (*rulesv1.AdvanceRolloutResponse, error) {
	return write(ctx, s, q, s.book.AdvanceRollout)
}

// GetRoute implements RulesService.
func (s *Service) GetRoute(ctx context.Context, q *rulesv1.GetRouteRequest) (*rulesv1.GetRouteResponse, error) {
	return read(ctx, s, q, s.book.GetRoute)
}

// ListRoutes implements RulesService.
func (s *Service) ListRoutes(ctx context.Context, q *rulesv1.ListRoutesRequest) (*rulesv1.ListRoutesResponse, error) {
	return read(ctx, s, q, s.book.ListRoutes)
}

// PutRoute implements RulesService.
func (s *Service) PutRoute(ctx context.Context, q *rulesv1.PutRouteRequest) (*rulesv1.PutRouteResponse, error) {
	return write(ctx, s, q, s.book.PutRoute)
}

// DeleteRoute implements RulesService.
func (s *Service) DeleteRoute(ctx context.Context, q *rulesv1.DeleteRouteRequest) (*rulesv1.DeleteRouteResponse, error) {
	return write(ctx, s, q, s.book.DeleteRoute)
}

// ListPlans implements RulesService.
func (s *Service) ListPlans(ctx context.Context, q *rulesv1.ListPlansRequest) (*rulesv1.ListPlansResponse, error) {
	return read(ctx, s, q, s.book.ListPlans)
}

// CreatePlan implements RulesService.
func (s *Service) CreatePlan(ctx context.Context, q *rulesv1.CreatePlanRequest) (*rulesv1.CreatePlanResponse, error) {
	return write(ctx, s, q, s.book.CreatePlan)
}

// DeletePlan implements RulesService.
func (s *Service) DeletePlan(ctx context.Context, q *rulesv1.DeletePlanRequest) (*rulesv1.DeletePlanResponse, error) {
	return write(ctx, s, q, s.book.DeletePlan)
}

// CreateOverride implements RulesService.
func (s *Service) CreateOverride(ctx context.Context, q *rulesv1.CreateOverrideRequest) (*rulesv1.CreateOverrideResponse, error) {
	return write(ctx, s, q, s.book.CreateOverride)
}

// GetOverride implements RulesService.
func (s *Service) GetOverride(ctx context.Context, q *rulesv1.GetOverrideRequest) (*rulesv1.GetOverrideResponse, error) {
	return read(ctx, s, q, s.book.GetOverride)
}

// ListOverrides implements RulesService.
func (s *Service) ListOverrides(ctx context.Context, q *rulesv1.ListOverridesRequest) (*rulesv1.ListOverridesResponse, error) {
	return read(ctx, s, q, s.book.ListOverrides)
}

// DeleteOverride implements RulesService.
func (s *Service) DeleteOverride(ctx context.Context, q *rulesv1.DeleteOverrideRequest) (*rulesv1.DeleteOverrideResponse, error) {
	return write(ctx, s, q, s.book.DeleteOverride)
}

// ListAudit implements RulesService.
func (s *Service) ListAudit(ctx context.Context, q *rulesv1.ListAuditRequest) (*rulesv1.ListAuditResponse, error) {
	return read(ctx, s, q, s.book.ListAudit)
}

// ListPods implements RulesService.
func (s *Service) ListPods(ctx context.Context, q *rulesv1.ListPodsRequest) (*rulesv1.ListPodsResponse, error) {
	return read(ctx, s, q, s.book.ListPods)
}
