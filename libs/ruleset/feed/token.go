package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/filewatch"
)

// tokenMax bounds a token, in bytes: it has to fit into a header.
const tokenMax = 4 << 10

// token puts a bearer token into each call. It never shows it. Safe for concurrent
// use.
type token struct {
	path    string // "" for none
	log     *slog.Logger
	text    atomic.Pointer[string] // nil for none
	changed chan struct{}          // another one is there to try
}

func openToken(text, path string, log *slog.Logger) (*token, error) {
	t := &token{path: path, log: log, changed: make(chan struct{}, 1)}
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
	if err := t.set(text); err != nil {
		return nil, fmt.Errorf("the token %s: %w", path, err)
	}
	return t, nil
}

func (t *token) set(text string) error {
	if text == "" || len(text) > tokenMax || !printable(text) || strings.Contains(text, " ") {
		return errors.New("want one line of printable ASCII without spaces")
	}
	t.text.Store(&text)
	return nil
}

// follow reads the file again whenever it changes, until ctx ends.
func (t *token) follow(ctx context.Context) {
	if t.path == "" {
		return
	}
	filewatch.Watch(ctx, t.path, tokenMax, func(content []byte, err error) {
		text := strings.TrimSpace(string(content))
		if err == nil && text == *t.text.Load() {
			return
		}
		if err == nil {
			err = t.set(text)
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

func (t *token) authorize(header http.Header) {
	if text := t.text.Load(); text != nil {
		header.Set("Authorization", "Bearer "+*text)
	}
}

// WrapUnary implements connect.Interceptor.
func (t *token) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, call connect.AnyRequest) (connect.AnyResponse, error) {
		t.authorize(call.Header())
		return next(ctx, call)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (t *token) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		t.authorize(conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor; no handler has it.
func (t *token) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
