package book

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// paged is what requests for lists have in common.
type paged interface {
	GetDomain() string
	GetPageSize() int32
	GetPageToken() string
}

// listing reads what a list asks for.
func (b *Book) listing(q paged) (domain string, most int, err error) {
	if domain, err = b.domainOf(q.GetDomain()); err != nil {
		return "", 0, err
	}
	most, err = pageSize(q.GetPageSize())
	return domain, most, err
}

// ListRules returns rules; see RulesService.
func (b *Book) ListRules(ctx context.Context, q *rulesv1.ListRulesRequest) (*rulesv1.ListRulesResponse, error) {
	switch {
	case !known(q.GetIdentity(), rulesv1.Identity_name):
		return nil, badField("identity", int32(q.GetIdentity()), "want api_key, ip or user, or nothing")
	case !known(q.GetMode(), rulesv1.Mode_name):
		return nil, badField("mode", int32(q.GetMode()), "want enforce or shadow, or nothing")
	}
	query := ledger.RuleQuery{Plan: q.GetPlan(), Route: q.GetRoute(), Identity: q.GetIdentity(), Mode: q.GetMode()}
	response := &rulesv1.ListRulesResponse{}
	var err error
	response.Rules, response.NextPageToken, response.Revision, err = listByID(b, q, func(domain, after string, most int) ([]*rulesv1.Rule, int64, error) {
		return b.store.Rules(ctx, domain, query, after, most)
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// ListRoutes returns route classes; see RulesService.
func (b *Book) ListRoutes(ctx context.Context, q *rulesv1.ListRoutesRequest) (*rulesv1.ListRoutesResponse, error) {
	response := &rulesv1.ListRoutesResponse{}
	var err error
	response.Routes, response.NextPageToken, response.Revision, err = listByID(b, q, func(domain, after string, most int) ([]*rulesv1.Route, int64, error) {
		return b.store.Routes(ctx, domain, after, most)
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// ListOverrides returns overrides; see RulesService.
func (b *Book) ListOverrides(ctx context.Context, q *rulesv1.ListOverridesRequest) (*rulesv1.ListOverridesResponse, error) {
	query := ledger.OverrideQuery{Rule: q.GetRule(), Key: q.GetKey()}
	response := &rulesv1.ListOverridesResponse{}
	var err error
	response.Overrides, response.NextPageToken, response.Revision, err = listByID(b, q, func(domain, after string, most int) ([]*rulesv1.Override, int64, error) {
		return b.store.Overrides(ctx, domain, query, after, most)
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// listByID returns a page of what is listed by id.
func listByID[T interface{ GetId() string }](b *Book, q paged, list func(domain, after string, most int) ([]T, int64, error)) (page []T, next string, revision int64, err error) {
	domain, most, err := b.listing(q)
	if err != nil {
		return nil, "", 0, err
	}
	begin, err := after(tokenByID, q.GetPageToken())
	if err != nil {
		return nil, "", 0, err
	}
	items, revision, err := list(domain, begin, most+1)
	if err != nil {
		return nil, "", 0, asProblem(err)
	}
	page, next = cut(items, most, func(last T) string { return token(tokenByID, last.GetId()) })
	return page, next, revision, nil
}

// ListRuleHistory returns what became of a rule; see RulesService.
func (b *Book) ListRuleHistory(ctx context.Context, q *rulesv1.ListRuleHistoryRequest) (*rulesv1.ListRuleHistoryResponse, error) {
	if q.GetId() == "" {
		return nil, badField("id", nil, "is missing")
	}
	entries, next, err := b.history(ctx, q, ledger.HistoryQuery{Kind: rulesv1.Kind_KIND_RULE, ID: q.GetId()})
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 && q.GetPageToken() == "" {
		return nil, notFound("rule", q.GetId())
	}
	return &rulesv1.ListRuleHistoryResponse{Entries: entries, NextPageToken: next}, nil
}

// ListAudit returns what was written; see RulesService.
func (b *Book) ListAudit(ctx context.Context, q *rulesv1.ListAuditRequest) (*rulesv1.ListAuditResponse, error) {
	if !known(q.GetKind(), rulesv1.Kind_name) {
		return nil, badField("kind", int32(q.GetKind()), "want plan, route, rule, override or candidate, or nothing")
	}
	entries, next, err := b.history(ctx, q, ledger.HistoryQuery{Kind: q.GetKind(), Author: q.GetAuthor()})
	if err != nil {
		return nil, err
	}
	return &rulesv1.ListAuditResponse{Entries: entries, NextPageToken: next}, nil
}

// history returns a page of the log, of the domain that is asked for.
func (b *Book) history(ctx context.Context, q paged, query ledger.HistoryQuery) (page []*rulesv1.AuditEntry, next string, err error) {
	domain, most, err := b.listing(q)
	if err != nil {
		return nil, "", err
	}
	before, err := afterPosition(q.GetPageToken())
	if err != nil {
		return nil, "", err
	}
	query.Domain = domain
	entries, err := b.store.History(ctx, query, before, most+1)
	if err != nil {
		return nil, "", asProblem(err)
	}
	entries, next = cut(entries, most, func(last ledger.Entry) string {
		return positionToken(ledger.Position{Revision: last.Revision, Ordinal: last.Ordinal})
	})
	for _, e := range entries {
		page = append(page, &rulesv1.AuditEntry{
			Revision: e.Revision, Domain: e.Domain, Action: e.Action, Author: e.Author, Why: e.Why,
			At: timestamppb.New(e.At), Change: e.Change, Version: e.Version, Before: e.Before,
		})
	}
	return page, next, nil
}

// ListRollouts returns rollouts; see RulesService.
func (b *Book) ListRollouts(ctx context.Context, q *rulesv1.ListRolloutsRequest) (*rulesv1.ListRolloutsResponse, error) {
	domain, most, err := b.listing(q)
	if err != nil {
		return nil, err
	}
	before, err := afterPosition(q.GetPageToken())
	if err != nil {
		return nil, err
	}
	rollouts, err := b.store.Rollouts(ctx, ledger.RolloutQuery{Domain: domain, Rule: q.GetRule(), Active: q.GetActive()}, before, most+1)
	if err != nil {
		return nil, asProblem(err)
	}
	rollouts, next := cut(rollouts, most, func(last ledger.Rollout) string { return positionToken(last.Position) })
	response := &rulesv1.ListRolloutsResponse{NextPageToken: next}
	for _, r := range rollouts {
		shown, err := b.counted(ctx, r)
		if err != nil {
			return nil, err
		}
		response.Rollouts = append(response.Rollouts, shown)
	}
	return response, nil
}
