package envoy

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
)

// Bounds of a request. Values are bounded where a client chooses them; those of
// limits and names come from the operator and are compared with what there is.
const (
	descriptorsMax = 16            // of a request, as the entries of a check
	entriesMax     = 16            // of a descriptor: each key once, and some rules
	identityMax    = decide.KeyMax // bytes of an account or a user name
	pathMax        = 16 << 10      // bytes of a path, without its query
)

// fault is what an operator has to mend: INVALID_ARGUMENT.
type fault struct{ at, text string }

func (f *fault) Error() string { return f.at + ": " + f.text }

// unreadable is a value that a client has chosen and that nobody can be: refused.
type unreadable struct{ key, text string }

func (u *unreadable) Error() string { return u.key + ": " + u.text }

// words are a descriptor's values by what they mean.
type words struct {
	account, ip, user  string
	plan, route        string
	path, method, host string
	rules              []string
	unknown            string // a key that means nothing here
}

// read sorts a descriptor's entries by their keys, in the place of those before.
func (w *words) read(d *ratelimitv3.RateLimitDescriptor) error {
	*w = words{rules: w.rules[:0]}
	entries := d.GetEntries()
	if len(entries) > entriesMax {
		return &fault{"entries", fmt.Sprintf("are %d: want at most %d", len(entries), entriesMax)}
	}
	var seen [8]*string
	given := seen[:0]
	for i, e := range entries {
		if e.GetKey() == "rule" {
			w.rules = append(w.rules, e.GetValue())
			continue
		}
		to := w.place(e.GetKey())
		if to == nil {
			w.unknown = e.GetKey()
			continue
		}
		if slices.Contains(given, to) {
			return &fault{fmt.Sprintf("entries[%d]", i), fmt.Sprintf("%q says again what an entry before it says", e.GetKey())}
		}
		given, *to = append(given, to), e.GetValue()
	}
	if w.route != "" && w.path != "" {
		return &fault{"entries", `are a "route" and a "path": want one of them`}
	}
	return nil
}

// place is where the value of a key goes, nil if the key means nothing. These are
// all keys, beside "rule".
func (w *words) place(key string) *string {
	switch key {
	case "account", "api_key":
		return &w.account
	case "remote_address", "masked_remote_address", "ip":
		return &w.ip
	case "user":
		return &w.user
	case "plan":
		return &w.plan
	case "route":
		return &w.route
	case "path":
		return &w.path
	case "method":
		return &w.method
	case "host":
		return &w.host
	}
	return nil
}

// identities are who asks, as rules name them: "" where nobody does.
type identities [limit.Kinds + 1]string

// identities returns who asks. A value of white space is nobody.
func (w *words) identities(naming ruleset.Naming) (who identities, err error) {
	if len(w.account) > identityMax {
		return who, &unreadable{"account", fmt.Sprintf("has %d bytes: want at most %d", len(w.account), identityMax)}
	}
	if len(w.user) > identityMax {
		return who, &unreadable{"user", fmt.Sprintf("has %d bytes: want at most %d", len(w.user), identityMax)}
	}
	who[limit.Account], who[limit.User] = w.account, naming.UserID(w.user)
	if w.ip != "" {
		who[limit.IP], err = address(naming, w.ip)
	}
	return who, err
}

// errNetwork is about a network that holds more than one caller.
var errNetwork = &fault{"masked_remote_address", "masks more than rules count by"}

// address returns the id of an address, or of a network that is one caller.
func address(naming ruleset.Naming, text string) (string, error) {
	if at, err := netip.ParseAddr(text); err == nil {
		return naming.AddressID(at), nil
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return "", &unreadable{"remote_address", "is neither an address nor a network"}
	}
	whole := network.Addr().BitLen()
	if network.Addr().Is6() && !network.Addr().Is4In6() {
		whole = cmp.Or(naming.IPv6Prefix, ruleset.IPv6PrefixDefault)
	}
	if network.Bits() < whole {
		return "", errNetwork
	}
	return naming.AddressID(network.Addr()), nil
}

// class returns the route class of the descriptor; ok is false for a name that
// there is no route of.
func (w *words) class(set *ruleset.Ruleset) (route *ruleset.Route, ok bool, err error) {
	switch {
	case w.route != "":
		all := set.Routes()
		if at := slices.IndexFunc(all, func(r *ruleset.Route) bool { return r.ID == w.route }); at >= 0 {
			return all[at], true, nil
		}
		return nil, false, nil
	case w.path == "":
		return nil, true, nil // the class of what no pattern matches
	}
	path, _, _ := strings.Cut(w.path, "?")
	if len(path) > pathMax {
		return nil, true, &unreadable{"path", fmt.Sprintf("has %d bytes: want at most %d", len(path), pathMax)}
	}
	at := &url.URL{Path: path}
	if plain, err := url.PathUnescape(path); err == nil {
		at.Path, at.RawPath = plain, path
	}
	return set.Route(&http.Request{Method: cmp.Or(w.method, http.MethodGet), Host: w.host, URL: at}), true, nil
}
