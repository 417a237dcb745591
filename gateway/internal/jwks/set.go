package jwks

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Bounds of a key set.
const (
	setMax     = 1 << 20 // bytes
	keysMax    = 32      // usable keys: two issuers' worth, in the midst of a change
	rsaBitsMin = 2048    // shorter ones are no longer safe (RFC 7518, 3.3)
)

// algorithms are those that a public key verifies.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// parseSet returns the keys of a set that can verify tokens. Others are left out,
// as RFC 7517 asks: a set may hold keys for other purposes. The error tells why
// each was, if none is left.
func parseSet(text []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("is no JSON Web Key Set: %w", err)
	}
	var usable []jose.JSONWebKey
	var others []string
	for i, raw := range set.Keys {
		key, err := parseKey(raw)
		if err != nil {
			others = append(others, fmt.Sprintf("keys[%d] %v", i, err))
			continue
		}
		usable = append(usable, key)
	}
	switch {
	case len(usable) > keysMax:
		return nil, fmt.Errorf("has %d keys: at most %d are allowed", len(usable), keysMax)
	case len(usable) > 0:
		return usable, nil
	case len(others) == 0:
		return nil, errors.New(`holds no keys: want {"keys": [...]}`)
	}
	return nil, fmt.Errorf("holds no public key that verifies tokens: %s", strings.Join(others, "; "))
}

func parseKey(raw json.RawMessage) (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(raw); err != nil {
		return key, fmt.Errorf("cannot be read (%w)", err)
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		if public.N.BitLen() < rsaBitsMin {
			return key, fmt.Errorf("has %d bits: want %d or more", public.N.BitLen(), rsaBitsMin)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return key, errors.New("is no public key")
	}
	if !key.Valid() {
		return key, errors.New("is not valid")
	}
	if key.Use != "" && key.Use != "sig" {
		return key, fmt.Errorf("is for use %.20q", key.Use)
	}
	return key, nil
}
