package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/meter"
	"github.com/shiplane/limits/gateway/internal/respond"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/telemetry"
)

const rules = `
plans: [{id: free}]
routes:
  - {id: login, match: "POST /v1/login", user_field: username}
rules:
  - {id: free-global, plan: free, identity: api_key, algorithm: token_bucket, rate: 10/s, burst: 20}
  - {id: login-ip, route: login, identity: ip, algorithm: sliding_log, limit: 5, window: 1m, fail_mode: closed}
`

// outage is a limiter whose store does not answer.
type outage struct{ cause error }

func (o outage) Check(_ context.Context, request *limit.Request, d *limit.Decision) {
	*d = limit.Decision{Verdict: limit.Allowed, DecidedBy: limit.ByFallback, Cause: o.cause, Refused: -1}
	for i, c := range request.Charges {
		out := limit.Outcome{Rule: c.Rule, Limit: c.Limit, Cost: c.Cost, DecidedBy: limit.ByFallback}
		if c.Rule.FailMode == limit.FailClosed {
			out.DecidedBy, out.Short = limit.ByFailClosed, true
			d.Verdict, d.DecidedBy, d.Refused = limit.Unavailable, limit.ByFailClosed, i
		}
		d.Outcomes = append(d.Outcomes, out)
	}
}

func newHandler(t *testing.T, mode Mode, limiter Checker, upstream http.HandlerFunc) http.Handler {
	t.Helper()
	live, err := ruleset.OpenBytes("test", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := telemetry.New("test")
	if err != nil {
		t.Fatal(err)
	}
	zero := func() int64 { return 0 }
	m, err := meter.New(metrics.Provider(), zero, zero)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		Rules: live, Now: time.Now, Limiter: limiter, Identity: &identity.Identifier{}, Upstream: upstream,
		Answers: &respond.Writer{},
		Meter:   m, Logger: slog.New(slog.DiscardHandler), Mode: mode, BodyMax: 1 << 10,
	})
}

func login(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/login", body)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// TestClosedRuleAnswers503WithoutItsCounter: with the code of the failure, and the
// upstream never hears of it; a rule that fails open lets the rest pass.
func TestClosedRuleAnswers503WithoutItsCounter(t *testing.T) {
	for _, c := range []struct {
		cause error
		code  string
	}{
		{fmt.Errorf("shard 7: %w", store.ErrTimeout), httplimit.CodeStoreTimeout},
		{fmt.Errorf("shard 7: %w", store.ErrUnavailable), httplimit.CodeStoreUnavailable},
	} {
		sent := 0
		h := newHandler(t, Enforce, outage{c.cause}, func(http.ResponseWriter, *http.Request) { sent++ })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, login(strings.NewReader(`{"username":"ada"}`)))
		var p httplimit.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		if w.Code != 503 || p.Code != c.code || w.Header().Get("Retry-After") != "1" || sent != 0 {
			t.Errorf("%v: got %d %+v, Retry-After %q, %d requests sent on", c.cause, w.Code, p, w.Header().Get("Retry-After"), sent)
		}
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/labels", nil))
		if sent != 1 {
			t.Errorf("%v: a request of open rules was not sent on", c.cause)
		}
	}
}

// admit is a limiter that admits everything and says when it was asked.
type admit struct{ asked func() }

func (a admit) Check(_ context.Context, _ *limit.Request, d *limit.Decision) {
	*d = limit.Decision{Verdict: limit.Allowed, DecidedBy: limit.ByStore, Refused: -1}
	a.asked()
}

// untouched is a body that must not have been read yet.
type untouched struct {
	io.Reader
	read bool
}

func (u *untouched) Read(p []byte) (int, error) { u.read = true; return u.Reader.Read(p) }

// TestLimiterDecidesBeforeTheBodyIsRead: but for the bounded read of a login.
func TestLimiterDecidesBeforeTheBodyIsRead(t *testing.T) {
	body := &untouched{Reader: strings.NewReader("data")}
	var order []string
	h := newHandler(t, Enforce, admit{func() { order = append(order, fmt.Sprintf("asked, read %v", body.read)) }},
		func(_ http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			order = append(order, fmt.Sprintf("sent %s %v", got, err))
		})
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/labels", body))
	if got, want := strings.Join(order, "; "), "asked, read false; sent data <nil>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// deadlines records the read deadlines that a handler sets.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error { d.set = append(d.set, at); return nil }

// TestSlowLoginBodyIsNotWaitedForLong: while the gateway itself reads, and the
// upstream's reading is not bounded.
func TestSlowLoginBodyIsNotWaitedForLong(t *testing.T) {
	h := newHandler(t, Enforce, admit{func() {}}, func(http.ResponseWriter, *http.Request) {})
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, login(bytes.NewReader([]byte(`{"username":"ada"}`))))
	if len(w.set) != 2 || w.set[0].IsZero() || !w.set[1].IsZero() {
		t.Errorf("read deadlines set: %v", w.set)
	}
}
