package identity

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
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

const (
	stranger = "198.51.100.7:5000"
	proxy    = "10.1.1.1:5000" // trusted
)

var trusted = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}

func request(remote string, h http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remote
	if h != nil {
		r.Header = h
	}
	return r
}

// signed is a verifier of the one token "token", of acct_3; "forged" does not hold.
type signed struct{}

var errForged = errors.New("forged")

func (signed) Verify(_ *http.Request, token string) (account, plan string, ok bool, err error) {
	switch token {
	case "token":
		return "acct_3", "growth", true, nil
	case "planless":
		return "acct_3", "", true, nil
	case "forged":
		return "", "", true, errForged
	}
	return "", "", false, nil
}

// TestOneCredentialDecides: the first source in the stated order, and none is both
// ignored and believed.
func TestOneCredentialDecides(t *testing.T) {
	all := Identifier{
		Keys: knownKeys(t), Tokens: signed{}, Trusted: trusted, DefaultPlan: "starter",
		AccountHeader: "X-Account", PlanHeader: "X-Plan",
	}
	key, bearer, named := "X-Api-Key", "Authorization", "X-Account"
	for _, c := range []struct {
		name    string
		header  http.Header
		want    Account // of a gateway that requires no account, asked by a trusted proxy
		err     error
		require error // of one that does; nil if the same
	}{
		{"nothing", http.Header{}, Account{}, nil, ErrKeyRequired},
		{"our key", http.Header{key: {"ours"}}, Account{"acct_1", "free"}, nil, nil},
		{"unknown key", http.Header{key: {"theirs"}}, Account{}, ErrUnknownKey, nil},
		{"empty key", http.Header{key: {""}}, Account{}, ErrUnknownKey, nil},
		{"key twice", http.Header{key: {"ours", "ours"}}, Account{}, ErrUnknownKey, nil},
		{"key with underscores", http.Header{"X_api_key": {"ours"}}, Account{}, ErrUnknownKey, nil},
		{"key with one underscore", http.Header{"X-Api_key": {"ours"}, bearer: {"Bearer token"}}, Account{}, ErrUnknownKey, nil},
		{"key in two spellings", http.Header{key: {"ours"}, "X_Api_Key": {"other"}}, Account{}, ErrUnknownKey, nil},
		{"odd key", http.Header{key: {"{acct}: %00 \\"}}, Account{}, ErrUnknownKey, nil},
		{"our key as token", http.Header{bearer: {"Bearer ours"}}, Account{"acct_1", "free"}, nil, nil},
		{"our key as token, other case", http.Header{bearer: {"bEARER  ours"}}, Account{"acct_1", "free"}, nil, nil},
		{"our key as token, after a tab", http.Header{bearer: {"Bearer\tours"}}, Account{"acct_1", "free"}, nil, nil},
		{"forged token after a tab and a space", http.Header{bearer: {"Bearer\t forged"}}, Account{}, errForged, nil},
		{"another's token", http.Header{bearer: {"Bearer theirs"}}, Account{}, nil, ErrUnknownKey},
		{"basic", http.Header{bearer: {"Basic b3Vycw=="}}, Account{}, nil, ErrKeyRequired},
		{"tokens twice", http.Header{bearer: {"Bearer ours", "Bearer ours"}}, Account{}, ErrTwoBearers, nil},
		{"basic beside a token", http.Header{bearer: {"Basic b3Vycw==", "Bearer token"}}, Account{}, ErrTwoBearers, nil},
		{"signed token", http.Header{bearer: {"Bearer token"}}, Account{"acct_3", "growth"}, nil, nil},
		{"signed token without plan", http.Header{bearer: {"Bearer planless"}}, Account{"acct_3", "starter"}, nil, nil},
		{"forged token", http.Header{bearer: {"Bearer forged"}}, Account{}, errForged, nil},
		{"account header", http.Header{named: {"acct_4"}, "X-Plan": {"growth"}}, Account{"acct_4", "growth"}, nil, nil},
		{"account header without plan", http.Header{named: {"acct_4"}}, Account{"acct_4", "starter"}, nil, nil},
		{"plan header alone", http.Header{"X-Plan": {"growth"}}, Account{}, nil, ErrKeyRequired},
		{"empty account header", http.Header{named: {""}, "X-Plan": {"growth"}}, Account{}, nil, ErrKeyRequired},
		{"account header twice", http.Header{named: {"acct_4", "acct_5"}}, Account{}, ErrBadAccount, nil},
		{"plan header twice", http.Header{named: {"acct_4"}, "X-Plan": {"free", "growth"}}, Account{}, ErrBadAccount, nil},
		{"odd account header", http.Header{named: {"a b"}}, Account{}, ErrBadAccount, nil},
		{"long account header", http.Header{named: {strings.Repeat("a", 257)}}, Account{}, ErrBadAccount, nil},

		{"our key before a token", http.Header{key: {"ours"}, bearer: {"Bearer token"}}, Account{"acct_1", "free"}, nil, nil},
		{"our key before a forged token", http.Header{key: {"ours"}, bearer: {"Bearer forged"}}, Account{"acct_1", "free"}, nil, nil},
		{"our key before a header", http.Header{key: {"ours"}, named: {"acct_4"}}, Account{"acct_1", "free"}, nil, nil},
		{"an unknown key before all", http.Header{key: {"theirs"}, bearer: {"Bearer ours"}, named: {"acct_4"}}, Account{}, ErrUnknownKey, nil},
		{"two keys", http.Header{key: {"other"}, bearer: {"Bearer ours"}}, Account{"acct_2", "free"}, nil, nil},
		{"a header before a token", http.Header{named: {"acct_4"}, bearer: {"Bearer token"}}, Account{"acct_4", "starter"}, nil, nil},
		{"a bad header before a token", http.Header{named: {"a b"}, bearer: {"Bearer token"}}, Account{}, ErrBadAccount, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, require := range []bool{false, true} {
				want, wantErr := c.want, c.err
				if require && c.require != nil {
					want, wantErr = Account{}, c.require
				}
				i := all
				i.RequireKey = require
				got, err := i.Account(request(proxy, c.header.Clone()))
				if !errors.Is(err, wantErr) || got != want && wantErr == nil {
					t.Errorf("required %v: got %+v, %v; want %+v, %v", require, got, err, want, wantErr)
				}
			}
		})
	}
}

