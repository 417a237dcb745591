package ruleset

import (
	"net/http"
	"net/url"
	"testing"
)

// No spelling of a path leads around its route class, and each is sent on in
// the spelling that was counted.
func TestSpellingOfAPathDoesNotChangeItsRoute(t *testing.T) {
	set := publicAPI(t)
	for _, test := range []struct{ method, raw, clean, route string }{
		{"POST", "/v1/bulk", "/v1/bulk", "bulk"},
		{"POST", "//v1//bulk", "/v1/bulk", "bulk"},
		{"POST", "/v1/./bulk", "/v1/bulk", "bulk"},
		{"POST", "/v1/%2e/bulk", "/v1/bulk", "bulk"},
		{"POST", "/x/%2E%2e/v1/bulk", "/v1/bulk", "bulk"},
		{"POST", "/../../v1/bulk", "/v1/bulk", "bulk"},
		{"POST", "/v1/%62ulk", "/v1/bulk", "bulk"},
		{"POST", "/v1/bulk/a%2fb", "/v1/bulk/a%2Fb", "bulk"},
		{"POST", "/v1%2fbulk", "/v1%2Fbulk", ""},
		{"POST", "/v1/bulk/", "/v1/bulk/", "bulk"},
		{"POST", "/v1/bulk/x/..", "/v1/bulk/", "bulk"},
		{"POST", "/v1/bulk/x/", "/v1/bulk/x/", "bulk"},
		{"POST", "/v1/bulk%2F", "/v1/bulk%2F", ""},
		{"POST", "/v1/bulk/x/y", "/v1/bulk/x/y", ""},
		{"post", "/v1/bulk", "/v1/bulk", "bulk"},
		{"Post", "//v1/bulk/", "/v1/bulk/", "bulk"},
		{"POST", "/v1/BULK", "/v1/BULK", ""},
		{"POST", "/v1/%2562ulk", "/v1/%2562ulk", ""},
		{"GET", "/v1/labels?path=//x/../y", "/v1/labels", "labels"},
		{"HEAD", "/v1/labels", "/v1/labels", "labels"},
		{"DELETE", "/v1/labels", "/v1/labels", ""},
		{"OPTIONS", "*", "*", ""},
		{"GET", "http://example.com", "/", ""},
	} {
		t.Run(test.method+" "+test.raw, func(t *testing.T) {
			u, err := url.ParseRequestURI(test.raw)
			if err != nil {
				t.Fatal(err)
			}
			path, raw := CleanPath(u)
			if clean := (&url.URL{Path: path, RawPath: raw}).EscapedPath(); clean != test.clean {
				t.Errorf("clean path %q, want %q", clean, test.clean)
			}
			if route := set.Route(&http.Request{Method: test.method, Host: "example.com", URL: u}); route.ID != test.route {
				t.Errorf("route %q, want %q", route.ID, test.route)
			}
		})
	}
}

// A slash at the end does not lead into a broader class, and is of its own where
// the rules say so.
func TestSlashAtTheEndDoesNotChangeARoute(t *testing.T) {
	set := mustLoad(t, `
routes:
  - {id: all, match: "/v1/"}
  - {id: bulk, match: "POST /v1/bulk", cost: 10}
  - {id: one, match: "/v1/items/{id}"}
  - {id: page, match: ["/v1/page", "/s/{section}/x/"]}
  - {id: below, match: "/v1/page/{$}"}
  - {id: rest, match: "/files/{path...}"}
  - {id: any, match: "/a/{x}"}
  - {id: b, match: "/a/b/"}
rules: [{id: one, scope: all, identity: ip, algorithm: token_bucket, rate: 1/s, burst: 10}]
`)
	for path, want := range map[string]string{
		"/v1/bulk": "bulk", "/v1/bulk/": "bulk", "/v1/bulk/x": "all", "/v1/": "all", "/v1": "all", "/v1/items/7/": "one", "/v1/items/7/8/": "all",
		"/v1/page": "page", "/v1/page/": "below", "/s/y/x/": "page", "/s/y/x": "page", "/files/a/": "rest", "/a/b/": "b", "/a/b": "any", "/a/c/": "any", "/": "", "/none/": "",
	} {
		if route := set.Route(&http.Request{Method: "POST", URL: &url.URL{Path: path}}); route.ID != want {
			t.Errorf("%s is of route %q, want %q", path, route.ID, want)
		}
	}
}

// A host is the same in any case, with its port, and with the dot that ends it.
func TestSpellingOfAHostDoesNotChangeItsRoute(t *testing.T) {
	set := mustLoad(t, `
routes: [{id: here, match: "api.example.com/v1/", cost: 5}, {id: tree, match: "/tree/"}]
rules: [{id: one, scope: all, identity: ip, algorithm: token_bucket, rate: 1/s, burst: 5}]
`)
	for host, want := range map[string]string{
		"api.example.com": "here", "API.Example.com": "here", "api.example.com:8080": "here", "api.example.com.": "here", "Api.example.com.:80": "here",
		"example.com": "", "[::1]:80": "", "": "",
	} {
		if route := set.Route(&http.Request{Method: "GET", Host: host, URL: &url.URL{Path: "/v1/x"}}); route.ID != want {
			t.Errorf("host %q: route %q, want %q", host, route.ID, want)
		}
	}
	if route := set.Route(&http.Request{Method: "GET", URL: &url.URL{Path: "/tree"}}); route.ID != "tree" {
		t.Errorf("/tree is of route %q, want that of /tree/", route.ID)
	}
}

// A request of no class costs 1.
func TestRequestOfNoClassCostsOne(t *testing.T) {
	if route := publicAPI(t).Route(&http.Request{Method: "GET", URL: &url.URL{Path: "/none"}}); route.ID != "" || route.Cost != 1 {
		t.Errorf("route %+v, want no id and cost 1", route)
	}
}
