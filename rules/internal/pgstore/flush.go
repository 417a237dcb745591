package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Append implements ledger.Tx.
func (t *tx) Append(_ context.Context, e *ledger.Entry) error {
	if err := ledger.Prepare(e); err != nil {
		return err
	}
	at := place{e.Domain, ledger.ItemOf(e.Change)}
	if t.written[at] {
		return fmt.Errorf("%w: %s %q has an entry in this write already", ledger.ErrRefused, at.item.Kind, at.item.ID)
	}
	e.Revision, e.Ordinal, e.At = t.head+1, len(t.entries), t.now
	own := *e
	own.Change = proto.CloneOf(e.Change)
	t.written[at] = true
	t.entries = append(t.entries, &own)
	return nil
}

// All rows of a table come as one JSON array, $1.
const (
	insertDomains = `INSERT INTO domains SELECT domain, revision FROM json_populate_recordset(NULL::domains, $1::json)
ON CONFLICT (domain) DO UPDATE SET revision = excluded.revision`

	insertChanges = `INSERT INTO changes (` + changeColumns + `) SELECT ` + changeColumns + ` FROM json_populate_recordset(NULL::changes, $1::json)`

	insertPlans = `INSERT INTO plans (` + planColumns + `) SELECT ` + planColumns + ` FROM json_populate_recordset(NULL::plans, $1::json)
ON CONFLICT (domain, plan_id) DO NOTHING`
	deletePlans = `DELETE FROM plans USING json_populate_recordset(NULL::plans, $1::json) AS gone
WHERE (plans.domain, plans.plan_id) = (gone.domain, gone.plan_id)`

	insertRoutes = `INSERT INTO routes (` + routeColumns + `) SELECT ` + routeColumns + ` FROM json_populate_recordset(NULL::routes, $1::json)
ON CONFLICT (domain, route_id) DO UPDATE SET (match, cost, user_field, version) =
	(excluded.match, excluded.cost, excluded.user_field, excluded.version)`
	deleteRoutes = `DELETE FROM routes USING json_populate_recordset(NULL::routes, $1::json) AS gone
WHERE (routes.domain, routes.route_id) = (gone.domain, gone.route_id)`

	// What a rule's edit, and a candidate's next stage, put anew.
	ruleSettings = `match_plan, match_route, scope, identity, algorithm, rate_per_s, burst, "limit", window_s, mode, fail_mode, counts, "check", version`
	ruleExcluded = `excluded.match_plan, excluded.match_route, excluded.scope, excluded.identity, excluded.algorithm, excluded.rate_per_s, excluded.burst, excluded."limit", excluded.window_s, excluded.mode, excluded.fail_mode, excluded.counts, excluded."check", excluded.version`
	insertRules  = `INSERT INTO rules (` + ruleColumns + `) SELECT ` + ruleColumns + ` FROM json_populate_recordset(NULL::rules, $1::json)
ON CONFLICT (domain, rule_id) DO UPDATE SET (` + ruleSettings + `) = (` + ruleExcluded + `)`
	deleteRules = `DELETE FROM rules USING json_populate_recordset(NULL::rules, $1::json) AS gone
WHERE (rules.domain, rules.rule_id) = (gone.domain, gone.rule_id)`

	insertOverrides = `INSERT INTO overrides (` + overrideColumns + `) SELECT ` + overrideColumns + ` FROM json_populate_recordset(NULL::overrides, $1::json)
ON CONFLICT (domain, override_id) DO UPDATE SET (rule_id, key, rate_per_s, burst, "limit", window_s, deny, starts_at, expires_at, author, reason) =
	(excluded.rule_id, excluded.key, excluded.rate_per_s, excluded.burst, excluded."limit", excluded.window_s, excluded.deny, excluded.starts_at, excluded.expires_at, excluded.author, excluded.reason)`
	deleteOverrides = `DELETE FROM overrides USING json_populate_recordset(NULL::overrides, $1::json) AS gone
WHERE (overrides.domain, overrides.override_id) = (gone.domain, gone.override_id)`

	// A candidate that is under way comes to its stage; another version of it does not
	// take its place. The base is the rule as it was before the write.
	insertRollouts = `INSERT INTO rollouts (` + rolloutColumns + `)
SELECT ` + ruleColumns + `, coalesce((SELECT version FROM rules WHERE (rules.domain, rules.rule_id) = (r.domain, r.rule_id)), 0),
	state, state_revision, started_at, since, author, why, revision, ordinal
FROM json_populate_recordset(NULL::rollouts, $1::json) AS r
ON CONFLICT (domain, rule_id) WHERE state IN ('shadow', 'canary') DO UPDATE SET (` + ruleSettings + `, state, state_revision, since, why) = (` + ruleExcluded + `, excluded.state,
	CASE WHEN rollouts.state = excluded.state THEN rollouts.state_revision ELSE excluded.state_revision END,
	CASE WHEN rollouts.state = excluded.state THEN rollouts.since ELSE excluded.since END, excluded.why)
WHERE rollouts.version = excluded.version`
	endRollouts = `UPDATE rollouts SET (state, state_revision, since, why) = (gone.state, gone.state_revision, gone.since, gone.why)
FROM json_populate_recordset(NULL::rollouts, $1::json) AS gone
WHERE (rollouts.domain, rollouts.rule_id) = (gone.domain, gone.rule_id) AND rollouts.state IN ('shadow', 'canary')`
	// What pods told of a stage that is over.
	dropCounts = `DELETE FROM counts USING rollouts
WHERE (counts.revision, counts.ordinal) = (rollouts.revision, rollouts.ordinal) AND counts.state_revision <> rollouts.state_revision
AND rollouts.state_revision = $1`

	notify = `SELECT pg_notify('` + channel + `', $1)`
)

