package ruleset

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/shiplane/limits/libs/limit"
)

// siteBits is the part of an IPv6 address that one caller is counted by: a
// subscriber is given at least a /64, and can use every address of it.
const siteBits = 64

// AddressID returns the id of the subject that an address belongs to: an IPv4
// address as it is ("192.0.2.1"), one mapped into IPv6 as IPv4, and of an IPv6
// address its /64 ("2001:db8:0:1::/64"), without zone. It is "" for the zero
// Addr.
func AddressID(address netip.Addr) string {
	address = address.Unmap()
	switch {
	case !address.IsValid():
		return ""
	case address.Is4():
		return address.String()
	}
	return netip.PrefixFrom(address.WithZone(""), siteBits).Masked().String()
}

// UserID returns the id of the subject that a user name belongs to, the same
// for all spellings that people take for one: white space around it trimmed,
// case folded, in Unicode's normal form C. It is "" for a name of white space.
func UserID(name string) string {
	// Some letters fold to what is not in normal form, or fold only when
	// decomposed (Unicode 3.13, D145), and some spaces appear by normalising.
	folded := cases.Fold().String(norm.NFD.String(name))
	return strings.TrimSpace(norm.NFC.String(folded))
}

// identityID returns the id of the subject that an override's key means. The
// error says what is wanted.
func identityID(kind limit.Kind, key string) (string, error) {
	switch kind {
	case limit.IP:
		if prefix, err := netip.ParsePrefix(key); err == nil && prefix == prefix.Masked() && AddressID(prefix.Addr()) == prefix.String() {
			return prefix.String(), nil
		}
		address, err := netip.ParseAddr(key)
		if err != nil {
			return "", errors.New("want an IPv4 or IPv6 address, or the /64 of an IPv6 address")
		}
		return AddressID(address), nil
	case limit.User:
		if id := UserID(key); id != "" {
			return id, nil
		}
		return "", errors.New("want a user name")
	}
	if key == "" {
		return "", errors.New("want the id of an account")
	}
	return key, nil
}
