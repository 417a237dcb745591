package jwks

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const deadline = 20 * time.Second // only a failing test comes near it

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// issuer signs.
type issuer struct {
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	ed  ed25519.PrivateKey
}

// newIssuer makes keys once for all tests of a run: RSA keys take a while.
var newIssuer = sync.OnceValues(func() (*issuer, error) {
	var i issuer
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		return nil, err
	}
	if i.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	_, i.ed, err = ed25519.GenerateKey(rand.Reader)
	return &i, err
})

func theIssuer(t testing.TB) *issuer {
	t.Helper()
	i, err := newIssuer()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// set returns the public keys as a JSON Web Key Set.
func set(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (i *issuer) keys() []jose.JSONWebKey {
	return []jose.JSONWebKey{
		{Key: &i.rsa.PublicKey, KeyID: "rsa", Algorithm: "RS256", Use: "sig"},
		{Key: &i.ec.PublicKey, KeyID: "ec"},
		{Key: i.ed.Public(), KeyID: "ed"},
	}
}

func sign(t testing.TB, algorithm jose.SignatureAlgorithm, key any, id string, claims any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if id != "" {
		options = options.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// claims returns good claims with some changed; nil takes one out.
func claims(changed map[string]any) map[string]any {
	c := map[string]any{"iss": "https://id.example", "aud": "api", "exp": now.Add(time.Minute).Unix(), "sub": "acct_1", "plan": "growth"}
	maps.Copy(c, changed)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func open(t testing.TB, source string, logger *slog.Logger) *Verifier {
	t.Helper()
	v, run, err := Open(Config{Source: source, Refresh: time.Hour, Logger: logger, Claims: Claims{
		Issuer: "https://id.example", Audiences: []string{"api", "web"}, Account: "sub", Plan: "plan", Leeway: 30 * time.Second,
	}})
	if err != nil {
		t.Fatal(err)
	}
	v.now = func() time.Time { return now }
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { run(ctx) })
	t.Cleanup(func() { stop(); ended.Wait() })
	return v
}

func written(t testing.TB, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var silent = slog.New(slog.DiscardHandler)

func verify(v *Verifier, token string) (account, plan string, ok bool, err error) {
	return v.Verify(httptest.NewRequest(http.MethodGet, "/", nil), token)
}

// TestOnlyTokensThatHoldNameSomebody: by algorithm, key, issuer, audience, time and
// claims; what is no token is left to others.
func TestOnlyTokensThatHoldNameSomebody(t *testing.T) {
	i := theIssuer(t)
	v := open(t, written(t, set(t, i.keys()...)), silent)
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := json.Marshal(i.keys()[0])
	if err != nil {
		t.Fatal(err)
	}
	ec := func(changed map[string]any) string { return sign(t, jose.ES256, i.ec, "ec", claims(changed)) }
	unsigned := func(header string) string {
		body, _ := json.Marshal(claims(nil))
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(body) + "."
	}
	parts := strings.Split(ec(nil), ".")
	for _, c := range []struct{ name, token, account, plan, why string }{
		{"RSA", sign(t, jose.RS256, i.rsa, "rsa", claims(nil)), "acct_1", "growth", ""},
		{"ECDSA", ec(nil), "acct_1", "growth", ""},
		{"Ed25519", sign(t, jose.EdDSA, i.ed, "ed", claims(nil)), "acct_1", "growth", ""},
		{"no key id", sign(t, jose.EdDSA, i.ed, "", claims(nil)), "acct_1", "growth", ""},
		{"several audiences", ec(map[string]any{"aud": []string{"other", "web"}}), "acct_1", "growth", ""},
		{"no plan", ec(map[string]any{"plan": nil}), "acct_1", "", ""},
		{"an account as a number", ec(map[string]any{"sub": 42}), "42", "growth", ""},
		{"just expired", ec(map[string]any{"exp": now.Add(-30 * time.Second).Unix()}), "acct_1", "growth", ""},

		{"expired", ec(map[string]any{"exp": now.Add(-31 * time.Second).Unix()}), "", "", "expired"},
		{"without an end", ec(map[string]any{"exp": nil}), "", "", "does not expire"},
		{"not yet", ec(map[string]any{"nbf": now.Add(31 * time.Second).Unix()}), "", "", "not valid yet"},
		{"from the future", ec(map[string]any{"iat": now.Add(time.Hour).Unix()}), "", "", "not valid yet"},
		{"another issuer", ec(map[string]any{"iss": "https://evil.example"}), "", "", "issuer"},
		{"no issuer", ec(map[string]any{"iss": nil}), "", "", "issuer"},
		{"another audience", ec(map[string]any{"aud": "other"}), "", "", "audience"},
		{"no audience", ec(map[string]any{"aud": nil}), "", "", "audience"},
		{"no account", ec(map[string]any{"sub": nil}), "", "", `"sub" names no account`},
		{"an account of a list", ec(map[string]any{"sub": []string{"a"}}), "", "", `"sub" names no account`},
		{"an odd account", ec(map[string]any{"sub": "a b"}), "", "", `"sub" names no account`},
		{"an account as a fraction", ec(map[string]any{"sub": 1.5}), "", "", `"sub" names no account`},
		{"another's key", sign(t, jose.ES256, stranger, "ec", claims(nil)), "", "", "no key"},
		{"an unknown key", sign(t, jose.ES256, i.ec, "gone", claims(nil)), "", "", "no key"},
		{"another algorithm of the key", sign(t, jose.RS512, i.rsa, "rsa", claims(nil)), "", "", "no key"},
		{"another kind of key", sign(t, jose.ES256, i.ec, "rsa", claims(nil)), "", "", "no key"},
		{"unsigned", unsigned(`{"alg":"none"}`), "", "", "algorithm"},
		{"unsigned, by name of a key", unsigned(`{"alg":"None","kid":"ec"}`), "", "", "algorithm"},
		{"HMAC with a public key", sign(t, jose.HS256, secret, "rsa", claims(nil)), "", "", "algorithm"},
		{"its signature cut", parts[0] + "." + parts[1] + ".", "", "", "no key"},
		{"its claims changed", parts[0] + "." + parts[1][:len(parts[1])-4] + "AAAA." + parts[2], "", "", "no key"},
		{"too long", parts[0] + "." + strings.Repeat("A", tokenMax) + "." + parts[2], "", "", "bytes"},
	} {
		account, plan, ok, err := verify(v, c.token)
		switch {
		case c.why == "" && (account != c.account || plan != c.plan || !ok || err != nil):
			t.Errorf("%s: %q, %q, %v, %v; want %q, %q", c.name, account, plan, ok, err, c.account, c.plan)
		case c.why != "" && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.why) || account != ""):
			t.Errorf("%s: %q, %v; want it refused for %q", c.name, account, err, c.why)
		}
	}
	for _, other := range []string{"", "opaque", "a.b.c", "..", "e30", "e30.e30.e30.e30.e30", "eA.e30.x"} {
		if _, _, ok, err := verify(v, other); ok || err != nil {
			t.Errorf("%q is taken for a token: %v", other, err)
		}
	}
}

// TestUnfitKeySetsAreRefused: each with the reason; keys for other uses are passed
// over beside a good one.
func TestUnfitKeySetsAreRefused(t *testing.T) {
	i := theIssuer(t)
	short := jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).Rsh(i.rsa.N, 1024), E: 65537}}
	good := i.keys()[1]
	many := make([]jose.JSONWebKey, keysMax+1)
	for at := range many {
		many[at] = good
	}
	for _, c := range []struct {
		text []byte
		want string
	}{
		{nil, "no JSON Web Key Set"}, {[]byte("[]"), "no JSON Web Key Set"}, {[]byte("{}"), "holds no keys"},
		{set(t, jose.JSONWebKey{Key: []byte("secret")}), "no public key"},
		{set(t, jose.JSONWebKey{Key: i.ec}), "no public key"},
		{set(t, jose.JSONWebKey{Key: &i.ec.PublicKey, Use: "enc"}), `for use "enc"`},
		{set(t, short), "bits"},
		{[]byte(`{"keys":[{"kty":"QUANTUM"}]}`), "cannot be read"},
		{set(t, many...), "at most 32"},
	} {
		path := written(t, c.text)
		if _, _, err := Open(Config{Source: path, Logger: silent}); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%.80s: %v, want %s", c.text, err, c.want)
		}
	}
	mixed, err := parseSet(set(t, jose.JSONWebKey{Key: []byte("secret")}, good))
	if err != nil || len(mixed) != 1 {
		t.Errorf("beside a good key: %d keys, %v", len(mixed), err)
	}
	for _, source := range []string{"http://id.example/keys", "https://me:secret@id.example/keys", "https:///keys", "ftp://id.example/keys"} {
		if _, _, err := Open(Config{Source: source, Logger: silent}); err == nil {
			t.Errorf("keys are taken from %s", source)
		}
	}
}

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

// FuzzVerify: no text that was not signed names anybody.
func FuzzVerify(f *testing.F) {
	i := theIssuer(f)
	v := open(f, written(f, set(f, i.keys()...)), silent)
	good := sign(f, jose.ES256, i.ec, "ec", claims(nil))
	f.Add(good)
	f.Add("e30.e30.")
	f.Add(sign(f, jose.HS256, make([]byte, 32), "", claims(nil)))
	f.Fuzz(func(t *testing.T, token string) {
		if account, _, _, err := verify(v, token); account != "" && err == nil && strings.Split(token, ".")[1] != strings.Split(good, ".")[1] {
			t.Errorf("%q names %q", token, account)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	i := theIssuer(b)
	v := open(b, written(b, set(b, i.keys()...)), silent)
	for name, token := range map[string]string{
		"RS256": sign(b, jose.RS256, i.rsa, "rsa", claims(nil)), "ES256": sign(b, jose.ES256, i.ec, "ec", claims(nil)), "EdDSA": sign(b, jose.EdDSA, i.ed, "ed", claims(nil)),
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := v.Verify(r, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
