package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// podRow is what a pod has told of itself.
type podRow struct {
	Domain   string    `json:"domain"`
	PodID    string    `json:"pod_id"`
	Region   string    `json:"region"`
	Canary   bool      `json:"canary"`
	Revision int64     `json:"revision"`
	Faults   []string  `json:"faults"`
	SeenAt   time.Time `json:"seen_at"`
}

// life is what a rollout's counts are kept for: an incarnation of a pod, in the state
// that the rollout is in.
type life struct {
	Revision      int64  `json:"revision"`
	Ordinal       int    `json:"ordinal"`
	StateRevision int64  `json:"state_revision"`
	PodID         string `json:"pod_id"`
	Incarnation   string `json:"incarnation"`
}

// countRow are counts of a life: what it told first, and what it told last.
type countRow struct {
	life
	CandidateEvaluatedFirst int64 `json:"candidate_evaluated_first"`
	CandidateRefusedFirst   int64 `json:"candidate_refused_first"`
	BaseEvaluatedFirst      int64 `json:"base_evaluated_first"`
	BaseRefusedFirst        int64 `json:"base_refused_first"`
	CandidateEvaluated      int64 `json:"candidate_evaluated"`
	CandidateRefused        int64 `json:"candidate_refused"`
	BaseEvaluated           int64 `json:"base_evaluated"`
	BaseRefused             int64 `json:"base_refused"`
}

const (
	insertPods = `INSERT INTO pods SELECT domain, pod_id, region, canary, revision, faults, seen_at FROM json_populate_recordset(NULL::pods, $1::json)
ON CONFLICT (domain, pod_id) DO UPDATE SET (region, canary, revision, faults, seen_at) =
	(excluded.region, excluded.canary, excluded.revision, excluded.faults, excluded.seen_at)`

	// Another instance may be forgetting the same ones.
	forgetPods = `DELETE FROM pods WHERE (domain, pod_id) IN (SELECT domain, pod_id FROM pods WHERE seen_at < $1 FOR UPDATE SKIP LOCKED)`

	// Counts never shrink: a report can overtake another.
	insertCounts = `INSERT INTO counts SELECT c.* FROM json_populate_recordset(NULL::counts, $1::json) AS c
ON CONFLICT (revision, ordinal, state_revision, pod_id, incarnation) DO UPDATE SET
	candidate_evaluated = greatest(counts.candidate_evaluated, excluded.candidate_evaluated),
	candidate_refused   = greatest(counts.candidate_refused, excluded.candidate_refused),
	base_evaluated      = greatest(counts.base_evaluated, excluded.base_evaluated),
	base_refused        = greatest(counts.base_refused, excluded.base_refused)`

	activeQuery = `SELECT ` + rolloutColumns + ` FROM rollouts WHERE ` + underWay + ` AND domain = ANY ($1::text[])`
)

// Report implements ledger.Reports.
func (s *Store) Report(ctx context.Context, reports []ledger.Report) error {
	if len(reports) == 0 {
		return nil
	}
	pods, domains, latest := map[[2]string]podRow{}, map[string]bool{}, time.Time{}
	for i := range reports {
		r := &reports[i]
		if err := ledger.CheckReport(r); err != nil {
			return err
		}
		faults := r.Faults
		if faults == nil {
			faults = []string{}
		}
		pods[[2]string{r.Domain, r.Pod.GetId()}] = podRow{r.Domain, r.Pod.GetId(), r.Pod.GetRegion(), r.Pod.GetCanary(), r.Revision, faults, r.At}
		domains[r.Domain] = true
		if r.At.After(latest) {
			latest = r.At
		}
	}
	podRows, err := sortedJSON(pods, func(x, y podRow) int { return cmp.Or(cmp.Compare(x.Domain, y.Domain), cmp.Compare(x.PodID, y.PodID)) })
	if err != nil {
		return err
	}
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		counts, err := countsOf(ctx, tx, domains, reports)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(insertPods, podRows)
		b.Queue(forgetPods, latest.Add(-ledger.PodsKept))
		b.Queue(insertCounts, counts)
		return tx.SendBatch(ctx, b).Close()
	})
}

// sortedJSON returns rows in the order in which every instance takes them, so that
// no two wait for each other.
func sortedJSON[K comparable, R any](rows map[K]R, order func(x, y R) int) (string, error) {
	sorted := make([]R, 0, len(rows))
	for _, row := range rows {
		sorted = append(sorted, row)
	}
	slices.SortFunc(sorted, order)
	text, err := json.Marshal(sorted)
	return string(text), err
}

