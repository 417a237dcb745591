package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// changeRow is an entry.
type changeRow struct {
	Revision int64           `json:"revision"`
	Ordinal  int             `json:"ordinal"`
	Domain   string          `json:"domain"`
	Kind     *string         `json:"kind"`
	ItemID   string          `json:"item_id"`
	Deleted  bool            `json:"deleted"`
	Version  int64           `json:"version"`
	Change   json.RawMessage `json:"change"`
	Before   json.RawMessage `json:"before,omitempty"`
	Action   string          `json:"action"`
	Author   string          `json:"author"`
	Why      string          `json:"why"`
	At       time.Time       `json:"at"`
}

const changeColumns = `revision, ordinal, domain, kind, item_id, deleted, version, change, before, action, author, why, at`

func changeRowOf(e *ledger.Entry) (changeRow, error) {
	item := ledger.ItemOf(e.Change)
	row := changeRow{
		Revision: e.Revision, Ordinal: e.Ordinal, Domain: e.Domain, Kind: word(item.Kind), ItemID: item.ID, Deleted: ledger.Deletes(e.Change),
		Version: e.Version, Action: e.Action, Author: e.Author, Why: e.Why, At: e.At,
	}
	var err error
	if row.Change, err = protojson.Marshal(e.Change); err == nil && e.Before != nil {
		row.Before, err = protojson.Marshal(e.Before)
	}
	if err != nil {
		return row, fmt.Errorf("%w: %w", ledger.ErrRefused, err)
	}
	return row, nil
}

func (r changeRow) entry() (e ledger.Entry, err error) {
	e = ledger.Entry{
		Revision: r.Revision, Ordinal: r.Ordinal, Domain: r.Domain, Change: &rulesv1.Change{}, Version: r.Version,
		Action: r.Action, Author: r.Author, Why: r.Why, At: r.At.UTC(),
	}
	read := protojson.UnmarshalOptions{DiscardUnknown: true} // a newer instance may say more
	if err = read.Unmarshal(r.Change, e.Change); err == nil && r.Before != nil {
		e.Before = &rulesv1.Change{}
		err = read.Unmarshal(r.Before, e.Before)
	}
	if err != nil {
		return e, fmt.Errorf("%w: the change of revision %d: %w", errDecode, r.Revision, err)
	}
	return e, nil
}

// The last revision is read whole.
const sinceQuery = `SELECT ` + changeColumns + ` FROM changes
WHERE revision > $1 AND revision <= coalesce(
	(SELECT revision FROM changes WHERE revision > $1 ORDER BY revision, ordinal OFFSET $2 - 1 LIMIT 1), 9223372036854775807)
ORDER BY revision, ordinal`

// since reads what came after a revision.
func since(ctx context.Context, tx pgx.Tx, after int64, most int) (entries []ledger.Entry, err error) {
	var head int64
	b := &pgx.Batch{}
	b.Queue(headQuery).QueryRow(func(row pgx.Row) error { return row.Scan(&head) })
	b.Queue(sinceQuery, after, atLeastOne(most)).Query(func(rows pgx.Rows) (err error) {
		entries, err = collect(rows, changeRow.entry)
		return err
	})
	if err = tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	if after > head {
		return nil, ledger.ErrCompacted
	}
	return entries, nil
}

// Since implements ledger.Store.
func (s *Store) Since(ctx context.Context, after int64, most int) (entries []ledger.Entry, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		entries, err = since(ctx, tx, after, most)
		return err
	})
	return entries, err
}

// $4 are the kinds, none for all.
const historyQuery = `SELECT ` + changeColumns + ` FROM changes
WHERE ($1 = '' OR domain = $1) AND ($2 = '' OR item_id = $2) AND ($3 = '' OR author = $3)
AND (cardinality($4::text[]) = 0 OR kind = ANY ($4::text[]::item_kind[]))
AND ($5::bigint = 0 OR (revision, ordinal) < ($5, $6))
ORDER BY revision DESC, ordinal DESC LIMIT $7`

// History implements ledger.Store.
func (s *Store) History(ctx context.Context, q ledger.HistoryQuery, before ledger.Position, most int) (page []ledger.Entry, err error) {
	kinds := []string{}
	if q.Kind != rulesv1.Kind_KIND_UNSPECIFIED {
		kinds = append(kinds, textOf(word(q.Kind)))
	}
	if q.Kind == rulesv1.Kind_KIND_RULE {
		kinds = append(kinds, textOf(word(rulesv1.Kind_KIND_CANDIDATE)))
	}
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, historyQuery, asked(q.Domain, q.ID, q.Author, kinds, before.Revision, int64(before.Ordinal), atLeastOne(most))...)
		if err != nil {
			return err
		}
		page, err = collect(rows, changeRow.entry)
		return err
	})
	return page, err
}
