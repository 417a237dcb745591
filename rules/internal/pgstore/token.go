package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// tokenRow is a token.
type tokenRow struct {
	TokenID   string
	Hash      []byte
	Name      string
	Role      *string
	CreatedAt time.Time
	ExpiresAt *time.Time
	RevokedAt *time.Time
}

const tokenColumns = `token_id, hash, name, role, created_at, expires_at, revoked_at`

func (r tokenRow) token() (*ledger.Token, error) {
	role, err := meaning[rulesv1.Role](r.Role)
	t := &ledger.Token{ID: r.TokenID, Name: r.Name, Role: role, CreatedAt: r.CreatedAt.UTC(), ExpiresAt: moment(r.ExpiresAt), RevokedAt: moment(r.RevokedAt)}
	if err == nil && copy(t.Hash[:], r.Hash) != len(t.Hash) {
		err = fmt.Errorf("%w: the hash of token %q has %d bytes", errDecode, r.TokenID, len(r.Hash))
	}
	return t, err
}

// moment is the zero time for never.
func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// orNever is nil for the zero time.
func orNever(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// CreateToken implements ledger.Tokens.
func (s *Store) CreateToken(ctx context.Context, t *ledger.Token) error {
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tokens (`+tokenColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			t.ID, t.Hash[:], t.Name, word(t.Role), t.CreatedAt, orNever(t.ExpiresAt), orNever(t.RevokedAt))
		return err
	})
}

// Tokens implements ledger.Tokens.
func (s *Store) Tokens(ctx context.Context) (all []*ledger.Token, err error) {
	err = s.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+tokenColumns+` FROM tokens ORDER BY created_at, token_id`)
		if err != nil {
			return err
		}
		all, err = collect(rows, tokenRow.token)
		return err
	})
	return all, err
}

// RevokeToken implements ledger.Tokens.
func (s *Store) RevokeToken(ctx context.Context, id string, at time.Time) (t *ledger.Token, err error) {
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		t, err = one(ctx, tx, tokenRow.token, `UPDATE tokens SET revoked_at = coalesce(revoked_at, $2) WHERE token_id = $1 RETURNING `+tokenColumns, id, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}
