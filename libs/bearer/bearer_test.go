package bearer

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A token whose file is replaced is used from then on, and whoever calls is told; a file that holds none changes nothing. No log line holds a token.
func TestTokenFollowsItsFile(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "token"), &logs{}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write("slt_first\n")
	token, err := Open("", path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil || token.Text() != "slt_first" {
		t.Fatalf("got %v, %v", token, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { token.Follow(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	write("slt two words")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); log.count("stays as it was") == 0; <-tick.C {
		if time.Now().After(end) {
			t.Fatal("a bad file was not told of")
		}
	}
	if got := token.Text(); got != "slt_first" {
		t.Errorf("after a bad file the token is %q", got)
	}
	write("slt_second")
	select {
	case <-token.Changed():
	case <-time.After(20 * time.Second):
		t.Fatal("the change was not seen")
	}
	if got := token.Text(); got != "slt_second" || log.count("slt") > 0 {
		t.Errorf("the token is %q, the log:\n%s", got, &log.text)
	}
}

// logs is a log that may be read while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// A file without a token is refused at the start.
func TestTokenFileMustHoldOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if _, err := Open("", path, nil); err == nil {
		t.Error("a missing file is accepted")
	}
	for _, text := range []string{"", "\n", "two words", "\x01"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open("", path, nil); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
