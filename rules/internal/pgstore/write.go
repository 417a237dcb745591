package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Write implements ledger.Store. The writes of one instance wait for each other here,
// in the order in which they came, and hold no connection meanwhile.
func (s *Store) Write(ctx context.Context, f func(context.Context, ledger.Tx) error) (int64, error) {
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	for try := 1; ; try++ {
		revision, broken, err := s.writeOnce(ctx, f)
		if broken == nil || try == tries || ctx.Err() != nil || !again(broken) {
			return revision, err
		}
		s.renew(broken)
	}
}

// writeOnce tries a write. broken is the error of the database after which nothing
// was written, if there was one.
func (s *Store) writeOnce(ctx context.Context, f func(context.Context, ledger.Tx) error) (revision int64, broken, err error) {
	t := &tx{written: map[place]bool{}}
	if t.pg, err = s.beginWrite(ctx); err != nil {
		return 0, err, failure(ctx, err)
	}
	defer func() { // after a commit it does nothing
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
		defer cancel()
		t.pg.Rollback(ctx) //nolint:errcheck // the connection is closed then, which undoes it too
	}()
	if err := t.lock(ctx); err != nil {
		return 0, err, failure(ctx, err)
	}
	if err := f(ctx, t); err != nil {
		return 0, t.broken, err
	}
	if len(t.entries) == 0 {
		return t.head, nil, nil
	}
	if err := t.flush(ctx); err != nil {
		return 0, err, failure(ctx, err)
	}
	if err := t.commit(ctx); err != nil {
		return 0, nil, err
	}
	s.hints.saw(t.head + 1)
	return t.head + 1, nil, nil
}

func (s *Store) beginWrite(ctx context.Context) (pgx.Tx, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return s.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin("ISOLATION LEVEL READ COMMITTED", writeStatement)})
}

// tx implements ledger.Tx.
type tx struct {
	pg      pgx.Tx
	head    int64
	now     time.Time
	entries []*ledger.Entry // copies
	written map[place]bool
	broken  error // of the database, in one of f's calls
}

// place is where an item is.
type place struct {
	domain string
	item   ledger.Item
}

// The row is locked by this: who comes second waits here, and then sees what the
// first has committed. The clock of the entries never goes back.
const lockQuery = `UPDATE ledger SET revision = revision + 1, at = greatest(at, clock_timestamp()) RETURNING revision - 1, at`

func (t *tx) lock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout+slack)
	defer cancel()
	if err := t.pg.QueryRow(ctx, lockQuery).Scan(&t.head, &t.now); err != nil {
		return err
	}
	t.now = t.now.UTC()
	return nil
}

// commit makes the write last. It is not given up because the caller is gone: its
// outcome should be known.
func (t *tx) commit(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeStatement+slack)
	defer cancel()
	err := t.pg.Commit(ctx)
	if err == nil {
		return nil
	}
	if undone(err) {
		return failure(ctx, err)
	}
	return fmt.Errorf("%w: the write of revision %d may have been committed: %w", ledger.ErrUnavailable, t.head+1, err)
}

// Head implements ledger.Tx.
func (t *tx) Head() int64 { return t.head }

// Now implements ledger.Tx.
func (t *tx) Now() time.Time { return t.now }

// read runs a query of f and notes what of the database's failures it met.
func (t *tx) read(ctx context.Context, f func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, writeStatement+slack)
	defer cancel()
	err := f(within)
	if err == nil || errors.Is(err, pgx.ErrNoRows) || errors.Is(err, ledger.ErrCompacted) {
		return failure(ctx, err)
	}
	t.broken = err
	return failure(ctx, err)
}

// Since implements ledger.Tx.
func (t *tx) Since(ctx context.Context, after int64, most int) (entries []ledger.Entry, err error) {
	err = t.read(ctx, func(ctx context.Context) (err error) {
		entries, err = since(ctx, t.pg, after, most)
		return err
	})
	if after == t.head+1 && err == nil { // the row of the ledger has the new revision already
		return nil, ledger.ErrCompacted
	}
	return entries, err
}

const lastVersionQuery = `SELECT coalesce(max(version), 0) FROM changes WHERE domain = $1 AND item_id = $2 AND kind = ANY ($3::text[]::item_kind[])`

// LastVersion implements ledger.Tx.
func (t *tx) LastVersion(ctx context.Context, domain string, kind rulesv1.Kind, id string) (version int64, err error) {
	kinds := []string{textOf(word(kind))}
	switch kind {
	case rulesv1.Kind_KIND_RULE:
		kinds = append(kinds, textOf(word(rulesv1.Kind_KIND_CANDIDATE)))
	case rulesv1.Kind_KIND_ROUTE:
	default:
		return 0, nil
	}
	err = t.read(ctx, func(ctx context.Context) error {
		return t.pg.QueryRow(ctx, lastVersionQuery, asked(domain, id, kinds)...).Scan(&version)
	})
	return version, err
}

const versionQuery = `SELECT ` + changeColumns + ` FROM changes WHERE domain = $1 AND item_id = $2 AND kind = 'rule' AND version = $3 AND NOT deleted`

// Version implements ledger.Tx.
func (t *tx) Version(ctx context.Context, domain, rule string, version int64) (r *rulesv1.Rule, err error) {
	err = t.read(ctx, func(ctx context.Context) error {
		e, err := one(ctx, t.pg, changeRow.entry, versionQuery, domain, rule, version)
		r = e.Change.GetRule()
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}
