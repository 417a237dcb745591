// Package bearer is the token that a process shows to a service which it calls, by
// "Authorization: Bearer". Where it comes from a file the file is followed, so that a
// token can be replaced without a restart. No token is logged or put into an error.
package bearer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/shiplane/limits/libs/filewatch"
)

// tokenMax bounds a token, in bytes: it has to fit into a header.
const tokenMax = 4 << 10

// Token is a token that may change. Safe for concurrent use.
type Token struct {
	path    string // "" for none
	log     *slog.Logger
	text    atomic.Pointer[string] // nil for none
	changed chan struct{}
}

// Open makes a token of what the file at path holds, or of text where path is "": one
// line of printable ASCII, or "" for none. An error names the file.
func Open(text, path string, log *slog.Logger) (*Token, error) {
	t := &Token{path: path, log: log, changed: make(chan struct{}, 1)}
	if path != "" {
		content, err := filewatch.Read(path, tokenMax)
		if err != nil {
			return nil, fmt.Errorf("the token's file: %w", err)
		}
		text = string(content)
	}
	if text = strings.TrimSpace(text); text == "" && path == "" {
		return t, nil
	}
	if err := t.Set(text); err != nil {
		return nil, fmt.Errorf("the token %s: %w", path, err)
	}
	return t, nil
}

// Set replaces the token.
func (t *Token) Set(text string) error {
	if text == "" || len(text) > tokenMax || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("want one line of printable ASCII without spaces")
	}
	t.text.Store(&text)
	return nil
}

// Text is the token of the moment, "" for none.
func (t *Token) Text() string {
	if text := t.text.Load(); text != nil {
		return *text
	}
	return ""
}

// Authorize puts the token into the header of a call, if there is one.
func (t *Token) Authorize(header http.Header) {
	if text := t.Text(); text != "" {
		header.Set("Authorization", "Bearer "+text)
	}
}

// Changed tells that Follow has found another token: there is one to try.
func (t *Token) Changed() <-chan struct{} { return t.changed }

// Follow reads the file again whenever it changes, until ctx ends. One that holds no
// token changes nothing, and is logged. Without a file it returns at once.
func (t *Token) Follow(ctx context.Context) {
	if t.path == "" {
		return
	}
	filewatch.Watch(ctx, t.path, tokenMax, func(content []byte, err error) {
		text := strings.TrimSpace(string(content))
		if err == nil && text == t.Text() {
			return
		}
		if err == nil {
			err = t.Set(text)
		}
		if err != nil {
			t.log.Error("the token's file cannot be used: the token stays as it was", "path", t.path, "error", err)
			return
		}
		t.log.Info("the token was replaced", "path", t.path)
		select {
		case t.changed <- struct{}{}:
		default:
		}
	})
}
