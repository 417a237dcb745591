package edge

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/jwks"
	"github.com/shiplane/limits/gateway/internal/respond"
	"github.com/shiplane/limits/gateway/internal/userfield"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limitmeter"
	"github.com/shiplane/limits/libs/ruleset"
)

// TestEachReasonHasItsAnswer: what a caller is told of who it is.
func TestEachReasonHasItsAnswer(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		code   string
		detail string
	}{
		{identity.ErrUnknownKey, 401, CodeUnknownKey, "unknown"},
		{identity.ErrTwoBearers, 401, CodeUnknownKey, "more than once"},
		{identity.ErrKeyRequired, 401, CodeKeyRequired, "required"},
		{identity.ErrBadAccount, 401, CodeBadAccount, "cannot be read"},
		{fmt.Errorf("%w: it has expired", jwks.ErrInvalid), 401, respond.CodeInvalidToken, "The token is not valid: it has expired."},
		{jwks.ErrNoKeys, 503, CodeNoTokenKeys, "at the moment"},
		{errors.New("another"), 401, CodeUnknownKey, "unknown"},
	} {
		why := unidentified(c.err)
		if p := why.problem; p.Status != c.status || p.Code != c.code || !strings.Contains(p.Detail, c.detail) || (p.RetryAfter > 0) != (c.status == 503) {
			t.Errorf("%v: %+v", c.err, p)
		}
		if why.verdict != limitmeter.VerdictUnauthorized || why.by != limitmeter.ByIdentity {
			t.Errorf("%v: counted as %s by %s", c.err, why.verdict, why.by)
		}
	}
	if unidentified(nil) != nil {
		t.Error("nobody is refused for nothing")
	}
	why := unreadable(&userfield.Refusal{Code: userfield.CodeUserMissing, Detail: "none"})
	if p := why.problem; p.Status != 400 || p.Code != userfield.CodeUserMissing || p.Detail != "none" {
		t.Errorf("%+v", p)
	}
	if p := unreadable(&userfield.Refusal{Code: userfield.CodeBodyTimeout}).problem; p.Status != 408 || p.Code != "body_timeout" {
		t.Errorf("a body that stops coming: %+v", p)
	}
}

// TestUnknownPlansAreLoggedOnceAndBounded: they may be named by tokens, as many as
// these like.
func TestUnknownPlansAreLoggedOnceAndBounded(t *testing.T) {
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	var plans planLog
	for range 2 {
		for i := range 2 * plansLogged {
			plans.unknown(log, fmt.Sprint("plan-", i))
		}
	}
	if n := strings.Count(text.String(), "\n"); n != plansLogged {
		t.Errorf("%d lines, want %d", n, plansLogged)
	}
}

// TestPriceOfARequest: free ones cost nothing, refused ones at least 1, whatever the
// rule counts.
func TestPriceOfARequest(t *testing.T) {
	bucket, window := &limit.Rule{Algorithm: limit.TokenBucket}, &limit.Rule{Algorithm: limit.FixedWindow, Counts: limit.CountRequests}
	met := func(cost int64) []limit.Charge {
		return []limit.Charge{{Rule: bucket, Cost: bucket.Charge(cost)}, {Rule: window, Cost: window.Charge(cost)}}
	}
	request := func(method string, header ...string) *http.Request {
		r := httptest.NewRequest(method, "/", nil)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r
	}
	named := func(method string, header ...string) *http.Request {
		r := request(method, header...)
		r.URL.RawQuery = "Name=bob"
		return r
	}
	preflight := []string{"Origin", "https://a.example", "Access-Control-Request-Method", "PUT"}
	for _, c := range []struct {
		name    string
		charge  Charge
		request *http.Request
		user    string // the route's user_field
		want    [2]int64
	}{
		{"GET", Charge{}, request("GET"), "", [2]int64{10, 1}},
		{"GET with a preflight's fields", Charge{}, request("GET", preflight...), "", [2]int64{10, 1}},
		{"HEAD", Charge{}, request("HEAD"), "", [2]int64{0, 0}},
		{"HEAD for another method", Charge{}, request("HEAD", "X-Method-Override", "PUT"), "", [2]int64{10, 1}},
		{"HEAD for another method with underscores", Charge{}, request("HEAD", "X_HTTP_Method_Override", "PUT"), "", [2]int64{10, 1}},
		{"preflight for another method with an underscore", Charge{}, request("OPTIONS", append([]string{"x-method_override", "PUT"}, preflight...)...), "", [2]int64{10, 1}},
		{"HEAD asked", Charge{Head: true}, request("HEAD"), "", [2]int64{10, 1}},
		{"OPTIONS", Charge{Head: true, Preflight: true}, request("OPTIONS"), "", [2]int64{0, 0}},
		{"OPTIONS asked", Charge{Options: true}, request("OPTIONS"), "", [2]int64{10, 1}},
		{"preflight", Charge{Options: true}, request("OPTIONS", preflight...), "", [2]int64{0, 0}},
		{"preflight asked", Charge{Preflight: true}, request("OPTIONS", preflight...), "", [2]int64{10, 1}},
		{"TRACE", Charge{}, request("TRACE"), "", [2]int64{10, 1}},
		{"HEAD of a login", Charge{}, request("HEAD"), "name", [2]int64{0, 0}},
		{"HEAD of a login that names a user", Charge{}, named("HEAD"), "name", [2]int64{10, 1}},
		{"preflight of a login that names a user", Charge{}, named("OPTIONS", preflight...), "name", [2]int64{10, 1}},
		{"HEAD of a login with a body", Charge{}, httptest.NewRequest(http.MethodHead, "/", strings.NewReader("name=a")), "name", [2]int64{10, 1}},
	} {
		charges := met(10)
		if c.charge.Price(c.request, &ruleset.Route{UserField: c.user}, charges); charges[0].Cost != c.want[0] || charges[1].Cost != c.want[1] {
			t.Errorf("%s: charged %d and %d, want %v", c.name, charges[0].Cost, charges[1].Cost, c.want)
		}
	}
	for cost, want := range map[int64][2]int64{0: {1, 1}, 1: {1, 1}, 10: {10, 1}} {
		charges := met(cost)
		if PriceRefused(cost, charges); charges[0].Cost != want[0] || charges[1].Cost != want[1] {
			t.Errorf("refused at cost %d: charged %d and %d, want %v", cost, charges[0].Cost, charges[1].Cost, want)
		}
	}
}
