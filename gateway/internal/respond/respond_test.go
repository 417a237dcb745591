package respond

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/httplimit"
)

// TestAnswersCanBeReadWhereTheyMay: by scripts of the origins that are named, every
// field that a caller should obey among what they can read.
func TestAnswersCanBeReadWhereTheyMay(t *testing.T) {
	outage := httplimit.NewProblem(http.StatusServiceUnavailable, "away", "")
	outage.RetryAfter = 10
	fields := &httplimit.Fields{Policy: "p", State: "s"}
	for _, c := range []struct {
		origins        []string
		method, origin string
		allowed        string // origin that may read
		credentials    string
	}{
		{nil, "GET", "https://a.example", "", ""},
		{[]string{"https://a.example"}, "GET", "", "", ""},
		{[]string{"https://a.example"}, "GET", "https://a.example", "https://a.example", "true"},
		{[]string{"https://a.example"}, "DELETE", "https://a.example", "https://a.example", "true"},
		{[]string{"https://a.example"}, "GET", "https://a.example.evil", "", ""},
		{[]string{"https://a.example"}, "GET", "null", "", ""},
		{[]string{"*"}, "GET", "https://b.example", "*", ""},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		New(nil, c.origins).Write(w, r, &outage, fields)
		h := w.Header()
		exposed := ""
		if c.allowed != "" {
			exposed = "Ratelimit-Policy, Ratelimit, Retry-After"
		}
		if h.Get("Access-Control-Allow-Origin") != c.allowed || h.Get("Access-Control-Allow-Credentials") != c.credentials || h.Get("Access-Control-Expose-Headers") != exposed {
			t.Errorf("%v, %s from %q: %v", c.origins, c.method, c.origin, h)
		}
		if w.Code != 503 || h.Get("Retry-After") != "10" || h.Get("Ratelimit") != "s" {
			t.Errorf("%v, %s from %q: %d %v", c.origins, c.method, c.origin, w.Code, h)
		}
	}
	if fields.RetryAfter != "" {
		t.Error("the caller's fields were changed")
	}
}

// TestA401SaysHowToDoBetter: and what was wrong with a token.
func TestA401SaysHowToDoBetter(t *testing.T) {
	for code, want := range map[string]string{"unknown_key": `Bearer realm="shiplane"`, CodeInvalidToken: `Bearer realm="shiplane", error="invalid_token"`} {
		w := httptest.NewRecorder()
		p := httplimit.NewProblem(http.StatusUnauthorized, code, "")
		new(Writer).Write(w, httptest.NewRequest(http.MethodGet, "/", nil), &p, nil)
		if got := w.Header().Get("WWW-Authenticate"); got != want || !strings.Contains(w.Body.String(), code) {
			t.Errorf("%s: WWW-Authenticate %s, body %s", code, got, w.Body)
		}
	}
}
