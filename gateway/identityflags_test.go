package gateway

import (
	"strings"
	"testing"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/libs/command"
)

// TestSourcesThatCouldNotWorkAreRefused: a header that nobody may send, a token that
// nobody can verify, a gateway that nobody could enter.
func TestSourcesThatCouldNotWorkAreRefused(t *testing.T) {
	good := []string{"--upstream=http://127.0.0.1:9", "--rules=rules.yaml"}
	for _, c := range []struct {
		flags []string
		want  string // "" for none
	}{
		{nil, ""},
		{[]string{"--account-header=X-Account"}, `--account-header "X-Account": would never be believed: give --trusted-proxies`},
		{[]string{"--client-ip-header=Forwarded"}, `--client-ip-header "Forwarded": would never be believed`},
		{[]string{"--trusted-proxies=10.0.0.1", "--client-ip-header=a b"}, `--client-ip-header "a b": want the name of a header field`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=x-api-key"}, `--account-header "x-api-key": has a meaning of its own`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=x-request-id"}, `--account-header "x-request-id": has a meaning of its own`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=X_Forwarded_For"}, `--account-header "X_Forwarded_For": has a meaning of its own`},
		{[]string{"--trusted-proxies=10.0.0.1", "--client-ip-header=connection"}, `--client-ip-header "connection": has a meaning of its own`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=X-A", "--plan-header=Forwarded"}, `--plan-header "Forwarded": has a meaning of its own`},
		{[]string{"--trusted-proxies=10.0.0.1", "--client-ip-header=X-A", "--account-header=x-a"}, `--account-header "x-a": is that of --client-ip-header`},
		{[]string{"--trusted-proxies=10.0.0.1", "--client-ip-header=X-P", "--account-header=X-A", "--plan-header=X-P"}, `--plan-header "X-P": is that of --client-ip-header`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=X-A", "--plan-header=X_A"}, `--plan-header "X_A": is that of --account-header`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=X-Forwarded-User", "--plan-header=X-Forwarded-Groups"}, ""},
		{[]string{"--trusted-proxies=10.0.0.1", "--plan-header=X-Plan"}, `--plan-header "X-Plan": needs --account-header`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=X-A", "--plan-header=x-a"}, `--plan-header "x-a": is that of --account-header`},
		{[]string{"--trusted-proxies=10.0.0.1", "--account-header=X-A", "--plan-header=X-P", "--default-plan=a", "--require-key"}, ""},
		{[]string{"--require-key"}, `--require-key "true": nobody could enter`},
		{[]string{"--default-plan=gold"}, `--default-plan "gold": belongs to --account-header or --jwks`},
		{[]string{"--ipv6-prefix=8"}, `--ipv6-prefix "8": want a whole number of 16 to 128`},
		{[]string{"--ipv6-prefix=129"}, `--ipv6-prefix "129": want a whole number of 16 to 128`},
		{[]string{"--jwks=keys.json"}, `--jwt-issuer "": is missing`},
		{[]string{"--jwt-issuer=me"}, `--jwt-issuer "me": needs --jwks`},
		{[]string{"--jwt-audience=me"}, `--jwt-audience "me": needs --jwks`},
		{[]string{"--jwks=http://id.example/keys", "--jwt-issuer=me"}, `--jwks "http://id.example/keys": want https://`},
		{[]string{"--jwks=https://me:secret@id.example/keys", "--jwt-issuer=me"}, `--jwks "…@id.example/keys": must not hold a user or password`},
		{[]string{"--jwks=https://id.example/keys", "--jwt-issuer=me", "--jwt-leeway=6m"}, `--jwt-leeway "6m": want a duration of 0s to 5m0s`},
		{[]string{"--jwks=https://id.example/keys", "--jwt-issuer=me", "--jwks-refresh=1s"}, `--jwks-refresh "1s": want a duration of 10s to 24h0m0s`},
		{[]string{"--jwks=https://id.example/keys", "--jwt-issuer=me", "--jwt-account-claim="}, `--jwt-account-claim "": want the name of a claim`},
		{[]string{"--jwks=https://id.example/keys", "--jwt-issuer=me", "--jwt-audience=a, b"}, ""},
		{[]string{"--charge=get"}, `--charge "get": want head, options or preflight`},
		{[]string{"--cors-origins=https://a.example/"}, `--cors-origins "https://a.example/": want SCHEME://HOST`},
		{[]string{"--cors-origins=https://*.example"}, `--cors-origins "https://*.example": want SCHEME://HOST`},
		{[]string{"--cors-origins=a.example"}, `--cors-origins "a.example": want SCHEME://HOST`},
		{[]string{"--cors-origins=*,https://a.example"}, `want * alone`},
	} {
		cmd := &commands{}
		if _, err := command.Parse("gateway", "run", cmd, append(good, c.flags...), nil, nil); err != nil {
			t.Fatal(err)
		}
		_, faults := cmd.Run.read()
		said := ""
		if err := combine(faults); err != nil {
			said = err.Error()
		}
		if c.want == "" && said != "" || c.want != "" && (len(faults) != 1 || !strings.Contains(said, c.want)) || strings.Contains(said, "secret") {
			t.Errorf("%q: %s\nwant %q", c.flags, said, c.want)
		}
	}
}

// TestIdentityIsWhatFlagsSay: names of headers in any case, lists with spaces.
func TestIdentityIsWhatFlagsSay(t *testing.T) {
	cfg := configOf(t, "--upstream=http://127.0.0.1:9", "--rules=r", "--trusted-proxies= 10.0.0.0/8, ::ffff:192.0.2.1", "--client-ip-header=x-forwarded-for",
		"--account-header=x-account-ID", "--jwks=k", "--jwt-issuer=me", "--jwt-audience= a,b ", "--exact-user-names", "--ipv6-prefix=56")
	if len(cfg.Trusted) != 2 || cfg.Trusted[1].String() != "192.0.2.1/32" || cfg.AddressHeader != identity.ForwardedFor || cfg.AccountHeader != "X-Account-Id" {
		t.Errorf("proxies %v, headers %s and %s", cfg.Trusted, cfg.AddressHeader, cfg.AccountHeader)
	}
	if c := cfg.Tokens.Claims; len(c.Audiences) != 2 || c.Audiences[1] != "b" || c.Account != "sub" || c.Plan != "plan" {
		t.Errorf("claims %+v", c)
	}
	if !cfg.Naming.ExactUsers || cfg.Naming.IPv6Prefix != 56 {
		t.Errorf("naming %+v", cfg.Naming)
	}
}
