package book

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// DomainDefault is the domain of requests that name none.
const DomainDefault = "public-api"

// Listener is told what becomes of the rules: of each domain every revision, in
// order, each once, from the one goroutine of Run. It must not block. What it is
// given is shared and must not be modified.
type Listener interface {
	// Changed says that changes lead a domain from one of its revisions to its
	// next, and rules is what it has come to.
	Changed(domain string, from, to int64, changes []*rulesv1.Change, rules *ruleset.Ruleset)
	// Reset says that a domain is rules, whatever it was: at the start, and
	// after what led there is no longer known.
	Reset(domain string, rules *ruleset.Ruleset)
}

// Config is what a Book is made of.
type Config struct {
	Store    ledger.Store
	Domain   string              // of requests that name none; "" for DomainDefault
	Rollout  rulesv1.RolloutMode // of edits that say nothing; unspecified for guarded
	Listener Listener            // nil for none
	Logger   *slog.Logger
	Now      func() time.Time // nil for time.Now: for what is compared with times that instances write
}

// Book keeps the rules: it follows the store, and makes every write. All its
// methods are safe for concurrent use.
type Book struct {
	store    ledger.Store
	domain   string
	rollout  rulesv1.RolloutMode
	listener Listener
	log      *slog.Logger
	now      func() time.Time

	state atomic.Pointer[state] // nil until the store was first read; only Open and Run set it
}

// ErrNotReady says that the rules have not been read yet.
var ErrNotReady = errors.New("the rules have not been read from the store yet")

// Open makes a book and reads the rules. A store that cannot be reached is no
// error: the book is not ready until Run has read them. ctx ends with Open.
func Open(ctx context.Context, c Config) (*Book, error) {
	b := &Book{
		store: c.Store, domain: cmp.Or(c.Domain, DomainDefault), rollout: cmp.Or(c.Rollout, rulesv1.RolloutMode_ROLLOUT_MODE_GUARDED),
		listener: c.Listener, log: c.Logger, now: c.Now,
	}
	if err := limit.ValidateDomain(b.domain); err != nil {
		return nil, fmt.Errorf("default domain: %w", err)
	}
	if !known(b.rollout, rulesv1.RolloutMode_name) {
		return nil, fmt.Errorf("rollout mode %d: want guarded or immediate", b.rollout)
	}
	if b.now == nil {
		b.now = time.Now
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := b.snapshot(ctx); err != nil {
		b.log.Warn("rules cannot be read yet: the book is not ready until they are", "error", err)
	}
	return b, nil
}

// Ready returns ErrNotReady until the rules have been read once. A store that goes
// away later leaves the book ready: pods are served on.
func (b *Book) Ready() error {
	if b.state.Load() == nil {
		return ErrNotReady
	}
	return nil
}

// Load reads the rules if they have not been read yet, as where Open found the store
// away or without tables. It is for before Run, which reads them by itself.
func (b *Book) Load(ctx context.Context) error {
	if b.Ready() == nil {
		return nil
	}
	return b.snapshot(ctx)
}

// Rules returns the rules of a domain as last seen, "" for the default domain. ok
// is false if it has never had any, or the book is not ready.
func (b *Book) Rules(domain string) (rules *ruleset.Ruleset, ok bool) {
	s := b.state.Load()
	if s == nil {
		return nil, false
	}
	d, ok := s.domains[cmp.Or(domain, b.domain)]
	if !ok {
		return nil, false
	}
	return d.rules, true
}

// RollingOut reports whether an edit of a domain is being rolled out.
func (b *Book) RollingOut(domain string) bool {
	s := b.state.Load()
	return s != nil && s.domain(domain).index.rollingOut()
}

// RollingOutAny reports whether an edit of any domain is being rolled out.
func (b *Book) RollingOutAny() bool {
	s := b.state.Load()
	if s == nil {
		return false
	}
	for _, d := range s.domains {
		if d.index.rollingOut() {
			return true
		}
	}
	return false
}

// InForce returns a rule as last seen in force; nil for none. It must not be
// modified.
func (b *Book) InForce(domain, rule string) *rulesv1.Rule {
	s := b.state.Load()
	if s == nil {
		return nil
	}
	return s.domain(domain).index.find(ledger.Item{Kind: rulesv1.Kind_KIND_RULE, ID: rule}).GetRule()
}

// domainOf returns the domain that a request is about.
func (b *Book) domainOf(named string) (string, error) {
	domain := cmp.Or(named, b.domain)
	if limit.ValidateDomain(domain) != nil {
		return "", badField("domain", domain, "want 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit")
	}
	return domain, nil
}

// known reports whether an enumeration has a value.
func known[E ~int32](value E, names map[int32]string) bool {
	_, ok := names[int32(value)]
	return ok
}
