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
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// TestTokenIsTriedWithFewKeys: one that names none is not worth the work of a whole
// set; keys of another algorithm are none of the few.
func TestTokenIsTriedWithFewKeys(t *testing.T) {
	i := theIssuer(t)
	var others []jose.JSONWebKey
	for n := range triesMax {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, jose.JSONWebKey{Key: &key.PublicKey, KeyID: fmt.Sprint(n)})
	}
	ours := jose.JSONWebKey{Key: &i.ec.PublicKey, KeyID: "ec"}
	edKey := jose.JSONWebKey{Key: i.ed.Public(), KeyID: "ed"}
	last := open(t, written(t, set(t, append(others[:triesMax-1:triesMax-1], edKey, ours)...)), silent)
	beyond := open(t, written(t, set(t, append(others, ours)...)), silent)
	unnamed, named := sign(t, jose.ES256, i.ec, "", claims(nil)), sign(t, jose.ES256, i.ec, "ec", claims(nil))
	if account, _, _, err := verify(last, unnamed); account != "acct_1" || err != nil {
		t.Errorf("with the last key that is tried: %q, %v", account, err)
	}
	if account, _, _, err := verify(beyond, unnamed); !errors.Is(err, ErrInvalid) {
		t.Errorf("with the key after it: %q, %v; want %v", account, err, ErrInvalid)
	}
	if account, _, _, err := verify(beyond, named); account != "acct_1" || err != nil {
		t.Errorf("with a key that is named: %q, %v", account, err)
	}
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