// statement puts rows into a table, or takes them out.
type statement struct {
	sql  string
	all  bool // each row must be met
	rows []any
}

// The statements of a write, in their order. Foreign keys are checked at commit, but
// those to domains. Rollouts look at the rules as they were.
const (
	putDomains = iota
	putChanges
	putRollouts
	endingRollouts
	putPlans
	takePlans
	putRoutes
	takeRoutes
	putRules
	takeRules
	putOverrides
	takeOverrides
)

func newStatements() []statement {
	return []statement{
		putDomains: {sql: insertDomains}, putChanges: {sql: insertChanges},
		putRollouts: {sql: insertRollouts, all: true}, endingRollouts: {sql: endRollouts, all: true},
		putPlans: {sql: insertPlans}, takePlans: {sql: deletePlans, all: true},
		putRoutes: {sql: insertRoutes}, takeRoutes: {sql: deleteRoutes, all: true},
		putRules: {sql: insertRules}, takeRules: {sql: deleteRules, all: true},
		putOverrides: {sql: insertOverrides}, takeOverrides: {sql: deleteOverrides, all: true},
	}
}

// flush sends all that was appended, in one round trip.
func (t *tx) flush(ctx context.Context) error {
	todo := newStatements()
	domains := map[string]bool{}
	for _, e := range t.entries {
		row, err := changeRowOf(e)
		if err != nil {
			return err
		}
		todo[putChanges].rows = append(todo[putChanges].rows, row)
		if !domains[e.Domain] {
			domains[e.Domain] = true
			todo[putDomains].rows = append(todo[putDomains].rows, domainRow{e.Domain, e.Revision})
		}
		which, state := stateRow(e)
		todo[which].rows = append(todo[which].rows, state)
	}
	b := &pgx.Batch{}
	for _, st := range todo {
		if err := st.queue(b); err != nil {
			return err
		}
	}
	if len(todo[putRollouts].rows)+len(todo[endingRollouts].rows) > 0 {
		b.Queue(dropCounts, t.head+1)
	}
	b.Queue(notify, strconv.FormatInt(t.head+1, 10))
	ctx, cancel := context.WithTimeout(ctx, writeStatement+slack)
	defer cancel()
	return t.pg.SendBatch(ctx, b).Close()
}

type domainRow struct {
	Domain   string `json:"domain"`
	Revision int64  `json:"revision"`
}

// stateRow returns what an entry makes of what is in force, and by which statement.
func stateRow(e *ledger.Entry) (int, any) {
	switch of := e.Change.GetItem().(type) {
	case *rulesv1.Change_Plan:
		return putPlans, planRowOf(e.Domain, of.Plan)
	case *rulesv1.Change_Route:
		return putRoutes, routeRowOf(e.Domain, of.Route)
	case *rulesv1.Change_Rule:
		return putRules, ruleRowOf(e.Domain, of.Rule)
	case *rulesv1.Change_Override:
		return putOverrides, overrideRowOf(e.Domain, of.Override)
	case *rulesv1.Change_Candidate:
		return putRollouts, rolloutRowOf(e)
	}
	id := e.Change.GetDeletion().GetId()
	switch e.Change.GetDeletion().GetKind() {
	case rulesv1.Kind_KIND_PLAN:
		return takePlans, planRow{e.Domain, id}
	case rulesv1.Kind_KIND_ROUTE:
		return takeRoutes, map[string]string{"domain": e.Domain, "route_id": id}
	case rulesv1.Kind_KIND_RULE:
		return takeRules, map[string]string{"domain": e.Domain, "rule_id": id}
	case rulesv1.Kind_KIND_OVERRIDE:
		return takeOverrides, map[string]string{"domain": e.Domain, "override_id": id}
	}
	return endingRollouts, endOf(e, id)
}

// queue adds a statement to a batch, unless it has nothing to do.
func (st statement) queue(b *pgx.Batch) error {
	if len(st.rows) == 0 {
		return nil
	}
	rows, err := json.Marshal(st.rows)
	if err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrRefused, err)
	}
	b.Queue(st.sql, string(rows)).Exec(func(done pgconn.CommandTag) error {
		if st.all && done.RowsAffected() != int64(len(st.rows)) {
			return fmt.Errorf("%w: of %d items to %s only %d are there", ledger.ErrRefused, len(st.rows), st.doing(), done.RowsAffected())
		}
		return nil
	})
	return nil
}

// doing names a statement that must meet all its rows.
func (st statement) doing() string {
	if st.sql == insertRollouts {
		return "be candidates of no other version's rollout"
	}
	return "delete"
}
