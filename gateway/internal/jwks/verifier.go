package jwks

import (
	"context"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/shiplane/limits/gateway/internal/identity"
)

// The reasons why a token names nobody.
var (
	ErrInvalid = errors.New("the token is not valid")                           // 401; the text after it is for the caller
	ErrNoKeys  = errors.New("the keys that tokens are verified by are missing") // 503
)

// tokenMax bounds a token, in bytes.
const tokenMax = 16 << 10

// triesMax bounds the keys that one token is tried with: whoever makes tokens up
// costs as many verifications each, and is not limited before. A token that names no
// key of a larger set has to be of one of the first ones that fit.
const triesMax = 4

// Claims is what is asked of a token, and which claims name whom.
type Claims struct {
	Issuer    string        // "iss" has to be this
	Audiences []string      // "aud" has to hold one of these; none: it is not looked at
	Account   string        // name of the claim that holds the account: a text or an integer
	Plan      string        // name of the claim that holds the plan; "" for none
	Leeway    time.Duration // by which clocks may differ
}

// Verifier verifies tokens. Safe for concurrent use.
type Verifier struct {
	claims Claims
	keys   source
	now    func() time.Time
}

// source has the keys in force.
type source interface {
	// find returns the keys with this id, all keys if it is "". It may wait for
	// newer ones.
	find(ctx context.Context, id string) ([]jose.JSONWebKey, error)
}

// Verify is of identity.Tokens. An error wraps ErrInvalid or ErrNoKeys.
func (v *Verifier) Verify(r *http.Request, token string) (account, plan string, ok bool, err error) {
	if !isToken(token) {
		return "", "", false, nil
	}
	if len(token) > tokenMax {
		return "", "", true, invalid("it has %d bytes: at most %d are allowed", len(token), tokenMax)
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return "", "", true, invalid("its form or its algorithm is not accepted")
	}
	claims, named, err := v.open(r.Context(), parsed)
	if err != nil {
		return "", "", true, err
	}
	if err := v.check(claims.Claims); err != nil {
		return "", "", true, err
	}
	account, plan = textOf(named[v.claims.Account]), textOf(named[v.claims.Plan])
	if !identity.Readable(account) {
		return "", "", true, invalid("its claim %q names no account", v.claims.Account)
	}
	return account, plan, true, nil
}

// isToken reports whether text is a signed token, by its form: three parts, of
// which the first is a JSON object.
func isToken(text string) bool {
	header, rest, _ := strings.Cut(text, ".")
	if strings.Count(rest, ".") != 1 {
		return false
	}
	object, err := base64.RawURLEncoding.DecodeString(header)
	return err == nil && len(object) > 0 && object[0] == '{'
}

// registered are the claims that every token is checked by. Whom it is about may be
// a number with some issuers, against the standard.
type registered struct {
	jwt.Claims
	Subject json.RawMessage `json:"sub"`
}

// open returns the claims of a token whose signature holds.
func (v *Verifier) open(ctx context.Context, token *jwt.JSONWebToken) (claims registered, named map[string]json.RawMessage, err error) {
	header := token.Headers[0] // a compact token has one
	keys, err := v.keys.find(ctx, header.KeyID)
	if err != nil {
		return claims, nil, err
	}
	tried := 0
	for _, key := range keys {
		if !fits(key, header.Algorithm) {
			continue
		}
		if tried++; tried > triesMax {
			break
		}
		switch err := token.Claims(key.Key, &claims, &named); {
		case err == nil:
			return claims, named, nil
		case !errors.Is(err, jose.ErrCryptoFailure) && !errors.Is(err, jose.ErrUnsupportedAlgorithm):
			return claims, nil, invalid("its claims cannot be read")
		}
	}
	return claims, nil, invalid("no key of its issuer verifies it")
}

// fits reports whether a key can verify what was signed with an algorithm.
func fits(key jose.JSONWebKey, algorithm string) bool {
	if key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	switch key.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(algorithm, "ES")
	default:
		return algorithm == string(jose.EdDSA)
	}
}

// check looks at the registered claims.
func (v *Verifier) check(claims jwt.Claims) error {
	if claims.Expiry == nil {
		return invalid("it does not expire")
	}
	expected := jwt.Expected{Issuer: v.claims.Issuer, AnyAudience: v.claims.Audiences, Time: v.now()}
	switch err := claims.ValidateWithLeeway(expected, v.claims.Leeway); {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrExpired):
		return invalid("it has expired")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return invalid("it is not valid yet")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return invalid("it is for another audience")
	default:
		return invalid("it is of another issuer")
	}
}

// integer is a JSON number that is one, as an account may be.
var integer = regexp.MustCompile(`^-?[0-9]{1,19}$`)

// textOf returns a claim that is a text or an integer, "" for any other.
func textOf(claim json.RawMessage) string {
	var text string
	if json.Unmarshal(claim, &text) == nil {
		return text
	}
	if integer.Match(claim) {
		return string(claim)
	}
	return ""
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
