package auth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/auth"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// tokens is a ledger of tokens alone, which can be away.
type tokens struct {
	mu      sync.Mutex
	all     []*ledger.Token
	away    bool
	queries int
}

func (s *tokens) CreateToken(_ context.Context, t *ledger.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return ledger.ErrUnavailable
	}
	s.all = append(s.all, t)
	return nil
}

func (s *tokens) Tokens(context.Context) ([]*ledger.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries++
	if s.away {
		return nil, ledger.ErrUnavailable
	}
	return slices.Clone(s.all), nil
}

func (s *tokens) RevokeToken(_ context.Context, id string, at time.Time) (*ledger.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range s.all {
		if t.ID == id {
			revoked := *t
			revoked.RevokedAt = at
			s.all[i] = &revoked
			return &revoked, nil
		}
	}
	return nil, ledger.ErrNotFound
}

// clock is a time that stands still until it is moved.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func ring(store ledger.Tokens) (*auth.Keyring, *clock, *bytes.Buffer) {
	c, log := &clock{time.Date(2026, 12, 2, 12, 0, 0, 0, time.UTC)}, &bytes.Buffer{}
	return auth.NewKeyring(store, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), c.now), c, log
}

func create(t *testing.T, k *auth.Keyring, role rulesv1.Role, lifetime time.Duration) (*ledger.Token, string) {
	t.Helper()
	made, text, err := k.Create(t.Context(), "ops", role, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return made, text
}

// A token holds from when it is made until it expires or is revoked, and only
// with the whole of its secret.
func TestTokenHoldsUntilItIsVoid(t *testing.T) {
	k, clock, _ := ring(&tokens{})
	holds := func(text string) bool {
		t.Helper()
		p, err := k.Authenticate(t.Context(), text)
		if err != nil && !errors.Is(err, auth.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		return err == nil && p.Name == "ops" && p.Role == rulesv1.Role_ROLE_EDITOR
	}
	forever, text := create(t, k, rulesv1.Role_ROLE_EDITOR, 0)
	_, short := create(t, k, rulesv1.Role_ROLE_EDITOR, time.Hour)
	other := text[:len(text)-43] + short[len(short)-43:]
	for what, wrong := range map[string]string{
		"another's secret": other, "a cut one": text[:len(text)-1], "a longer one": text + "A", "no prefix": text[4:], "spaces": "slt_ _ ",
		"an unknown id": "slt_aaaaaaaa" + text[12:],
	} {
		if holds(wrong) {
			t.Errorf("%s holds", what)
		}
	}
	if _, err := k.Authenticate(t.Context(), ""); !errors.Is(err, auth.ErrMissing) {
		t.Errorf("no token: %v", err)
	}
	if !holds(text) || !holds(short) {
		t.Error("a fresh token does not hold")
	}
	clock.t = clock.t.Add(time.Hour)
	if !holds(text) || holds(short) {
		t.Error("after an hour the one for ever must hold, the one for an hour not")
	}
	if _, err := k.Revoke(t.Context(), forever.ID); err != nil || holds(text) {
		t.Errorf("a revoked token holds (%v)", err)
	}
}

// A token that another instance has made is taken at once, one that it has
// revoked is refused after the next reading, and an outage of the store takes
// nobody's token away.
func TestInstancesShareTokens(t *testing.T) {
	store := &tokens{}
	here, _, _ := ring(store)
	there, _, _ := ring(store)
	made, text := create(t, there, rulesv1.Role_ROLE_POD, 0)
	if _, err := here.Authenticate(t.Context(), text); err != nil {
		t.Errorf("made elsewhere: %v", err)
	}
	store.away = true
	if _, err := here.Authenticate(t.Context(), text); err != nil {
		t.Errorf("the store is away: %v", err)
	}
	store.away = false
	if _, err := there.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	here.Run(ctx) // reads once
	if _, err := here.Authenticate(t.Context(), text); !errors.Is(err, auth.ErrInvalid) {
		t.Errorf("revoked elsewhere: %v", err)
	}
}

// An instance that has come up while the store is away knows no token: it says that
// it cannot tell, to a good token and a bad one alike, and takes the good one as soon
// as the store is there.
func TestOutageIsNoEndOfAToken(t *testing.T) {
	store := &tokens{}
	there, _, _ := ring(store)
	_, text := create(t, there, rulesv1.Role_ROLE_POD, 0)
	here, _, _ := ring(store)
	store.away = true
	h := here.Middleware(http.NotFoundHandler(), func(w http.ResponseWriter, _ *http.Request, err error) {
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("refused with %v", err)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for range 10 { // more than are looked up
		if _, err := here.Authenticate(t.Context(), text); !errors.Is(err, auth.ErrUnasked) {
			t.Errorf("got %v", err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusServiceUnavailable {
			t.Errorf("answered with %d", w.Code)
		}
	}
	store.away = false
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	here.Run(ctx) // reads once
	if _, err := here.Authenticate(t.Context(), text); err != nil {
		t.Errorf("the store is back: %v", err)
	}
}

// A flood of made-up tokens does not reach the store.
func TestUnknownTokensCostFewQueries(t *testing.T) {
	store := &tokens{}
	k, _, _ := ring(store)
	_, text := create(t, k, rulesv1.Role_ROLE_POD, 0)
	for i := range 1000 {
		unknown := fmt.Sprintf("slt_%saaaa%s", []string{"abcd", "bbbb"}[i%2], text[12:])
		if _, err := k.Authenticate(t.Context(), unknown); !errors.Is(err, auth.ErrInvalid) {
			t.Fatal(err)
		}
	}
	if store.queries == 0 || store.queries > 20 {
		t.Errorf("%d queries for 1,000 unknown tokens", store.queries)
	}
}

// What cannot be asked for is refused with its field.
func TestCreateNamesWhatIsWrong(t *testing.T) {
	k, _, _ := ring(&tokens{})
	for field, c := range map[string]struct {
		name     string
		role     rulesv1.Role
		lifetime time.Duration
	}{
		"name":     {"", rulesv1.Role_ROLE_POD, 0},
		"role":     {"x", rulesv1.Role(9), 0},
		"lifetime": {"x", rulesv1.Role_ROLE_POD, time.Second},
	} {
		var fault *auth.FieldError
		if _, _, err := k.Create(t.Context(), c.name, c.role, c.lifetime); !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

// The first token is made once, in a file of its owner alone; a store in memory
// has the same one after the next start.
func TestFirstTokenIsInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "admin.token")
	firsts := []auth.First{{File: file, Name: "first admin", Role: rulesv1.Role_ROLE_ADMIN}}
	store := &tokens{}
	k, _, log := ring(store)
	for range 2 { // the second finds it made
		if err := k.Bootstrap(t.Context(), firsts); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 || len(store.all) != 1 {
		t.Fatalf("%v, %v, %d tokens", info.Mode(), err, len(store.all))
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(content))
	if strings.Contains(log.String(), text[13:]) {
		t.Errorf("the log holds the secret: %s", log)
	}
	restarted, _, _ := ring(&tokens{})
	if err := restarted.Bootstrap(t.Context(), firsts); err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]*auth.Keyring{"first": k, "restarted": restarted} {
		if p, err := k.Authenticate(t.Context(), text); err != nil || p.Role != rulesv1.Role_ROLE_ADMIN {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if err := os.WriteFile(file, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty, _, _ := ring(&tokens{})
	if err := empty.Bootstrap(t.Context(), firsts); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a file that holds no token: %v", err)
	}
}

// Each role may do what it says, and a pod nothing else.
func TestRolesIncludeEachOther(t *testing.T) {
	viewer, editor, admin, pod := rulesv1.Role_ROLE_VIEWER, rulesv1.Role_ROLE_EDITOR, rulesv1.Role_ROLE_ADMIN, rulesv1.Role_ROLE_POD
	may := map[rulesv1.Role][]rulesv1.Role{viewer: {viewer}, editor: {viewer, editor}, admin: {viewer, editor, admin}, pod: {pod}}
	for has, allowed := range may {
		ctx := auth.WithPrincipal(t.Context(), auth.Principal{Role: has})
		for needed := range may {
			_, err := auth.Need(ctx, needed)
			if ok := slices.Contains(allowed, needed); ok != (err == nil) || !ok && connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("%v asks for %v: %v", has, needed, err)
			}
		}
	}
	if _, err := auth.Need(t.Context(), viewer); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("nobody: %v", err)
	}
}

// Nothing behind the middleware is reached without a token; an RPC gets its
// protocol's error, everything else what refuse says.
func TestMiddlewareLetsNobodyPast(t *testing.T) {
	k, _, _ := ring(&tokens{})
	_, text := create(t, k, rulesv1.Role_ROLE_VIEWER, 0)
	reached := 0
	h := k.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := auth.Need(r.Context(), rulesv1.Role_ROLE_VIEWER); err == nil {
			reached++
		}
	}), func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusTeapot) })
	for _, c := range []struct {
		header, contentType string
		status              int
	}{
		{"", "", http.StatusTeapot},
		{"Basic " + text, "", http.StatusTeapot},
		{"Bearer nonsense", "", http.StatusTeapot},
		{"bearer " + text, "", http.StatusOK},
		{"Bearer  " + text, "application/json", http.StatusOK},
		{"", "application/grpc", http.StatusOK}, // the error is in the trailer
		{"", "application/proto", http.StatusUnauthorized},
	} {
		r := httptest.NewRequest(http.MethodPost, "/x", nil)
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set("Connect-Protocol-Version", "1")
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("%+v: got %d", c, w.Code)
		}
	}
	if reached != 2 {
		t.Errorf("%d requests got past, want 2", reached)
	}
}
