package auth_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shiplane/limits/checker/internal/auth"
)

// A file with a fault is refused with its name and the line, and nothing of what
// stands there.
func TestFaultsOfATokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for _, c := range []struct{ text, want string }{
		{"", "0 tokens: want 1 to 100"},
		{"# none\n\n", "0 tokens"},
		{"a-token-that-is-long-enough\nhunter2\n", "line 2 holds no token"},
		{"hunter2 and more, with spaces\n", "line 1 holds no token"},
		{"hunter2-" + strings.Repeat("x", 4096), "line 1 holds no token"},
		{"hunter2-schlüssel-aus-umlauten\n", "line 1 holds no token"},
		{strings.Repeat("a-token-that-is-long-enough\n", 101), "101 tokens"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := auth.Open(auth.Config{Tokens: path, Refused: func(context.Context) {}, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.30q: %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := auth.Open(auth.Config{Tokens: "/nonexistent", PodTokens: "/neither"}); err == nil || !strings.Contains(err.Error(), "--token-file") || !strings.Contains(err.Error(), "--pod-token-file") {
		t.Errorf("missing files: %v", err)
	}
}
