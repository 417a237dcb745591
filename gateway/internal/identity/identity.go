// Package identity tells who sent a request: the account that its credentials
// name, and the address that it comes from.
//
// Sources of an account, in this order; each is off unless it is configured, and
// the first one that a request holds decides alone:
//
//  1. X-Api-Key (Keys). One that is unknown, empty, there twice or spelled with an
//     underscore, which the upstream may take for a dash, is refused, also beside
//     other credentials: a mistyped key must not pass as somebody else, or as nobody.
//  2. The account header (AccountHeader), only of a trusted proxy. Of anybody else
//     it is not read, and Clean takes it out of the request.
//  3. Authorization: Bearer with a known key (Keys). Two Authorization fields are
//     refused if either Keys or Tokens are on: the upstream may read the other one.
//  4. Authorization: Bearer with a JSON Web Token (Tokens). One that does not hold
//     is refused.
//  5. Without any of them, and with a bearer token of another form, which may be
//     meant for the API behind, the request is anonymous; it is refused if an
//     account is required.
//
// The address is that of the connection. Only if that is a trusted proxy's is a
// header read, the one that is configured and no other: a list of hops from the
// right, up to the first hop that is not trusted. What stands left of it was
// written by a stranger.
package identity

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/shiplane/limits/gateway/internal/keys"
)

// The reasons to refuse a request for who sent it.
var (
	ErrUnknownKey  = errors.New("the API key is unknown")
	ErrKeyRequired = errors.New("an account is required")
	ErrTwoBearers  = errors.New("the field Authorization is there twice")
	ErrBadAccount  = errors.New("the account header cannot be read") // a fault of the trusted proxy
)

// Account is who is counted. The zero Account is nobody: the request is anonymous.
type Account struct{ ID, Plan string }

// Tokens verifies tokens. The package jwks has them; an error wraps one of its
// sentinels. Safe for concurrent use.
type Tokens interface {
	// Verify returns what a token's claims say, ok false if the text is no JSON Web
	// Token. The plan is "" if the token names none.
	Verify(r *http.Request, token string) (account, plan string, ok bool, err error)
}

// Identifier identifies. Safe for concurrent use.
type Identifier struct {
	Keys        *keys.Live // nil: no API keys, X-Api-Key is the upstream's
	Tokens      Tokens     // nil: no tokens
	RequireKey  bool       // refuse who has no account
	DefaultPlan string     // of an account whose header or token names none; "" is a plan that no rules know

	Trusted       []netip.Prefix // proxies whose headers are believed; v4 as v4
	AddressHeader string         // ForwardedFor (or ""), Forwarded, or one that holds a single address; canonical
	AccountHeader string         // canonical; "" for none
	PlanHeader    string         // canonical; "" for none
}

// accountMax bounds an account that a header or token names, in bytes.
const accountMax = 256

// Account returns who sent a request. The error is one of this package's, or of
// Tokens.
func (i *Identifier) Account(r *http.Request) (Account, error) {
	if i.Keys != nil {
		if key, ok, err := i.fromKey(r.Header); ok || err != nil {
			return key, err
		}
	}
	if account, ok, err := i.fromHeader(r); ok || err != nil {
		return account, err
	}
	account, err := i.fromBearer(r)
	if err == nil && i.RequireKey && account == (Account{}) {
		err = ErrKeyRequired
	}
	return account, err
}

// fromKey reads X-Api-Key; ok is false if there is none.
func (i *Identifier) fromKey(h http.Header) (account Account, ok bool, err error) {
	const field = "X-Api-Key"
	for name := range h {
		if name != field && Dashed(name) == field {
			return Account{}, false, ErrUnknownKey
		}
	}
	presented, ok := h[field]
	if !ok {
		return Account{}, false, nil
	}
	if len(presented) == 1 {
		if key := i.Keys.Current().Find(presented[0]); key != nil {
			return Account{key.Account, key.Plan}, true, nil
		}
	}
	return Account{}, false, ErrUnknownKey
}

// fromHeader reads what a trusted proxy says; ok is false if it says nothing.
func (i *Identifier) fromHeader(r *http.Request) (account Account, ok bool, err error) {
	if i.AccountHeader == "" || !i.Trusts(parseHop(r.RemoteAddr)) {
		return Account{}, false, nil
	}
	values := r.Header[i.AccountHeader]
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return Account{}, false, nil // the proxy let an anonymous request pass
	}
	plans := r.Header[i.PlanHeader]
	if len(values) > 1 || len(plans) > 1 || !Readable(values[0]) {
		return Account{}, false, ErrBadAccount
	}
	account = Account{values[0], i.DefaultPlan}
	if len(plans) == 1 && plans[0] != "" {
		account.Plan = plans[0]
	}
	return account, true, nil
}

func (i *Identifier) fromBearer(r *http.Request) (Account, error) {
	if len(r.Header["Authorization"]) > 1 && (i.Keys != nil || i.Tokens != nil) {
		return Account{}, ErrTwoBearers
	}
	token, ok := bearer(r.Header)
	if !ok {
		return Account{}, nil
	}
	if i.Keys != nil {
		if key := i.Keys.Current().Find(token); key != nil {
			return Account{key.Account, key.Plan}, nil
		}
	}
	if i.Tokens != nil {
		account, plan, isToken, err := i.Tokens.Verify(r, token)
		if err != nil {
			return Account{}, err
		}
		if isToken {
			if plan == "" {
				plan = i.DefaultPlan
			}
			return Account{account, plan}, nil
		}
	}
	if i.RequireKey {
		return Account{}, ErrUnknownKey
	}
	return Account{}, nil
}

// Readable reports whether an account can be counted by: 1 to 256 bytes of
// visible ASCII, as logs and stores can show it.
func Readable(account string) bool {
	for at := range len(account) {
		if c := account[at]; c <= ' ' || c > '~' {
			return false
		}
	}
	return account != "" && len(account) <= accountMax
}

// bearer returns the token of Authorization: Bearer; the scheme's case is free, and
// a tab ends it as a space does: many servers take both.
func bearer(h http.Header) (token string, ok bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	end := strings.IndexAny(values[0], " \t")
	if end < 0 || !strings.EqualFold(values[0][:end], "Bearer") {
		return "", false
	}
	return strings.TrimSpace(values[0][end:]), true
}

// Clean takes out of a request what only a trusted proxy may say, if none sent it:
// the upstream may well believe these headers.
func (i *Identifier) Clean(r *http.Request) {
	if i.Trusts(parseHop(r.RemoteAddr)) {
		return
	}
	for name := range r.Header {
		if i.Withheld(name) {
			delete(r.Header, name)
		}
	}
}

// Withheld reports whether a field, by its canonical name, says what only a trusted
// proxy may say: the fields that are configured, and those by which proxies commonly
// name a client, whether or not this gateway reads them. An underscore is taken for
// the dash that many upstreams take it for.
func (i *Identifier) Withheld(name string) bool {
	switch dashed := Dashed(name); dashed {
	case Forwarded, "X-Real-Ip", Dashed(i.AccountHeader), Dashed(i.PlanHeader), Dashed(i.AddressHeader):
		return true
	default:
		return strings.HasPrefix(dashed, "X-Forwarded-")
	}
}