// TestSourceThatIsNotConfiguredIsNotRead: without keys X-Api-Key is the upstream's,
// without tokens a token is, and a header without its flag is nobody's.
func TestSourceThatIsNotConfiguredIsNotRead(t *testing.T) {
	off := Identifier{Trusted: trusted}
	for _, h := range []http.Header{
		{"X-Api-Key": {"ours"}}, {"Authorization": {"Bearer ours"}}, {"Authorization": {"Bearer token"}}, {"Authorization": {"Bearer forged"}},
		{"X-Account": {"acct_4"}}, {"": {"acct_4"}}, {"X_Api_Key": {"ours"}}, {"Authorization": {"Bearer ours", "Bearer ours"}},
	} {
		if got, err := off.Account(request(proxy, h)); got != (Account{}) || err != nil {
			t.Errorf("%v: %+v, %v", h, got, err)
		}
	}
}

// TestStrangersSpoofNothing: of who is no trusted proxy no header about clients is
// read, and those that an upstream may believe are taken out.
func TestStrangersSpoofNothing(t *testing.T) {
	for _, addressHeader := range []string{ForwardedFor, Forwarded, "X-Real-Ip"} {
		i := Identifier{Trusted: trusted, AddressHeader: addressHeader, AccountHeader: "X-Account", PlanHeader: "X-Plan"}
		for _, h := range spoofs {
			r := request(stranger, h.Clone())
			if got := i.Address(r.RemoteAddr, r.Header).String(); got != "198.51.100.7" {
				t.Errorf("%s, %v: address is %s", addressHeader, h, got)
			}
			if got, err := i.Account(r); got != (Account{}) || err != nil {
				t.Errorf("%s, %v: account is %+v, %v", addressHeader, h, got, err)
			}
			i.Clean(r)
			for name := range r.Header {
				dashed := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
				if slices.Contains([]string{"x-account", "x-plan"}, dashed) || addressHeader == "X-Real-Ip" && dashed == "x-real-ip" {
					t.Errorf("%s, %v: %s reaches the upstream", addressHeader, h, name)
				}
			}
		}
	}
	underscored := Identifier{Trusted: trusted, AccountHeader: "X_acct"} // canonical: of X_Acct
	odd := request(stranger, http.Header{
		"X_acct": {"acct_4"}, "X-Acct": {"acct_4"}, "X_forwarded_for": {"203.0.113.1"}, "X-Forwarded-For": {"203.0.113.1"},
		"X-Forwarded-Port": {"1"}, "X-Forwarded-Host": {"a"}, "X-Real-Ip": {"203.0.113.1"}, "X_real_ip": {"203.0.113.1"}, "Forwarded": {"for=203.0.113.1"},
		"Accept": {"*/*"},
	})
	if underscored.Clean(odd); len(odd.Header) != 1 {
		t.Errorf("of a stranger %v reaches the upstream, want Accept alone", odd.Header)
	}
	if len(spoofs) < 40 {
		t.Errorf("%d combinations", len(spoofs))
	}
	believed := request(proxy, http.Header{"X-Account": {"acct_4"}})
	if (&Identifier{Trusted: trusted, AccountHeader: "X-Account"}).Clean(believed); believed.Header.Get("X-Account") == "" {
		t.Error("the header of a trusted proxy does not reach the upstream")
	}
}

