// Package auth tells who may call the checker, and who of them may Acquire.
//
// A caller sends a bearer token that stands in a file: any line of the one may check,
// any of the other may also Acquire, for it is a pod that holds leases. The files are
// followed, so that a token is replaced by adding the new one, moving the callers, and
// taking the old one away. A file that becomes unreadable takes nobody's access away.
//
// Tokens are random texts, not passwords: what is kept is their SHA-256, which is
// compared in constant time with every one there is. No token is logged or put into an
// error.
package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/filewatch"
)

// Bounds of a token file.
const (
	tokenMin  = 16       // bytes: what is shorter can be guessed
	tokenMax  = 4 << 10  // bytes
	tokensMax = 100      // each call is compared with all
	fileMax   = 64 << 10 // bytes
)

// Why a caller is refused.
var (
	ErrMissing = errors.New("a token is needed: Authorization: Bearer …")
	ErrInvalid = errors.New("the token is not known")
	errNoPod   = errors.New("only pods may do this: want a token of --pod-token-file")
)

// hashes are those of the tokens of a file.
type hashes [][sha256.Size]byte

// Keyring knows the tokens. Safe for concurrent use.
type Keyring struct {
	cfg     Config
	callers atomic.Pointer[hashes] // nil: there is no such file
	pods    atomic.Pointer[hashes]
}

// Config is what a Keyring is made of.
type Config struct {
	Tokens, PodTokens string // paths; "" for none. With neither a call needs no token
	// Trusting says that whoever needs no token may also Acquire: it is for
	// callers on this machine.
	Trusting bool
	Refused  func(context.Context) // told of each call that is refused
	Logger   *slog.Logger
}

// Open reads the files. An error names the file and the line, and shows no token.
func Open(cfg Config) (*Keyring, error) {
	k := &Keyring{cfg: cfg}
	return k, errors.Join(read("token-file", cfg.Tokens, &k.callers), read("pod-token-file", cfg.PodTokens, &k.pods))
}

func read(flag, path string, into *atomic.Pointer[hashes]) error {
	if path == "" {
		return nil
	}
	text, err := filewatch.Read(path, fileMax)
	var known hashes
	if err == nil {
		if known, err = parse(text); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	into.Store(&known)
	return nil
}

// parse reads one token a line, past empty lines and those that begin with #.
func parse(text []byte) (hashes, error) {
	var known hashes
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if len(line) < tokenMin || len(line) > tokenMax || bytes.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("line %d holds no token: want %d to %d letters, digits and signs of ASCII", number, tokenMin, tokenMax)
		}
		known = append(known, sha256.Sum256(line))
	}
	if len(known) < 1 || len(known) > tokensMax {
		return nil, fmt.Errorf("%d tokens: want 1 to %d, one a line", len(known), tokensMax)
	}
	return known, nil
}

// Run follows the files until ctx ends.
func (k *Keyring) Run(ctx context.Context) {
	var done []chan struct{}
	for _, file := range []struct {
		path string
		into *atomic.Pointer[hashes]
	}{{k.cfg.Tokens, &k.callers}, {k.cfg.PodTokens, &k.pods}} {
		if file.path == "" {
			continue
		}
		ended := make(chan struct{})
		done = append(done, ended)
		go func() {
			defer close(ended)
			filewatch.Watch(ctx, file.path, fileMax, func(text []byte, err error) { k.take(file.path, file.into, text, err) })
		}()
	}
	for _, ended := range done {
		<-ended
	}
}

// take puts what was read of a file in the place of what was known of it.
func (k *Keyring) take(path string, into *atomic.Pointer[hashes], text []byte, err error) {
	var known hashes
	if err == nil {
		known, err = parse(text)
	}
	if err != nil {
		k.cfg.Logger.Error("the tokens stay as they were", "file", path, "error", err)
		return
	}
	if old := into.Swap(&known); !slices.Equal(*old, known) {
		k.cfg.Logger.Info("tokens in force", "file", path, "tokens", len(known))
	}
}

// podKey is in the context of calls by pods.
type podKey struct{}

// authenticate returns the context of a call with this token, "" for none, or
// ErrMissing or ErrInvalid as an error of Connect.
func (k *Keyring) authenticate(ctx context.Context, token string) (context.Context, error) {
	callers, pods := k.callers.Load(), k.pods.Load()
	if callers == nil && pods == nil {
		return ctx, nil
	}
	if token == "" {
		return nil, k.refuse(ctx, ErrMissing)
	}
	hash := sha256.Sum256([]byte(token))
	isCaller, isPod := callers.holds(&hash), pods.holds(&hash)
	switch {
	case isPod:
		return context.WithValue(ctx, podKey{}, true), nil
	case isCaller:
		return ctx, nil
	}
	return nil, k.refuse(ctx, ErrInvalid)
}

func (k *Keyring) refuse(ctx context.Context, why error) error {
	k.cfg.Refused(ctx)
	failure := connect.NewError(connect.CodeUnauthenticated, why)
	failure.Meta().Set("WWW-Authenticate", "Bearer")
	return failure
}

// holds takes as long for every hash, wherever it stands.
func (h *hashes) holds(hash *[sha256.Size]byte) bool {
	if h == nil {
		return false
	}
	found := 0
	for i := range *h {
		found |= subtle.ConstantTimeCompare((*h)[i][:], hash[:])
	}
	return found == 1
}

// PodOnly returns why the caller of ctx may not do what only pods may, as an error of
// Connect.
func (k *Keyring) PodOnly(ctx context.Context) error {
	if ctx.Value(podKey{}) != nil || k.cfg.Trusting && k.callers.Load() == nil && k.pods.Load() == nil {
		return nil
	}
	return connect.NewError(connect.CodePermissionDenied, errNoPod)
}