// countsOf returns what the reports say of the rollouts under way.
func countsOf(ctx context.Context, tx pgx.Tx, domains map[string]bool, reports []ledger.Report) (string, error) {
	var names []string
	for domain := range domains {
		names = append(names, domain)
	}
	rows, err := tx.Query(ctx, activeQuery, names)
	if err != nil {
		return "", err
	}
	active, err := pgx.CollectRows(rows, pgx.RowToStructByName[rolloutRow])
	if err != nil {
		return "", err
	}
	counts := map[life]countRow{}
	for i := range reports {
		for _, rollout := range active {
			rollout.count(&reports[i], counts)
		}
	}
	return sortedJSON(counts, func(x, y countRow) int {
		return cmp.Or(cmp.Compare(x.Revision, y.Revision), cmp.Compare(x.Ordinal, y.Ordinal), cmp.Compare(x.PodID, y.PodID), cmp.Compare(x.Incarnation, y.Incarnation))
	})
}

// count adds a report to the counts of a rollout, if it is of its present state.
func (r rolloutRow) count(told *ledger.Report, counts map[life]countRow) {
	canary := textOf(r.State) == textOf(word(rulesv1.RolloutState_ROLLOUT_STATE_CANARY))
	if told.Domain != r.Domain || told.Revision < r.StateRevision {
		return
	}
	of := life{r.Revision, r.Ordinal, r.StateRevision, told.Pod.GetId(), told.Incarnation}
	row, known := counts[of]
	row.life = of
	for _, c := range told.Counts {
		switch {
		case c.GetRule() != r.RuleID:
		case c.GetVersion() == r.Version && (!canary || told.Pod.GetCanary()):
			row.CandidateEvaluated, row.CandidateRefused = max(row.CandidateEvaluated, c.GetEvaluated()), max(row.CandidateRefused, c.GetRefused())
		case c.GetVersion() == r.BaseVersion && (!canary || !told.Pod.GetCanary()):
			row.BaseEvaluated, row.BaseRefused = max(row.BaseEvaluated, c.GetEvaluated()), max(row.BaseRefused, c.GetRefused())
		}
	}
	if !known {
		row.CandidateEvaluatedFirst, row.CandidateRefusedFirst = row.CandidateEvaluated, row.CandidateRefused
		row.BaseEvaluatedFirst, row.BaseRefusedFirst = row.BaseEvaluated, row.BaseRefused
	}
	counts[of] = row
}

// Pods implements ledger.Reports.
func (s *Store) Pods(ctx context.Context, domain string, since time.Time) (pods []*rulesv1.PodStatus, err error) {
	const query = `SELECT domain, pod_id, region, canary, revision, faults, seen_at FROM pods WHERE domain = $1 AND seen_at >= $2 ORDER BY pod_id`
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, asked(domain, since)...)
		if err != nil {
			return err
		}
		pods, err = collect(rows, func(r podRow) (*rulesv1.PodStatus, error) {
			return &rulesv1.PodStatus{Id: r.PodID, Region: r.Region, Canary: r.Canary, Revision: r.Revision, Faults: r.Faults, SeenAt: timestamppb.New(r.SeenAt)}, nil
		})
		return err
	})
	return pods, err
}

const countsQuery = `SELECT count(DISTINCT c.pod_id),
	coalesce(sum(candidate_evaluated - candidate_evaluated_first), 0)::bigint, coalesce(sum(candidate_refused - candidate_refused_first), 0)::bigint,
	coalesce(sum(base_evaluated - base_evaluated_first), 0)::bigint, coalesce(sum(base_refused - base_refused_first), 0)::bigint
FROM rollouts AS r LEFT JOIN counts AS c ON (c.revision, c.ordinal, c.state_revision) = (r.revision, r.ordinal, r.state_revision)
WHERE domain = $1 AND rule_id = $2 AND ` + underWay + ` GROUP BY r.revision, r.ordinal`

// Counts implements ledger.Reports.
func (s *Store) Counts(ctx context.Context, domain, rule string) (sum ledger.Counts, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, countsQuery, asked(domain, rule)...).Scan(
			&sum.Pods, &sum.Candidate.Evaluated, &sum.Candidate.Refused, &sum.Base.Evaluated, &sum.Base.Refused)
	})
	return sum, err
}
