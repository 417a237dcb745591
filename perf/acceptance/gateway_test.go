package acceptance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/shiplane/limits/gateway"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
)

// apiKey is the one key of a gateway that startWith starts.
const apiKey = "acceptance-key"

// startDemo starts a gateway as it is without flags, with full buckets, and
// returns its URL. It is drained when the test ends.
func startDemo(t *testing.T) string {
	t.Helper()
	return start(t, gateway.Config{Demo: true})
}

// startWith starts a gateway under these rules, before an upstream that answers
// 200 to everything. The account of apiKey has the plan.
func startWith(t *testing.T, rules, plan string) string {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(upstream.Close)
	address, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	keys := fmt.Sprintf("- {hash: sha256:%x, account: acct, plan: %s}\n", sha256.Sum256([]byte(apiKey)), plan)
	return start(t, gateway.Config{Proxy: gateway.ProxyConfig{Pools: []gateway.Pool{{URLs: []*url.URL{address}}}}, Rules: rulesource.Config{File: file(t, "rules.yaml", rules)}, Keys: file(t, "keys.yaml", keys)})
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func start(t *testing.T, cfg gateway.Config) string {
	t.Helper()
	cfg.Listen, cfg.Admin, cfg.Mode = "127.0.0.1:0", "127.0.0.1:0", "enforce"
	cfg.LoginBodyMax, cfg.Drain.DrainTimeout = 1<<16, 10*time.Second

	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var log logBuffer
	address := make(chan net.Addr, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- gateway.Run(ctx, cfg, gateway.Output{
			Stdout: &log, Stderr: &log,
			Listening: func(api, _ net.Addr) { address <- api },
		})
	}()
	select {
	case api := <-address:
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the gateway ended with %v; its log:\n%s", err, log.text())
			}
		})
		return "http://" + api.String()
	case err := <-ended:
		stop()
		t.Fatalf("the gateway did not start: %v; its log:\n%s", err, log.text())
		return ""
	}
}

// logBuffer keeps what a gateway writes. Safe for concurrent use.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *logBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