// spoofs is what strangers send.
var spoofs = func() (all []http.Header) {
	values := []string{"203.0.113.1", "10.1.1.1", "127.0.0.1", "::1", "[2001:db8:1::1]:80", "::ffff:10.1.1.1", "203.0.113.1, 10.1.1.1", "unknown", "", "_hidden", "10.1.1.1:80", "fe80::1%eth0"}
	for _, v := range values {
		all = append(all,
			http.Header{"X-Forwarded-For": {v}},
			http.Header{"Forwarded": {`for="` + v + `"`}},
			http.Header{"X-Real-Ip": {v}},
			http.Header{"X-Account": {v}, "X-Plan": {"enterprise"}},
		)
	}
	return append(all,
		http.Header{"X_Account": {"acct_1"}}, http.Header{"X_account": {"acct_1"}, "X_Plan": {"enterprise"}}, http.Header{"X_Real_Ip": {"10.1.1.1"}},
		http.Header{"X-Account": {"acct_1", "acct_2"}}, http.Header{"X-Account": {"a b"}}, http.Header{"X-Real-Ip": {"10.1.1.1", "10.1.1.2"}},
		http.Header{"X-Forwarded-For": {"10.1.1.1", "203.0.113.1"}, "Forwarded": {"for=10.1.1.1"}, "X-Real-Ip": {"10.1.1.1"}, "X-Account": {"acct_1"}},
		http.Header{"X-Client-Ip": {"10.1.1.1"}, "True-Client-Ip": {"10.1.1.1"}, "Cf-Connecting-Ip": {"10.1.1.1"}, "Via": {"1.1 10.1.1.1"}},
	)
}()

