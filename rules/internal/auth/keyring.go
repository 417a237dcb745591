package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	// refreshEvery is how long a token that another instance has revoked may
	// still be taken here.
	refreshEvery = 5 * time.Second
	// lookUps bounds how often unknown ids make the keyring ask the store: a
	// flood of made-up tokens costs it one query a second.
	lookUps = rate.Limit(1)
	// lookUpBurst is for pods that come up with a new token at once.
	lookUpBurst = 5
	// storeTimeout bounds one query for tokens.
	storeTimeout = 5 * time.Second
)

// Errors of Authenticate.
var (
	ErrMissing = errors.New("a bearer token is required")
	ErrInvalid = errors.New("the bearer token is not valid")
	ErrUnasked = errors.New("the bearer token is not known here, and the store of tokens cannot be asked at the moment")
)

// Principal is who calls.
type Principal struct {
	Name    string // the token's, as the audit log says it
	Role    rulesv1.Role
	TokenID string
}

// Keyring knows the tokens. Safe for concurrent use.
type Keyring struct {
	store ledger.Tokens
	log   *slog.Logger
	now   func() time.Time
	often *rate.Limiter

	mu     sync.RWMutex
	tokens map[string]*ledger.Token // by id; the tokens are not modified
	read   bool                     // they have been read at least once

	refreshing sync.Mutex // one query at a time
}

// NewKeyring makes a keyring that knows no token yet. now is time.Now but in tests.
func NewKeyring(store ledger.Tokens, log *slog.Logger, now func() time.Time) *Keyring {
	return &Keyring{store: store, log: log, now: now, often: rate.NewLimiter(lookUps, lookUpBurst), tokens: map[string]*ledger.Token{}}
}

// Run reads the tokens again and again until ctx ends.
func (k *Keyring) Run(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for failed := false; ; {
		err := k.refresh(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			k.log.Warn("tokens cannot be read: those that are known hold on", "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// refresh reads all tokens.
func (k *Keyring) refresh(ctx context.Context) error {
	k.refreshing.Lock()
	defer k.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	all, err := k.store.Tokens(ctx)
	if err != nil {
		return err
	}
	tokens := make(map[string]*ledger.Token, len(all))
	for _, t := range all {
		tokens[t.ID] = t
	}
	k.mu.Lock()
	k.tokens, k.read = tokens, true
	k.mu.Unlock()
	return nil
}

// Authenticate tells whose token a text is. The error is ErrMissing for none,
// ErrInvalid for one that is unknown, void or wrong, and ErrUnasked where that
// cannot be told: a caller whose token is good must not take an outage for the end
// of it.
func (k *Keyring) Authenticate(ctx context.Context, text string) (Principal, error) {
	if text == "" {
		return Principal{}, ErrMissing
	}
	shown, err := parse(text)
	if err != nil {
		return Principal{}, ErrInvalid
	}
	known, err := k.lookUp(ctx, shown.ID)
	if err != nil {
		return Principal{}, err
	}
	stranger := known == nil
	if stranger {
		known = &ledger.Token{} // compared as any other, so that ids cannot be told apart by time
	}
	same := subtle.ConstantTimeCompare(shown.Hash[:], known.Hash[:]) == 1
	if !same || stranger || void(known, k.now()) {
		return Principal{}, ErrInvalid
	}
	return Principal{Name: known.Name, Role: known.Role, TokenID: known.ID}, nil
}

// lookUp returns a token by its id, nil for none. The store is asked about an id that
// is not known, but not for each of a flood of them.
func (k *Keyring) lookUp(ctx context.Context, id string) (*ledger.Token, error) {
	if known := k.find(id); known != nil {
		return known, nil
	}
	if k.often.Allow() {
		if err := k.refresh(ctx); err != nil {
			return nil, ErrUnasked
		}
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	if !k.read {
		return nil, ErrUnasked
	}
	return k.tokens[id], nil
}

func (k *Keyring) find(id string) *ledger.Token {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tokens[id]
}

// FieldError is a value of a request that is out of bounds.
type FieldError struct{ Field, Value, Problem string }

func (e *FieldError) Error() string { return fmt.Sprintf("%s is %q: %s", e.Field, e.Value, e.Problem) }

// Create makes a token and returns its text, which is kept nowhere. A lifetime of
// 0 is for ever. A *FieldError says what cannot be asked for.
func (k *Keyring) Create(ctx context.Context, name string, role rulesv1.Role, lifetime time.Duration) (*ledger.Token, string, error) {
	switch {
	case name == "" || len(name) > nameMax:
		return nil, "", &FieldError{"name", name, fmt.Sprintf("want 1 to %d bytes", nameMax)}
	case rulesv1.Role_name[int32(role)] == "" || role == rulesv1.Role_ROLE_UNSPECIFIED:
		return nil, "", &FieldError{"role", role.String(), "want viewer, editor, admin or pod"}
	case lifetime != 0 && (lifetime < lifetimeMin || lifetime > lifetimeMax):
		return nil, "", &FieldError{"lifetime", lifetime.String(), fmt.Sprintf("want %v to %v", lifetimeMin, lifetimeMax)}
	}
	t, text, err := newToken(name, role, lifetime, k.now())
	if err != nil {
		return nil, "", err
	}
	if err := k.store.CreateToken(ctx, t); err != nil {
		return nil, "", err
	}
	k.put(t)
	return t, text, nil
}

// List returns all tokens, void ones too, by the time they were made.
func (k *Keyring) List(ctx context.Context) ([]*ledger.Token, error) { return k.store.Tokens(ctx) }

// Revoke makes a token void, here at once. ledger.ErrNotFound.
func (k *Keyring) Revoke(ctx context.Context, id string) (*ledger.Token, error) {
	t, err := k.store.RevokeToken(ctx, id, k.now())
	if err == nil {
		k.put(t)
	}
	return t, err
}

func (k *Keyring) put(t *ledger.Token) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tokens[t.ID] = t
}
