package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Item implements ledger.Store.
func (s *Store) Item(ctx context.Context, domain string, kind rulesv1.Kind, id string) (change *rulesv1.Change, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		change, err = item(ctx, tx, domain, kind, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return change, nil
}

func item(ctx context.Context, tx pgx.Tx, domain string, kind rulesv1.Kind, id string) (*rulesv1.Change, error) {
	switch kind {
	case rulesv1.Kind_KIND_PLAN:
		plan, err := one(ctx, tx, planRow.proto, `SELECT `+planColumns+` FROM plans WHERE domain = $1 AND plan_id = $2`, domain, id)
		return &rulesv1.Change{Item: &rulesv1.Change_Plan{Plan: plan}}, err
	case rulesv1.Kind_KIND_ROUTE:
		route, err := one(ctx, tx, routeRow.proto, `SELECT `+routeColumns+` FROM routes WHERE domain = $1 AND route_id = $2`, domain, id)
		return &rulesv1.Change{Item: &rulesv1.Change_Route{Route: route}}, err
	case rulesv1.Kind_KIND_RULE:
		rule, err := one(ctx, tx, ruleRow.proto, `SELECT `+ruleColumns+` FROM rules WHERE domain = $1 AND rule_id = $2`, domain, id)
		return &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: rule}}, err
	case rulesv1.Kind_KIND_OVERRIDE:
		override, err := one(ctx, tx, overrideRow.proto, `SELECT `+overrideColumns+` FROM overrides WHERE domain = $1 AND override_id = $2`, domain, id)
		return &rulesv1.Change{Item: &rulesv1.Change_Override{Override: override}}, err
	case rulesv1.Kind_KIND_CANDIDATE:
		candidate, err := one(ctx, tx, rolloutRow.proto, `SELECT `+rolloutColumns+` FROM rollouts WHERE domain = $1 AND rule_id = $2 AND `+underWay, domain, id)
		return &rulesv1.Change{Item: &rulesv1.Change_Candidate{Candidate: candidate}}, err
	}
	return nil, ledger.ErrNotFound
}

// one reads a row as R, made a T; pgx.ErrNoRows.
func one[R, T any](ctx context.Context, tx pgx.Tx, make func(R) (T, error), query string, args ...any) (item T, err error) {
	rows, err := tx.Query(ctx, query, asked(args...)...)
	if err != nil {
		return item, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[R])
	if err != nil {
		return item, err
	}
	return make(row)
}
