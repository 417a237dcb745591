package ruleset

import (
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/limit"
)

// FuzzParse: no text makes the reader panic, a fault is always said, and what
// compiles can be matched and compiles again.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/faults/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range append(seeds, "testdata/public-api.yaml") {
		text, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, faults := load(text, nil)
		if (set == nil) != (len(faults) > 0) {
			t.Fatalf("ruleset %v, faults %v; want one of them", set, faults)
		}
		if set == nil {
			if faults.Error() == "" {
				t.Fatal("faults without a word")
			}
			return
		}
		c := &Caller{Plan: PlanAnonymous}
		if c.IP, err = limit.NewSubject(set.Domain(), limit.IP, set.Naming().AddressID(netip.MustParseAddr("192.0.2.1"))); err != nil {
			t.Fatal(err)
		}
		var req limit.Request
		for _, route := range append(set.Routes(), nil) {
			set.Match(launch, route, c, &req)
			for _, charge := range req.Charges {
				if charge.Cost > charge.Limit.Size() || charge.Rule.Kind != limit.IP {
					t.Fatalf("charge %+v can never pass", charge)
				}
			}
		}
		if again, faults := load(text, set); again != set || len(faults) > 0 {
			t.Fatalf("the same text again is a change; faults %v", faults)
		}
	})
}

// FuzzPatterns: any two patterns register or are refused with words; what is
// registered matches without a panic.
func FuzzPatterns(f *testing.F) {
	for _, seed := range [][3]string{
		{"GET /v1/labels", "POST /v1/labels", "/v1/labels"}, {"/v1/{kind}/labels", "/v1/bulk/{kind}", "/v1/bulk/labels"},
		{"/a/{rest...}", "/a/{$}", "/a/"}, {"example.com/", "/", "//x/%2e%2e"}, {"/{", "/a/{b}/{b}", "/"}, {"/%zz", "/%2f", "/%2F"}, {"G T /", "//", "*"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, first, second, path string) {
		mux := http.NewServeMux()
		for _, pattern := range []string{first, second} {
			if err := register(mux, pattern); err != nil && (err.Error() == "" || strings.Contains(err.Error(), ".go:")) {
				t.Fatalf("pattern %q: error %q, want what is wrong", pattern, err)
			}
		}
		if u, err := url.ParseRequestURI(path); err == nil {
			mux.Handler(canonical(&http.Request{Method: "GET", Host: "example.com", URL: u}))
		}
	})
}

// FuzzPaths: a raw path is of the route class of the path that is sent on, the
// clean path is clean, and no dot segment or empty segment is left in it.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{
		"/v1/bulk", "//v1//bulk", "/v1/./bulk", "/v1/x/../bulk", "/v1/%62ulk", "/v1/%2e/bulk", "/%2e%2e/v1/bulk", "/v1%2fbulk", "/v1/bulk/",
		"/v1/bulk/..", "/v1/bulk/.", "/", "", "*", "/v1/bulk/%41%zz", "/v1/bulk;a=b", "/v1/bulk?x=/../", "/%252e/", "/a%2F..%2fb", "/\u00fc/%C3%BC", "http://h/v1//bulk",
	} {
		f.Add(seed)
	}
	set := publicAPI(f)
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return
		}
		path, rawPath := CleanPath(u)
		sent := &url.URL{Path: path, RawPath: rawPath}
		if again, rawAgain := CleanPath(sent); again != path || rawAgain != rawPath {
			t.Fatalf("%q: clean is %q %q, cleaned again %q %q", raw, path, rawPath, again, rawAgain)
		}
		escaped := sent.EscapedPath()
		for segment := range strings.SplitSeq(strings.Trim(escaped, "/"), "/") {
			if segment == "." || segment == ".." || segment == "" && escaped != "/" || strings.Contains(escaped, "//") {
				t.Fatalf("%q: %q is not clean", raw, escaped)
			}
		}
		for _, method := range []string{"GET", "POST"} {
			was := set.Route(&http.Request{Method: method, Host: "example.com", URL: u})
			is := set.Route(&http.Request{Method: method, Host: "example.com", URL: sent})
			if was != is {
				t.Fatalf("%s %q: route %q, but %q is sent, of route %q", method, raw, was.ID, escaped, is.ID)
			}
		}
	})
}
