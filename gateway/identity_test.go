package gateway

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/respond"
	"github.com/shiplane/limits/gateway/internal/userfield"
)

func policy(a answer) string { return a.Header.Get("RateLimit-Policy") }

// TestTriedKeysAreLimitedByAddress: keys cannot be guessed without limit, by no
// method; and whoever has a good one is not in the way of who guesses.
func TestTriedKeysAreLimitedByAddress(t *testing.T) {
	g := start(t, echoes)
	for i := range 15 {
		method := []string{"GET", "HEAD", "OPTIONS"}[i%3]
		if a := g.do(method, "/v1/items/1", "", "X-Api-Key", fmt.Sprint("guess-", i)); a.StatusCode != 401 || !strings.HasPrefix(policy(a), `"anonymous-ip"`) {
			t.Errorf("%s: %s, policy %s", method, a.Status, policy(a))
		}
	}
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "guess").want(t, 429, "anonymous-ip")
	if a := g.do("HEAD", "/v1/items/1", "", "X-Api-Key", "guess"); a.StatusCode != 429 {
		t.Errorf("HEAD: %s", a.Status)
	}
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "big-1").want(t, 200, "")
	g.wantMetrics(`shiplane_gateway_requests_total{decided_by="identity",verdict="unauthorized"}`, "15",
		`shiplane_gateway_rule_decisions_total{rule="anonymous-ip",verdict="allowed"}`, "15",
		`shiplane_gateway_rule_decisions_total{rule="anonymous-ip",verdict="denied"}`, "2")

	shadow := start(t, echoes, "--mode=shadow")
	for range 20 {
		a := shadow.do("GET", "/v1/items/1", "", "X-Api-Key", "guess").want(t, 401, edge.CodeUnknownKey)
		if policy(a) != "" {
			t.Fatalf("shadow shows %s", policy(a))
		}
	}
}

// TestSpoofedHeadersChangeNothing: of over forty combinations that a stranger sends
// none buys a bucket, a plan or an account, nor reaches the upstream as one.
func TestSpoofedHeadersChangeNothing(t *testing.T) {
	var spoofed atomic.Int64
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.Contains(strings.ReplaceAll(name, "_", "-"), "X-Account") || strings.Contains(name, "X-Plan") {
				spoofed.Add(1)
			}
		}
		echo(w, r)
	})
	var combinations [][]string
	for _, address := range []string{"203.0.113.%d", "10.0.0.%d", "127.0.0.%d", "2001:db8:%d::1", "[2001:db8:%d::1]:80", "::ffff:10.0.0.%d", "203.0.113.%d, 10.0.0.1", "unknown", "_hidden%d"} {
		if strings.Contains(address, "%d") {
			address = fmt.Sprintf(address, len(combinations)+1)
		}
		combinations = append(combinations,
			[]string{"X-Forwarded-For", address}, []string{"Forwarded", `for="` + address + `"`}, []string{"X-Real-Ip", address},
			[]string{"X-Account", "acct_big-1", "X-Plan", "big", "X-Forwarded-For", address},
			[]string{"X-Forwarded-For", address, "X-Forwarded-For", "10.0.0.1"})
	}
	combinations = append(combinations, []string{"X_Account", "acct_big-1"}, []string{"X-Account", "acct_big-1", "X-Account", "acct_1"}, []string{"X-Plan", "big"})
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
		g := start(t, upstream, "--trusted-proxies=10.0.0.0/8", "--client-ip-header", header, "--account-header=X-Account", "--plan-header=X-Plan")
		passed := 0
		for _, combination := range combinations {
			a := g.do("GET", "/v1/items/1", "", combination...)
			if a.StatusCode == 200 {
				passed++
			}
			if !strings.HasPrefix(policy(a), `"anonymous-ip"`) {
				t.Errorf("%s: %q is limited by %s", header, combination, policy(a))
			}
		}
		if len(combinations) < 40 || passed != 15 {
			t.Errorf("%s: %d of %d combinations passed, want the 15 of one address", header, passed, len(combinations))
		}
	}
	if spoofed.Load() != 0 {
		t.Errorf("%d spoofed accounts reached the upstream", spoofed.Load())
	}
}

