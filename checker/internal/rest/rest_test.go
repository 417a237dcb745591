package rest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shiplane/limits/checker/internal/rest"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// service answers every check alike, and notes what it was asked.
type service struct {
	checkv1.CheckServiceHandler
	answer *checkv1.CheckResponse
	err    error
	asked  *checkv1.CheckRequest
}

func (s *service) Check(_ context.Context, q *checkv1.CheckRequest) (*checkv1.CheckResponse, error) {
	s.asked = q
	return s.answer, s.err
}

func post(s *service, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, rest.Path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	w := httptest.NewRecorder()
	rest.New(s).ServeHTTP(w, r)
	return w
}

func outcome(rule string, remaining int64, reset time.Duration) *checkv1.Outcome {
	return &checkv1.Outcome{Rule: rule, Key: "acct_7Q2", Cost: 1, Remaining: &remaining, Reset_: durationpb.New(reset)}
}

// The documented request is read, and its answer written, as the documentation shows
// them.
func TestExampleByteForByte(t *testing.T) {
	s := &service{answer: &checkv1.CheckResponse{
		Verdict: checkv1.Verdict_VERDICT_ALLOWED,
		Entries: []*checkv1.Outcome{outcome("growth-global", 141, 590*time.Millisecond), outcome("labels-route", 12, 880*time.Millisecond-time.Microsecond)},
	}}
	w := post(s, `{"domain": "public-api", "entries": [{"rule": "growth-global", "key": "acct_7Q2", "cost": 1}, {"rule": "labels-route", "key": "acct_7Q2"}]}`)
	const want = `{"verdict":"allow","entries":[{"rule":"growth-global","remaining":141,"reset_ms":590},{"rule":"labels-route","remaining":12,"reset_ms":880}]}` + "\n"
	if got := w.Body.String(); got != want || w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v %s", w.Code, w.Header(), got)
	}
	asked := &checkv1.CheckRequest{Domain: "public-api", Entries: []*checkv1.Entry{
		{Rule: "growth-global", Key: "acct_7Q2", Cost: proto.Int64(1)}, {Rule: "labels-route", Key: "acct_7Q2"},
	}}
	if diff := cmp.Diff(asked, s.asked, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +asked):\n%s", diff)
	}
	s.answer = &checkv1.CheckResponse{Verdict: checkv1.Verdict_VERDICT_DENIED, Entries: []*checkv1.Outcome{{Rule: "a"}}, RetryAfter: durationpb.New(1500 * time.Microsecond)}
	if got := post(s, `{}`).Body.String(); got != `{"verdict":"deny","entries":[{"rule":"a"}],"retry_ms":2}`+"\n" {
		t.Errorf("a refusal: %s", got)
	}
}

// What cannot be read is not asked, and told with its status.
func TestBodiesThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		body   string
		status int
		text   string
	}{
		{``, 400, "the body is no check"},
		{`[]`, 400, "the body is no check"},
		{`{} {}`, 400, "something follows the request"},
		{`{"entries": [{"cost": 1.5}]}`, 400, "the body is no check"},
		{`{"entries": [{"cost": 99999999999999999999}]}`, 400, "the body is no check"},
		{`{"domain": "a", "nonsense": 1}`, 400, `unknown field \"nonsense\"`},
		{`{"domain": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "longer than"},
	} {
		s := &service{}
		w := post(s, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) || w.Header().Get("Content-Type") != "application/problem+json" || s.asked != nil {
			t.Errorf("%.40s: %d %s", c.body, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodPost, rest.Path, strings.NewReader("domain=a"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	rest.New(&service{}).ServeHTTP(w, r)
	if w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a form: %d", w.Code)
	}
	w = httptest.NewRecorder()
	rest.New(&service{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, rest.Path, nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
		t.Errorf("GET: %d %v", w.Code, w.Header())
	}
}

// Every error of the service has its status and code; what was decided stands beside
// the problem, and what is ours to mend is not told.
func TestErrorsHaveTheirStatus(t *testing.T) {
	decided := func(code connect.Code) error {
		failure := connect.NewError(code, errors.New("why"))
		detail, err := connect.NewErrorDetail(&checkv1.CheckResponse{Verdict: checkv1.Verdict_VERDICT_UNAVAILABLE, Entries: []*checkv1.Outcome{{Rule: "login-user"}}})
		if err != nil {
			t.Fatal(err)
		}
		failure.AddDetail(detail)
		return failure
	}
	const whole = `"verdict":"deny","entries":[{"rule":"login-user"}]`
	for _, c := range []struct {
		err    error
		status int
		texts  []string
	}{
		{decided(connect.CodeDeadlineExceeded), 504, []string{`"code":"store_timeout"`, whole}},
		{decided(connect.CodeUnavailable), 503, []string{`"code":"store_unavailable"`, whole}},
		{connect.NewError(connect.CodeUnavailable, errors.New("why")), 503, []string{`"code":"rules_unavailable"`, `"detail":"why"`}},
		{connect.NewError(connect.CodeNotFound, errors.New("why")), 404, []string{`"code":"not_found"`, `"detail":"why"`}},
		{connect.NewError(connect.CodeInvalidArgument, errors.New("why")), 400, []string{`"code":"bad_request"`, `"detail":"why"`}},
		{connect.NewError(connect.CodeUnauthenticated, errors.New("why")), 401, []string{`"code":"unauthorized"`, `"detail":"why"`}},
		{connect.NewError(connect.CodeInternal, errors.New("secret")), 500, []string{`"code":"internal"`}},
		{errors.New("secret"), 500, []string{`"code":"internal"`}},
	} {
		w := post(&service{err: c.err}, `{}`)
		for _, text := range c.texts {
			if w.Code != c.status || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%v: %d %s: want %d with %s", c.err, w.Code, w.Body, c.status, text)
			}
		}
		if w.Header().Get("Content-Type") != "application/problem+json" || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%v: %v %s", c.err, w.Header(), w.Body)
		}
	}
}

// No body makes the handler panic, answer with a 5xx, or ask for what was not said.
func FuzzBody(f *testing.F) {
	f.Add(`{"domain": "public-api", "entries": [{"rule": "a", "key": "b", "cost": 1}]}`)
	f.Add(`{"entries": [null]}`)
	f.Fuzz(func(t *testing.T, body string) {
		s := &service{answer: &checkv1.CheckResponse{}}
		w := post(s, body)
		if asked := w.Code == http.StatusOK; w.Code >= 500 || asked != (s.asked != nil) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
