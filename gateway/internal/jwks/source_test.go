package jwks

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// served is a key set at a URL that can be changed.
type served struct {
	status  atomic.Int64
	text    atomic.Pointer[[]byte]
	fetches atomic.Int64
}

func serve(t *testing.T, text []byte) (*served, string) {
	t.Helper()
	s := &served{}
	s.status.Store(http.StatusOK)
	s.text.Store(&text)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.fetches.Add(1)
		w.WriteHeader(int(s.status.Load()))
		_, _ = w.Write(*s.text.Load())
	}))
	t.Cleanup(server.Close)
	return s, server.URL
}

// TestLastGoodKeysStay: whatever becomes of their URL; and a set that was never
// had is no reason to believe or to refuse a token.
func TestLastGoodKeysStay(t *testing.T) {
	i := theIssuer(t)
	at, url := serve(t, set(t, i.keys()...))
	v := open(t, url, silent)
	good := sign(t, jose.ES256, i.ec, "ec", claims(nil))
	if account, _, _, err := verify(v, good); account != "acct_1" || err != nil {
		t.Fatalf("%q, %v", account, err)
	}
	at.status.Store(http.StatusInternalServerError)
	remote, ok := v.keys.(*remote)
	if !ok {
		t.Fatal("the keys of a URL come from a file")
	}
	for _, broken := range []string{"", "{}", "<html>", strings.Repeat(" ", setMax+1)} {
		text := []byte(broken)
		at.text.Store(&text)
		if remote.fetch(t.Context()) {
			t.Errorf("%.9q is taken for a set", broken)
		}
		at.status.Store(http.StatusOK)
		if account, _, _, err := verify(v, good); account != "acct_1" || err != nil {
			t.Errorf("after %.9q: %q, %v", broken, account, err)
		}
	}

	down, url := serve(t, nil)
	down.status.Store(http.StatusServiceUnavailable)
	v = open(t, url, silent)
	if _, _, _, err := verify(v, good); !errors.Is(err, ErrNoKeys) {
		t.Errorf("without keys: %v, want %v", err, ErrNoKeys)
	}
}

// TestNewKeyIsFetchedOnce: a token with a key that is not known yet waits for the
// set; a flood of made-up keys does not fetch more often.
func TestNewKeyIsFetchedOnce(t *testing.T) {
	i := theIssuer(t)
	at, url := serve(t, set(t, i.keys()[0]))
	v := open(t, url, silent)
	rsaToken := sign(t, jose.RS256, i.rsa, "rsa", claims(nil))
	for end := time.Now().Add(deadline); at.fetches.Load() == 0 || v.keys.(*remote).keys.Load() == nil; {
		if time.Now().After(end) {
			t.Fatal("the set is not fetched")
		}
	}
	if _, _, _, err := verify(v, rsaToken); err != nil {
		t.Fatal(err)
	}
	rotated := set(t, i.keys()...)
	at.text.Store(&rotated)
	before := at.fetches.Load()
	fresh, unknown := sign(t, jose.ES256, i.ec, "ec", claims(nil)), sign(t, jose.ES256, i.ec, "made-up", claims(nil))
	var asked sync.WaitGroup
	for range 20 {
		asked.Go(func() {
			if _, _, _, err := verify(v, fresh); err != nil {
				t.Errorf("a token with the new key: %v", err)
			}
		})
	}
	asked.Wait()
	for range 100 {
		if _, _, _, err := verify(v, unknown); !errors.Is(err, ErrInvalid) {
			t.Fatalf("a made-up key: %v", err)
		}
	}
	if got := at.fetches.Load() - before; got != 1 {
		t.Errorf("%d fetches for 20 tokens with a new key and 100 with a made-up one, want 1", got)
	}
}

// TestFileIsFollowed: a change is in force without a restart, and a broken one
// changes nothing and is logged.
func TestFileIsFollowed(t *testing.T) {
	i := theIssuer(t)
	path := written(t, set(t, i.keys()[0]))
	logged := make(chan struct{}, 100)
	v := open(t, path, slog.New(slog.NewTextHandler(writer(func([]byte) { logged <- struct{}{} }), nil)))
	token := sign(t, jose.ES256, i.ec, "ec", claims(nil))
	replace := func(text []byte) {
		t.Helper()
		if err := os.Rename(written(t, text), path); err != nil {
			t.Fatal(err)
		}
	}
	replace(set(t, i.keys()...))
	for end := time.Now().Add(deadline); ; {
		if _, _, _, err := verify(v, token); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the new key is not known")
		}
	}
	replace([]byte("{}"))
	select {
	case <-logged:
	case <-time.After(deadline):
		t.Fatal("a broken set is not logged")
	}
	if _, _, _, err := verify(v, token); err != nil {
		t.Errorf("after a broken set: %v", err)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }
