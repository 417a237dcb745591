package gateway

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/jwks"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
)

// identityFlags say how callers are told, each source being off unless it is
// given. They are embedded in flags, as text.
type identityFlags struct {
	TrustedProxies string `placeholder:"CIDR,..." help:"Proxies whose headers about their clients are believed (default none: the client is who connects)."`
	ClientIPHeader string `name:"client-ip-header" default:"X-Forwarded-For" placeholder:"NAME" help:"The one header in which trusted proxies name the client's address: X-Forwarded-For, Forwarded, or one that holds a single address, as X-Real-Ip (default X-Forwarded-For)."`
	AccountHeader  string `placeholder:"NAME" help:"Header in which trusted proxies name the account (default none)."`
	PlanHeader     string `placeholder:"NAME" help:"Header in which they name its plan. Needs --account-header."`
	DefaultPlan    string `placeholder:"ID" help:"Plan of accounts whose header or token names none (default: they are limited as anonymous callers are)."`

	JWKS            string `name:"jwks" placeholder:"FILE|URL" help:"Public keys by which JSON Web Tokens are verified; a file is followed, a URL fetched again and again (default: tokens are the upstream's)."`
	JWKSRefresh     string `name:"jwks-refresh" default:"5m" placeholder:"DURATION" help:"Between two fetches of a --jwks URL, 10s to 24h (default 5m)."`
	JWTIssuer       string `name:"jwt-issuer" placeholder:"TEXT" help:"What a token's iss has to be. Needed with --jwks."`
	JWTAudience     string `name:"jwt-audience" placeholder:"TEXT,..." help:"A token's aud has to hold one of these (default: it is not looked at)."`
	JWTAccountClaim string `name:"jwt-account-claim" default:"sub" placeholder:"NAME" help:"Claim that holds the account (default sub)."`
	JWTPlanClaim    string `name:"jwt-plan-claim" default:"plan" placeholder:"NAME" help:"Claim that holds its plan (default plan)."`
	JWTLeeway       string `name:"jwt-leeway" default:"30s" placeholder:"DURATION" help:"By which the issuer's clock may differ, 0s to 5m (default 30s)."`

	rulesource.NamingFlags `embed:""`
}

// Bounds of identity flags.
const (
	jwksRefreshMin = 10 * time.Second
	jwksRefreshMax = 24 * time.Hour
	jwtLeewayMax   = 5 * time.Minute
)

func (f *identityFlags) read(cfg *Config, faults *command.Faults) {
	fault := faults.Add
	for text := range listed(f.TrustedProxies) {
		prefix, err := parsePrefix(text)
		if err != nil {
			fault("trusted-proxies", text, "want addresses or CIDRs, as in 10.0.0.0/8 or 2001:db8::1")
			continue
		}
		cfg.Trusted = append(cfg.Trusted, prefix)
	}
	cfg.Naming = f.Naming(faults)
	cfg.DefaultPlan = f.DefaultPlan
	f.headers(cfg, fault)
	f.tokens(cfg, faults)
	if cfg.RequireKey && !cfg.Demo && cfg.Keys == "" && cfg.AccountHeader == "" && cfg.Tokens == nil {
		fault("require-key", "true", "nobody could enter: give --keys, --account-header or --jwks")
	}
	if f.DefaultPlan != "" && cfg.AccountHeader == "" && cfg.Tokens == nil {
		fault("default-plan", f.DefaultPlan, "belongs to --account-header or --jwks; a key has its plan in the key file")
	}
}

// reserved are fields of requests that name no caller, or in a way of their own.
var reserved = []string{
	"X-Api-Key", "Authorization", "Host", "X-Request-Id", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
	"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Content-Type", "Traceparent", "Tracestate",
}

func (f *identityFlags) headers(cfg *Config, fault faultFunc) {
	taken := map[string]string{} // flags by the field that they name
	name := func(flag, value string) string {
		canonical := http.CanonicalHeaderKey(value)
		field := identity.Dashed(canonical)
		hops := field == identity.ForwardedFor || field == identity.Forwarded
		switch other := taken[field]; {
		case !httpguts.ValidHeaderFieldName(value):
			fault(flag, value, "want the name of a header field, as in X-Account-Id")
		case slices.Contains(reserved, field) || hops && flag != "client-ip-header":
			fault(flag, value, "has a meaning of its own: want another name")
		case other != "":
			fault(flag, value, "is that of --"+other+": want another one")
		case len(cfg.Trusted) == 0 && f.TrustedProxies == "":
			fault(flag, value, "would never be believed: give --trusted-proxies")
		}
		taken[field] = flag
		return canonical
	}
	cfg.AddressHeader = identity.ForwardedFor
	if f.ClientIPHeader != identity.ForwardedFor {
		cfg.AddressHeader = name("client-ip-header", f.ClientIPHeader)
	}
	if f.AccountHeader != "" {
		cfg.AccountHeader = name("account-header", f.AccountHeader)
	}
	if f.PlanHeader == "" {
		return
	}
	cfg.PlanHeader = name("plan-header", f.PlanHeader)
	if f.AccountHeader == "" {
		fault("plan-header", f.PlanHeader, "needs --account-header")
	}
}

func (f *identityFlags) tokens(cfg *Config, faults *command.Faults) {
	fault := faults.Add
	refresh := faults.Duration("jwks-refresh", f.JWKSRefresh, jwksRefreshMin, jwksRefreshMax)
	leeway := faults.Duration("jwt-leeway", f.JWTLeeway, 0, jwtLeewayMax)
	if f.JWKS == "" {
		for _, unused := range [...]struct{ flag, value string }{{"jwt-issuer", f.JWTIssuer}, {"jwt-audience", f.JWTAudience}} {
			if unused.value != "" {
				fault(unused.flag, unused.value, "needs --jwks")
			}
		}
		return
	}
	if jwks.IsURL(f.JWKS) {
		if err := jwks.CheckURL(f.JWKS); err != nil {
			fault("jwks", command.WithoutUser(f.JWKS), err.Error())
		}
	}
	if f.JWTIssuer == "" {
		fault("jwt-issuer", "", "is missing: --jwks needs to know whose tokens are meant")
	}
	if f.JWTAccountClaim == "" {
		fault("jwt-account-claim", "", "want the name of a claim, as in sub")
	}
	claims := jwks.Claims{Issuer: f.JWTIssuer, Account: f.JWTAccountClaim, Plan: f.JWTPlanClaim, Leeway: leeway}
	for audience := range listed(f.JWTAudience) {
		claims.Audiences = append(claims.Audiences, audience)
	}
	cfg.Tokens = &jwks.Config{Source: f.JWKS, Refresh: refresh, Claims: claims}
}

// listed yields the members of a list with commas, without white space around them
// and without empty ones.
func listed(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for member := range strings.SplitSeq(text, ",") {
			if member = strings.TrimSpace(member); member != "" && !yield(member) {
				return
			}
		}
	}
}
