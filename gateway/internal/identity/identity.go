// Package identity tells who sent a request: the key that it presents, and the
// address that it comes from.
//
// The order of credentials, which decides alone and is never combined:
//
//  1. X-Api-Key is ours. One that is unknown (or empty, or there twice) is
//     refused, also beside a good Authorization: a mistyped key must not pass as
//     somebody else, or as nobody.
//  2. Authorization: Bearer may be ours. A known token is the account's key. An
//     unknown one may be meant for the API behind: the request is anonymous and
//     the header is sent on, unless keys are required.
//  3. Without either the request is anonymous, unless keys are required.
//
// The address is that of the connection. Only if that is a trusted proxy's is
// X-Forwarded-For read, from the right, up to the first hop that is not trusted:
// what stands left of it was written by a stranger.
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
	ErrKeyRequired = errors.New("an API key is required")
)

// Identifier identifies. Safe for concurrent use.
type Identifier struct {
	Keys       *keys.Live
	RequireKey bool           // refuse who presents no known key
	Trusted    []netip.Prefix // proxies whose X-Forwarded-For is believed; v4 as v4
}

// Key returns the key that a request presents, nil if it is anonymous. The error
// is ErrUnknownKey or ErrKeyRequired.
func (i *Identifier) Key(h http.Header) (*keys.Key, error) {
	set := i.Keys.Current()
	if presented, ok := h["X-Api-Key"]; ok {
		if len(presented) == 1 {
			if key := set.Find(presented[0]); key != nil {
				return key, nil
			}
		}
		return nil, ErrUnknownKey
	}
	if token, ok := bearer(h); ok {
		if key := set.Find(token); key != nil {
			return key, nil
		}
		if i.RequireKey {
			return nil, ErrUnknownKey
		}
	}
	if i.RequireKey {
		return nil, ErrKeyRequired
	}
	return nil, nil
}

// bearer returns the token of Authorization: Bearer; the scheme's case is free.
func bearer(h http.Header) (token string, ok bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// Address returns where a request comes from, an IPv4 address mapped into IPv6
// as IPv4; the zero Addr if remote, the address of the connection, is none.
// Where a trusted proxy names no readable hop, its own address stands.
func (i *Identifier) Address(remote string, h http.Header) netip.Addr {
	client := parseHop(remote)
	forwarded := h["X-Forwarded-For"]
	for line := len(forwarded) - 1; line >= 0; line-- {
		rest := forwarded[line]
		for rest != "" {
			if !i.Trusts(client) {
				return client
			}
			comma := strings.LastIndexByte(rest, ',')
			hop := parseHop(strings.TrimSpace(rest[comma+1:]))
			if !hop.IsValid() {
				return client
			}
			client, rest = hop, rest[:max(comma, 0)]
		}
	}
	return client
}

// Trusts reports whether an address is a trusted proxy's.
func (i *Identifier) Trusts(address netip.Addr) bool {
	for _, prefix := range i.Trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// parseHop reads an address with or without port; the zero Addr if it is none.
func parseHop(text string) netip.Addr {
	if hop, err := netip.ParseAddrPort(text); err == nil {
		return hop.Addr().Unmap().WithZone("")
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	hop, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}
	}
	return hop.Unmap().WithZone("")
}
