package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Form of a token's text.
const (
	prefix      = "slt_" // so that scanners of leaked secrets can know it
	idBytes     = 5
	secretBytes = 32
)

// Bounds of what may be asked for.
const (
	nameMax     = 128 // bytes
	lifetimeMin = time.Minute
	lifetimeMax = 10 * 366 * 24 * time.Hour
)

// errMalformed says nothing of what stood there.
var errMalformed = errors.New("no token of this service: want slt_ID_SECRET")

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newToken draws a token of a role, and returns its text too. A lifetime of 0 is
// for ever.
func newToken(name string, role rulesv1.Role, lifetime time.Duration, now time.Time) (*ledger.Token, string, error) {
	var random [idBytes + secretBytes]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, "", fmt.Errorf("drawing a token: %w", err)
	}
	text := prefix + idEncoding.EncodeToString(random[:idBytes]) + "_" + base64.RawURLEncoding.EncodeToString(random[idBytes:])
	t, err := parse(text)
	if err != nil {
		return nil, "", err
	}
	t.Name, t.Role, t.CreatedAt = name, role, now
	if lifetime > 0 {
		t.ExpiresAt = now.Add(lifetime)
	}
	return t, text, nil
}

// parse reads a token's text into its id and hash.
func parse(text string) (*ledger.Token, error) {
	body, ok := strings.CutPrefix(text, prefix)
	id, secret, cut := strings.Cut(body, "_")
	if !ok || !cut {
		return nil, errMalformed
	}
	if raw, err := idEncoding.DecodeString(id); err != nil || len(raw) != idBytes {
		return nil, errMalformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	if err != nil || len(raw) != secretBytes {
		return nil, errMalformed
	}
	return &ledger.Token{ID: id, Hash: sha256.Sum256(raw)}, nil
}

// void reports whether a token holds no more.
func void(t *ledger.Token, now time.Time) bool {
	return !t.RevokedAt.IsZero() || !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt)
}
