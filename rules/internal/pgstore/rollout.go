package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// rolloutRow is a candidate and what became of it.
type rolloutRow struct {
	ruleRow
	BaseVersion   int64     `json:"-"` // the database knows it
	State         *string   `json:"state"`
	StateRevision int64     `json:"state_revision"`
	StartedAt     time.Time `json:"started_at"`
	Since         time.Time `json:"since"`
	Author        string    `json:"author"`
	Why           string    `json:"why"`
	Revision      int64     `json:"revision"`
	Ordinal       int       `json:"ordinal"`
}

const rolloutColumns = ruleColumns + `, base_version, state, state_revision, started_at, since, author, why, revision, ordinal`

// underWay is the condition that a rollout is.
const underWay = `state IN ('shadow', 'canary')`

// states are what a candidate's stages are as states of its rollout.
var states = map[rulesv1.Stage]rulesv1.RolloutState{
	rulesv1.Stage_STAGE_SHADOW: rulesv1.RolloutState_ROLLOUT_STATE_SHADOW,
	rulesv1.Stage_STAGE_CANARY: rulesv1.RolloutState_ROLLOUT_STATE_CANARY,
}

// rolloutRowOf is what an entry that puts a candidate makes, if it begins a rollout.
func rolloutRowOf(e *ledger.Entry) rolloutRow {
	c := e.Change.GetCandidate()
	return rolloutRow{
		ruleRow: ruleRowOf(e.Domain, c.GetRule()), State: word(states[c.GetStage()]), StateRevision: e.Revision,
		StartedAt: e.At, Since: e.At, Author: e.Author, Why: e.Why, Revision: e.Revision, Ordinal: e.Ordinal,
	}
}

// endOf is what an entry that deletes a candidate makes of its rollout.
func endOf(e *ledger.Entry, rule string) rolloutRow {
	state := rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK
	if e.Action == ledger.ActionPromote {
		state = rulesv1.RolloutState_ROLLOUT_STATE_PROMOTED
	}
	return rolloutRow{ruleRow: ruleRow{Domain: e.Domain, RuleID: rule}, State: word(state), StateRevision: e.Revision, Since: e.At, Why: e.Why}
}

func (r rolloutRow) rollout() (ledger.Rollout, error) {
	rule, err := r.ruleRow.proto()
	if err != nil {
		return ledger.Rollout{}, err
	}
	state, err := meaning[rulesv1.RolloutState](r.State)
	return ledger.Rollout{
		Domain: r.Domain, Rule: rule, BaseVersion: r.BaseVersion, State: state, StartedAt: r.StartedAt.UTC(), Since: r.Since.UTC(),
		Author: r.Author, Why: r.Why, Position: ledger.Position{Revision: r.Revision, Ordinal: r.Ordinal},
	}, err
}

// proto returns the candidate of a rollout that is under way.
func (r rolloutRow) proto() (*rulesv1.Candidate, error) {
	rollout, err := r.rollout()
	c := &rulesv1.Candidate{Rule: rollout.Rule}
	for stage, state := range states {
		if state == rollout.State {
			c.Stage = stage
		}
	}
	return c, err
}

const rolloutsQuery = `SELECT ` + rolloutColumns + ` FROM rollouts
WHERE ($1 = '' OR domain = $1) AND ($2 = '' OR rule_id = $2) AND (NOT $3 OR ` + underWay + `) AND ($4::bigint = 0 OR (revision, ordinal) < ($4, $5))
ORDER BY revision DESC, ordinal DESC LIMIT $6`

// Rollouts implements ledger.Store.
func (s *Store) Rollouts(ctx context.Context, q ledger.RolloutQuery, before ledger.Position, most int) (page []ledger.Rollout, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, rolloutsQuery, asked(q.Domain, q.Rule, q.Active, before.Revision, int64(before.Ordinal), atLeastOne(most))...)
		if err != nil {
			return err
		}
		page, err = collect(rows, rolloutRow.rollout)
		return err
	})
	return page, err
}