// TestTrustedHopNamesClients: the account with its plan, and the address in the
// header that is configured.
func TestTrustedHopNamesClients(t *testing.T) {
	g := start(t, echoes, "--trusted-proxies=127.0.0.0/8", "--client-ip-header=Forwarded", "--ipv6-prefix=48",
		"--account-header=X-Account", "--plan-header=X-Plan", "--default-plan=small")
	if a := g.do("GET", "/", "", "X-Account", "acct_9", "X-Plan", "big").want(t, 200, ""); !strings.HasPrefix(policy(a), `"big-global"`) {
		t.Errorf("limited by %s", policy(a))
	}
	if a := g.do("GET", "/", "", "X-Account", "acct_10").want(t, 200, ""); !strings.HasPrefix(policy(a), `"small-global"`) {
		t.Errorf("without a plan: limited by %s", policy(a))
	}
	g.do("GET", "/", "", "X-Account", "acct_9", "X-Account", "acct_10").want(t, 401, edge.CodeBadAccount)
	// An account is one, whatever names it.
	g.do("GET", "/", "", "X-Api-Key", "small-1").want(t, 200, "")
	if a := g.do("GET", "/", "", "X-Account", "acct_small-1", "X-Plan", "small"); !strings.HasPrefix(a.Header.Get("RateLimit"), `"small-global";r=10;`) {
		t.Errorf("an account with a key and a header: %s", a.Header.Get("RateLimit"))
	}
	for i := range 16 {
		a := g.do("GET", "/", "", "Forwarded", fmt.Sprintf(`for="[2001:db8:7:%x::1]:80"`, i), "X-Forwarded-For", fmt.Sprint("198.51.100.", i))
		if want := map[bool]int{true: 200, false: 429}[i < 15]; a.StatusCode != want {
			t.Errorf("request %d of one /48: %s, want %d", i+1, a.Status, want)
		}
	}
	g.do("GET", "/", "", "Forwarded", `for="[2001:db8:8::1]"`).want(t, 200, "")
}

// TestTokensNameAccounts: one that holds is the account of its claims, one that does
// not is refused, and another's is anonymous.
func TestTokensNameAccounts(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "1"}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, set, 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bearer := func(issuer string) string {
		token, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": issuer, "exp": time.Now().Add(time.Hour).Unix(), "https://api.example/account": "acct_7", "tier": "big",
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	g := start(t, echoes, "--jwks", path, "--jwt-issuer=https://id.example", "--jwt-account-claim=https://api.example/account", "--jwt-plan-claim=tier")
	good := bearer("https://id.example")
	if a := g.do("GET", "/", "", "Authorization", good).want(t, 200, fmt.Sprintf("auth=[%q]", good)); !strings.HasPrefix(policy(a), `"big-global"`) {
		t.Errorf("limited by %s", policy(a))
	}
	refused := g.do("GET", "/", "", "Authorization", bearer("https://evil.example")).want(t, 401, respond.CodeInvalidToken)
	if got := refused.Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="invalid_token"`) {
		t.Errorf("WWW-Authenticate is %s", got)
	}
	if a := g.do("GET", "/", "", "Authorization", "Bearer opaque").want(t, 200, ""); !strings.HasPrefix(policy(a), `"anonymous-ip"`) {
		t.Errorf("another's token is limited by %s", policy(a))
	}
}

// loginRules are those of the issue: 5 a minute for an address, 20 an hour for a
// name.
const loginRules = `
routes: [{id: login, match: /v1/login, user_field: username}]
rules:
  - {id: login-ip, route: login, identity: ip, algorithm: sliding_log, limit: 5, window: 1m, fail_mode: closed}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 20, window: 1h, fail_mode: closed}