// TestRightmostUntrustedHopIsTheClient: behind a trusted proxy a caller chooses what
// stands left of the first hop that is not trusted, and gains nothing by it. What
// cannot be read is no address: the proxy stands for its client.
func TestRightmostUntrustedHopIsTheClient(t *testing.T) {
	const client, itself = "198.51.100.7", "10.1.1.1"
	for _, c := range []struct {
		header, remote string
		lines          []string
		want           string
	}{
		{ForwardedFor, stranger, nil, client},
		{ForwardedFor, "[::ffff:198.51.100.7]:5000", nil, client},
		{ForwardedFor, "[::ffff:10.1.1.1]:5000", []string{client}, client},
		{ForwardedFor, proxy, nil, itself},
		{ForwardedFor, proxy, []string{client}, client},
		{ForwardedFor, proxy, []string{"198.51.100.7, 10.2.2.2"}, client},
		{ForwardedFor, proxy, []string{"203.0.113.1, 198.51.100.7"}, client},
		{ForwardedFor, proxy, []string{"10.9.9.9, 198.51.100.7, 10.2.2.2"}, client},
		{ForwardedFor, proxy, []string{"203.0.113.1", "198.51.100.7 ,10.2.2.2"}, client},
		{ForwardedFor, proxy, []string{"::ffff:198.51.100.7"}, client},
		{ForwardedFor, proxy, []string{"198.51.100.7:1234"}, client},
		{ForwardedFor, proxy, []string{"[2001:db8::7]:1234"}, "2001:db8::7"},
		{ForwardedFor, proxy, []string{"[2001:db8::7]"}, "2001:db8::7"},
		{ForwardedFor, proxy, []string{"2001:db8::7"}, "2001:db8::7"},
		{ForwardedFor, proxy, []string{"2001:db8::7, 2001:db8:1::1"}, "2001:db8::7"},
		{ForwardedFor, proxy, []string{"[2001:db8::7"}, itself},
		{ForwardedFor, proxy, []string{"[198.51.100.7]"}, itself},
		{ForwardedFor, proxy, []string{"198.51.100.7, unknown"}, itself},
		{ForwardedFor, proxy, []string{"198.51.100.7,"}, itself},
		{ForwardedFor, proxy, []string{`"198.51.100.7"`}, itself},
		{ForwardedFor, proxy, []string{"198.51.100.07"}, itself},
		{ForwardedFor, proxy, []string{"3325256711"}, itself},
		{ForwardedFor, proxy, []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		{ForwardedFor, proxy, []string{""}, itself},
		{ForwardedFor, "[fe80::1%eth0]:5000", nil, "fe80::1"},
		{ForwardedFor, "@", nil, "invalid IP"},

		{Forwarded, proxy, []string{"for=198.51.100.7"}, client},
		{Forwarded, proxy, []string{"For=198.51.100.7;proto=https;by=10.1.1.1"}, client},
		{Forwarded, proxy, []string{`proto=https; FOR="198.51.100.7:4711"`}, client},
		{Forwarded, proxy, []string{`for="198.51.100.7:_port"`}, client},
		{Forwarded, proxy, []string{`for="[2001:db8::7]:4711"`}, "2001:db8::7"},
		{Forwarded, proxy, []string{`for="[2001:db8::7]"`}, "2001:db8::7"},
		{Forwarded, proxy, []string{"for=203.0.113.1, for=198.51.100.7;by=x, for=10.2.2.2"}, client},
		{Forwarded, proxy, []string{"for=203.0.113.1", "for=198.51.100.7"}, client},
		{Forwarded, proxy, []string{`for=", for=198.51.100.7`}, client},
		{Forwarded, proxy, []string{`for=203.0.113.1, x=", for="198.51.100.7"`}, client},
		{Forwarded, proxy, []string{`x="\", for="198.51.100.7"`}, client},
		{Forwarded, proxy, []string{`host="a,b;for=203.0.113.1";for=198.51.100.7`}, client},
		{Forwarded, proxy, []string{`for=198.51.100.7;for=203.0.113.1`}, itself},
		{Forwarded, proxy, []string{`for="198.51.100.\7"`}, itself},
		{Forwarded, proxy, []string{"for=unknown"}, itself},
		{Forwarded, proxy, []string{"for=_hidden"}, itself},
		{Forwarded, proxy, []string{"for=198.51.100.7, for=_hidden"}, itself},
		{Forwarded, proxy, []string{"proto=https"}, itself},
		{Forwarded, proxy, []string{"198.51.100.7"}, itself},
		{Forwarded, proxy, []string{"for=198.51.100.7,"}, itself},
		{Forwarded, proxy, []string{`for=""`}, itself},
		{Forwarded, proxy, []string{`for=`}, itself},

		{"X-Real-Ip", proxy, []string{client}, client},
		{"X-Real-Ip", proxy, []string{" [2001:db8::7]:80 "}, "2001:db8::7"},
		{"X-Real-Ip", proxy, []string{client, "203.0.113.1"}, itself},
		{"X-Real-Ip", proxy, []string{"203.0.113.1, 198.51.100.7"}, itself},
		{"X-Real-Ip", proxy, []string{"unknown"}, itself},
		{"X-Real-Ip", proxy, nil, itself},
	} {
		i := Identifier{Trusted: trusted, AddressHeader: c.header}
		h := http.Header{}
		if c.lines != nil {
			h[c.header] = c.lines
		}
		for _, other := range []string{ForwardedFor, Forwarded, "X-Real-Ip"} {
			if other != c.header {
				h[other] = []string{"for=203.0.113.9", "203.0.113.9"} // not the one that is believed
			}
		}
		if got := i.Address(c.remote, h).String(); got != c.want {
			t.Errorf("%s %q from %s: address is %s, want %s", c.header, c.lines, c.remote, got, c.want)
		}
	}
}

// FuzzAddress: whatever stands left of what a trusted proxy has added, its client
// is found.
func FuzzAddress(f *testing.F) {
	for _, left := range []string{"", `for="`, `"\`, "for=1.2.3.4, ", ",,;", `x=",`} {
		f.Add(left)
	}
	f.Fuzz(func(t *testing.T, left string) {
		for header, added := range map[string]string{ForwardedFor: "198.51.100.7", Forwarded: `for="198.51.100.7:80";by=10.1.1.1`} {
			i := Identifier{Trusted: trusted, AddressHeader: header}
			h := http.Header{header: {left + ", " + added}}
			if got := i.Address(proxy, h).String(); got != "198.51.100.7" {
				t.Errorf("%s %q: address is %s", header, h[header], got)
			}
		}
	})
}
