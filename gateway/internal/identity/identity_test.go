package identity

import (
	"errors"
	"net/http"
	"net/netip"
	"testing"

	"github.com/shiplane/limits/gateway/internal/keys"
)

func knownKeys(t *testing.T) *keys.Live {
	t.Helper()
	live, err := keys.OpenBytes("keys", []byte(
		"- {hash: \""+keys.Hash("ours")+"\", account: acct_1, plan: free}\n"+
			"- {hash: \""+keys.Hash("other")+"\", account: acct_2, plan: free}\n"),
		func() []string { return []string{"free"} })
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// TestOneCredentialDecides: X-Api-Key before Authorization, and neither is both
// ignored and believed.
func TestOneCredentialDecides(t *testing.T) {
	live := knownKeys(t)
	for _, c := range []struct {
		name    string
		header  http.Header
		account string // of a gateway that requires no key
		err     error
		require error // of one that does; nil if the same
	}{
		{"nothing", http.Header{}, "", nil, ErrKeyRequired},
		{"our key", http.Header{"X-Api-Key": {"ours"}}, "acct_1", nil, nil},
		{"unknown key", http.Header{"X-Api-Key": {"theirs"}}, "", ErrUnknownKey, ErrUnknownKey},
		{"empty key", http.Header{"X-Api-Key": {""}}, "", ErrUnknownKey, ErrUnknownKey},
		{"key twice", http.Header{"X-Api-Key": {"ours", "ours"}}, "", ErrUnknownKey, ErrUnknownKey},
		{"odd key", http.Header{"X-Api-Key": {"{acct}: %00 \\"}}, "", ErrUnknownKey, ErrUnknownKey},
		{"our token", http.Header{"Authorization": {"Bearer ours"}}, "acct_1", nil, nil},
		{"our token, other case", http.Header{"Authorization": {"bEARER  ours"}}, "acct_1", nil, nil},
		{"unknown token", http.Header{"Authorization": {"Bearer theirs"}}, "", nil, ErrUnknownKey},
		{"basic", http.Header{"Authorization": {"Basic b3Vycw=="}}, "", nil, ErrKeyRequired},
		{"tokens twice", http.Header{"Authorization": {"Bearer ours", "Bearer ours"}}, "", nil, ErrKeyRequired},
		{"our key, unknown token", http.Header{"X-Api-Key": {"ours"}, "Authorization": {"Bearer theirs"}}, "acct_1", nil, nil},
		{"unknown key, our token", http.Header{"X-Api-Key": {"theirs"}, "Authorization": {"Bearer ours"}}, "", ErrUnknownKey, ErrUnknownKey},
		{"two accounts", http.Header{"X-Api-Key": {"other"}, "Authorization": {"Bearer ours"}}, "acct_2", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, require := range []bool{false, true} {
				want := c.err
				if require {
					want = c.require
				}
				i := Identifier{Keys: live, RequireKey: require}
				key, err := i.Key(c.header)
				if !errors.Is(err, want) {
					t.Errorf("required %v: error is %v, want %v", require, err, want)
				}
				account := ""
				if key != nil {
					account = key.Account
				}
				if want == nil && account != c.account {
					t.Errorf("required %v: account is %q, want %q", require, account, c.account)
				}
			}
		})
	}
}

// TestForwardedForIsBelievedOnlyFromTrustedProxies: a caller chooses what stands
// left of the first hop that is not trusted, and gains nothing by it.
func TestForwardedForIsBelievedOnlyFromTrustedProxies(t *testing.T) {
	i := Identifier{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}}
	for _, c := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"direct", "198.51.100.7:5000", nil, "198.51.100.7"},
		{"direct and spoofed", "198.51.100.7:5000", []string{"203.0.113.1"}, "198.51.100.7"},
		{"v4-mapped", "[::ffff:198.51.100.7]:5000", nil, "198.51.100.7"},
		{"v4-mapped proxy", "[::ffff:10.1.1.1]:5000", []string{"198.51.100.7"}, "198.51.100.7"},
		{"one proxy", "10.1.1.1:5000", []string{"198.51.100.7"}, "198.51.100.7"},
		{"two proxies", "10.1.1.1:5000", []string{"198.51.100.7, 10.2.2.2"}, "198.51.100.7"},
		{"spoofed behind a proxy", "10.1.1.1:5000", []string{"203.0.113.1, 198.51.100.7"}, "198.51.100.7"},
		{"a trusted address spoofed", "10.1.1.1:5000", []string{"10.9.9.9, 198.51.100.7, 10.2.2.2"}, "198.51.100.7"},
		{"two lines", "10.1.1.1:5000", []string{"203.0.113.1", "198.51.100.7 ,10.2.2.2"}, "198.51.100.7"},
		{"with port", "10.1.1.1:5000", []string{"198.51.100.7:1234"}, "198.51.100.7"},
		{"v6 with port", "[2001:db8:1::1]:5000", []string{"[2001:db8::7]:1234"}, "2001:db8::7"},
		{"v6 in brackets", "10.1.1.1:5000", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"zone", "[fe80::1%eth0]:5000", nil, "fe80::1"},
		{"unreadable hop", "10.1.1.1:5000", []string{"198.51.100.7, unknown"}, "10.1.1.1"},
		{"empty hop", "10.1.1.1:5000", []string{"198.51.100.7,"}, "10.1.1.1"},
		{"all trusted", "10.1.1.1:5000", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		{"empty", "10.1.1.1:5000", []string{""}, "10.1.1.1"},
		{"no address", "@", nil, "invalid IP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{"X-Forwarded-For": c.forwarded}
			if got := i.Address(c.remote, h).String(); got != c.want {
				t.Errorf("address is %s, want %s", got, c.want)
			}
		})
	}
}