`

// TestLoginsAreHeldByAddressAndByName: the 6th from one address in a minute and the
// 21st for one name in an hour, over however many addresses, are refused; no
// spelling of the name or of the body counts elsewhere or gets past.
func TestLoginsAreHeldByAddressAndByName(t *testing.T) {
	var reached atomic.Int64
	rules := filepath.Join(t.TempDir(), "login.yaml")
	replace(t, rules, loginRules)
	g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached.Add(1); echo(w, r) }),
		"--trusted-proxies=127.0.0.0/8", "--rules", rules, "--keys=")
	const form, object = "application/x-www-form-urlencoded", "application/json"
	addresses := 0
	attempt := func(contentType, body string, header ...string) answer {
		addresses++
		return g.do("POST", "/v1/login", body, append(header, "Content-Type", contentType, "X-Forwarded-For", fmt.Sprintf("198.51.%d.%d", addresses/250, addresses%250+1))...)
	}
	for i := range 6 {
		a := g.do("POST", "/v1/login", fmt.Sprintf(`{"username":"user%d"}`, i), "Content-Type", object, "X-Forwarded-For", "203.0.113.1")
		if want := map[bool]int{true: 200, false: 429}[i < 5]; a.StatusCode != want {
			t.Errorf("attempt %d from one address: %s, want %d", i+1, a.Status, want)
		}
	}
	spellings := []struct{ contentType, body string }{
		{object, `{"username":"bob"}`}, {object, `{"username":"Bob "}`}, {object, `{"username":" BOB\t"}`}, {object, `{"user\u006eame":"\u0042ob"}`},
		{form, "username=bob"}, {form, "username=+Bob+"}, {form, "password=x&user%6eame=%42OB%0a"}, {object + "; charset=UTF-8", "{\"username\":\"\u00a0bob\"}"},
	}
	for i := range 20 {
		attempt(spellings[i%len(spellings)].contentType, spellings[i%len(spellings)].body).want(t, 200, "")
	}
	for _, s := range spellings {
		attempt(s.contentType, s.body).want(t, 429, "login-user")
	}
	before := reached.Load()
	for _, c := range []struct {
		contentType, body, code string
		header                  []string
	}{
		{object, `{"username":"eve","username":"bob"}`, userfield.CodeUserAmbiguous, nil},
		{object, `{"username":"eve","Username":"bob"}`, userfield.CodeUserAmbiguous, nil},
		{form, "username=eve&username=bob", userfield.CodeUserAmbiguous, nil},
		{form, "username=eve&username[]=bob", userfield.CodeUserAmbiguous, nil},
		{form, `{"username":"bob","password":"x","a":"&username=r1&"}`, userfield.CodeBodyUnreadable, nil},
		{form, `{"username":"bob","password":"x"}&username=r1`, userfield.CodeBodyUnreadable, nil},
		{form, "username=bob%00", userfield.CodeUserAmbiguous, nil},
		{object, "\x1f\x8b\x08bob", userfield.CodeBodyUnreadable, []string{"Content-Encoding", "gzip"}},
		{object + "; charset=utf-16le", "{\x00\"\x00", userfield.CodeBodyUnreadable, nil},
		{object + "; charset=utf-7", `{"username":"bob"}`, userfield.CodeBodyUnreadable, nil},
		{form, "_charset_=utf-7&username=bob", userfield.CodeBodyUnreadable, nil},
		{"multipart/form-data; boundary=x", "--x--", userfield.CodeBodyUnreadable, nil},
		{object, `{"username":"bob","pad":"` + strings.Repeat("x", 10<<20) + `"}`, userfield.CodeBodyTooLarge, nil},
		{object, strings.Repeat(" ", 10<<20) + `{"username":"bob"}`, userfield.CodeBodyTooLarge, nil},
	} {
		attempt(c.contentType, c.body, c.header...).want(t, 400, c.code)
	}
	if got := reached.Load(); got != before {
		t.Errorf("%d unclear logins reached the upstream", got-before)
	}
	// A method that is free elsewhere is not where it could be a login.
	for _, method := range []string{"HEAD", "OPTIONS"} {
		a := g.do(method, "/v1/login?username=bob", "", "X-Forwarded-For", "203.0.113.3", "Origin", "https://a.example", "Access-Control-Request-Method", "POST")
		if a.StatusCode != 400 {
			t.Errorf("%s that names a user: %s", method, a.Status)
		}
	}
	// Unclear attempts count for the address that makes them.
	for i := range 6 {
		a := g.do("POST", "/v1/login", `{}`, "Content-Type", object, "X-Forwarded-For", "203.0.113.2")
		if want := map[bool]int{true: 400, false: 429}[i < 5]; a.StatusCode != want {
			t.Errorf("unclear attempt %d from one address: %s, want %d", i+1, a.Status, want)
		}
	}
}
