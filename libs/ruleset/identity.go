package ruleset

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/shiplane/limits/libs/limit"
)

// IPv6PrefixDefault is the part of an IPv6 address, in bits, that one caller is
// counted by: a subscriber is given at least a /64, and can use every address of
// it.
const IPv6PrefixDefault = 64

// Naming is which spellings of a caller are one caller, in requests and in the
// keys of overrides alike. Whoever shares counters has to agree on it. The zero
// value is the default.
type Naming struct {
	// IPv6Prefix is how many bits of an IPv6 address are one caller, 1 to 128; 0
	// is IPv6PrefixDefault. Smaller is coarser: providers that hand out a /56 or
	// /48 let one subscriber choose among many /64.
	IPv6Prefix int
	// ExactUsers keeps user names apart that differ in upper and lower case only.
	ExactUsers bool
}

// An Option is how rules are to be read, beside what they say.
type Option func(*settings)

// settings are what a ruleset is made by beside its source.
type settings struct {
	naming Naming
	canary bool
}

// WithNaming sets how callers are told apart. Its prefix is of its range.
func WithNaming(n Naming) Option { return func(to *settings) { to.naming = n } }

// WithCanary says whether candidates in STAGE_CANARY are enforced.
func WithCanary(canary bool) Option { return func(to *settings) { to.canary = canary } }

func settingsOf(options []Option) (made settings) {
	for _, set := range options {
		set(&made)
	}
	return made
}

// AddressID returns the id of the subject that an address belongs to: an IPv4
// address as it is ("192.0.2.1"), one mapped into IPv6 as IPv4, and of an IPv6
// address its prefix ("2001:db8:0:1::/64"), without zone. It is "" for the zero
// Addr.
func (n Naming) AddressID(address netip.Addr) string {
	address = address.Unmap()
	switch {
	case !address.IsValid():
		return ""
	case address.Is4():
		return address.String()
	}
	return netip.PrefixFrom(address.WithZone(""), n.ipv6Prefix()).Masked().String()
}

func (n Naming) ipv6Prefix() int { return cmp.Or(n.IPv6Prefix, IPv6PrefixDefault) }

// UserID returns the id of the subject that a user name belongs to, the same
// for all spellings that people take for one: white space around it trimmed (U+FEFF
// is, as in JavaScript), case folded (unless ExactUsers), in Unicode's normal form C.
// It is "" for a name of white space.
func (n Naming) UserID(name string) string {
	if n.ExactUsers {
		return strings.TrimFunc(norm.NFC.String(name), blank)
	}
	// Some letters fold to what is not in normal form, or fold only when
	// decomposed (Unicode 3.13, D145), and some spaces appear by normalising.
	folded := cases.Fold().String(norm.NFD.String(name))
	return strings.TrimFunc(norm.NFC.String(folded), blank)
}

// blank reports what is white space to any of the servers behind.
func blank(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' }

// identityID returns the id of the subject that an override's key means. The
// error says what is wanted.
func (n Naming) identityID(kind limit.Kind, key string) (string, error) {
	switch kind {
	case limit.IP:
		if prefix, err := netip.ParsePrefix(key); err == nil && prefix == prefix.Masked() && n.AddressID(prefix.Addr()) == prefix.String() {
			return prefix.String(), nil
		}
		address, err := netip.ParseAddr(key)
		if err != nil {
			return "", fmt.Errorf("want an IPv4 or IPv6 address, or the /%d of an IPv6 address", n.ipv6Prefix())
		}
		return n.AddressID(address), nil
	case limit.User:
		if id := n.UserID(key); id != "" {
			return id, nil
		}
		return "", errors.New("want a user name")
	}
	if key == "" {
		return "", errors.New("want the id of an account")
	}
	return key, nil
}
