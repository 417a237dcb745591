package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shiplane/limits/rules/internal/ledger"
)

// CreateToken implements ledger.Tokens.
func (s *Store) CreateToken(_ context.Context, t *ledger.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.tokens {
		if other.ID == t.ID || other.Hash == t.Hash {
			return fmt.Errorf("%w: a token with this id or secret is there already", ledger.ErrRefused)
		}
	}
	s.tokens[t.ID] = *t
	return nil
}

// Tokens implements ledger.Tokens.
func (s *Store) Tokens(context.Context) ([]*ledger.Token, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*ledger.Token
	for _, t := range s.tokens {
		all = append(all, &t)
	}
	slices.SortFunc(all, func(x, y *ledger.Token) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	return all, nil
}

// RevokeToken implements ledger.Tokens.
func (s *Store) RevokeToken(_ context.Context, id string, at time.Time) (*ledger.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[id]
	if !ok {
		return nil, ledger.ErrNotFound
	}
	if t.RevokedAt.IsZero() {
		t.RevokedAt = at
		s.tokens[id] = t
	}
	return &t, nil
}
