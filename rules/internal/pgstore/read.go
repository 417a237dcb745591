package pgstore

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// collect reads rows as R, each made a T.
func collect[R, T any](rows pgx.Rows, make func(R) (T, error)) ([]T, error) {
	var all []T
	var row R
	_, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (struct{}, error) {
		var err error
		if row, err = pgx.RowToStructByName[R](r); err != nil {
			return struct{}{}, err
		}
		item, err := make(row)
		all = append(all, item)
		return struct{}{}, err
	})
	return all, err
}

// asked are the arguments of a query. What no text of the database can be, is nowhere
// in it, and is asked for as what is nowhere in it either.
func asked(args ...any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
		}
	}
	return args
}

// atLeastOne bounds a page from below.
func atLeastOne(most int) int64 { return int64(max(most, 1)) }

const headQuery = `SELECT revision FROM ledger`

// Head implements ledger.Store.
func (s *Store) Head(ctx context.Context) (head int64, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error { return tx.QueryRow(ctx, headQuery).Scan(&head) })
	return head, err
}

// Snapshot implements ledger.Store.
func (s *Store) Snapshot(ctx context.Context) (*ledger.State, error) {
	var state *ledger.State
	err := s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		state = &ledger.State{Domains: map[string]*rulesv1.Ruleset{}}
		b := &pgx.Batch{}
		b.Queue(headQuery).QueryRow(func(row pgx.Row) error { return row.Scan(&state.Revision) })
		b.Queue(`SELECT domain, revision FROM domains`).Query(func(rows pgx.Rows) error {
			var domain string
			var revision int64
			_, err := pgx.ForEachRow(rows, []any{&domain, &revision}, func() error {
				state.Domains[domain] = &rulesv1.Ruleset{Domain: domain, Revision: revision}
				return nil
			})
			return err
		})
		whole(b, state, `SELECT `+planColumns+` FROM plans ORDER BY domain, plan_id`, func(r planRow, set *rulesv1.Ruleset) (err error) {
			set.Plans, err = appended(set.Plans)(r.proto())
			return err
		}, func(r planRow) string { return r.Domain })
		whole(b, state, `SELECT `+routeColumns+` FROM routes ORDER BY domain, route_id`, func(r routeRow, set *rulesv1.Ruleset) (err error) {
			set.Routes, err = appended(set.Routes)(r.proto())
			return err
		}, func(r routeRow) string { return r.Domain })
		whole(b, state, `SELECT `+ruleColumns+` FROM rules ORDER BY domain, rule_id`, func(r ruleRow, set *rulesv1.Ruleset) (err error) {
			set.Rules, err = appended(set.Rules)(r.proto())
			return err
		}, func(r ruleRow) string { return r.Domain })
		whole(b, state, `SELECT `+overrideColumns+` FROM overrides ORDER BY domain, override_id`, func(r overrideRow, set *rulesv1.Ruleset) (err error) {
			set.Overrides, err = appended(set.Overrides)(r.proto())
			return err
		}, func(r overrideRow) string { return r.Domain })
		whole(b, state, `SELECT `+rolloutColumns+` FROM rollouts WHERE `+underWay+` ORDER BY domain, rule_id`, func(r rolloutRow, set *rulesv1.Ruleset) (err error) {
			set.Candidates, err = appended(set.Candidates)(r.proto())
			return err
		}, func(r rolloutRow) string { return r.Domain })
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, err
	}
	return state, nil
}

// whole queues the query of a table, each of whose rows is added to its domain.
func whole[R any](b *pgx.Batch, state *ledger.State, query string, add func(R, *rulesv1.Ruleset) error, domain func(R) string) {
	b.Queue(query).Query(func(rows pgx.Rows) error {
		_, err := collect(rows, func(r R) (struct{}, error) { return struct{}{}, add(r, state.Domains[domain(r)]) })
		return err
	})
}

// appended returns what adds an item that was read to a list.
func appended[T any](list []T) func(item T, err error) ([]T, error) {
	return func(item T, err error) ([]T, error) { return append(list, item), err }
}

// list reads a page of a domain's items, and the revision at which it is so.
func list[R, T any](ctx context.Context, s *Store, item func(R) (T, error), domain, query string, args ...any) (page []T, revision int64, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT coalesce((SELECT revision FROM domains WHERE domain = $1), 0)`, asked(domain)...).QueryRow(func(row pgx.Row) error { return row.Scan(&revision) })
		b.Queue(query, asked(slices.Concat([]any{domain}, args)...)...).Query(func(rows pgx.Rows) (err error) {
			page, err = collect(rows, item)
			return err
		})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, 0, err
	}
	return page, revision, nil
}

const rulesQuery = `SELECT ` + ruleColumns + ` FROM rules
WHERE domain = $1 AND rule_id > $2 AND ($3 = '' OR match_plan = $3) AND ($4 = '' OR match_route = $4)
AND ($5 = '' OR identity::text = $5) AND ($6 = '' OR coalesce(mode, 'enforce')::text = $6)
ORDER BY rule_id LIMIT $7`

// Rules implements ledger.Store.
func (s *Store) Rules(ctx context.Context, domain string, q ledger.RuleQuery, after string, most int) ([]*rulesv1.Rule, int64, error) {
	return list(ctx, s, ruleRow.proto, domain, rulesQuery, after, q.Plan, q.Route, textOf(word(q.Identity)), textOf(word(q.Mode)), atLeastOne(most))
}

const routesQuery = `SELECT ` + routeColumns + ` FROM routes WHERE domain = $1 AND route_id > $2 ORDER BY route_id LIMIT $3`

// Routes implements ledger.Store.
func (s *Store) Routes(ctx context.Context, domain, after string, most int) ([]*rulesv1.Route, int64, error) {
	return list(ctx, s, routeRow.proto, domain, routesQuery, after, atLeastOne(most))
}

const overridesQuery = `SELECT ` + overrideColumns + ` FROM overrides
WHERE domain = $1 AND override_id > $2 AND ($3 = '' OR rule_id = $3) AND ($4 = '' OR key = $4)
ORDER BY override_id LIMIT $5`

// Overrides implements ledger.Store.
func (s *Store) Overrides(ctx context.Context, domain string, q ledger.OverrideQuery, after string, most int) ([]*rulesv1.Override, int64, error) {
	return list(ctx, s, overrideRow.proto, domain, overridesQuery, after, q.Rule, q.Key, atLeastOne(most))
}

const plansQuery = `SELECT ` + planColumns + ` FROM plans WHERE domain = $1 ORDER BY plan_id`

// Plans implements ledger.Store.
func (s *Store) Plans(ctx context.Context, domain string) ([]*rulesv1.Plan, int64, error) {
	return list(ctx, s, planRow.proto, domain, plansQuery)
}
