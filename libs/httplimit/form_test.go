package httplimit

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

func answered(p Problem, contentType string, denied *Body) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	p.Answer(w, r, denied)
	return w.Result()
}

// TestEachCallerGetsItsForm: gRPC a status without a body, everybody else a problem.
func TestEachCallerGetsItsForm(t *testing.T) {
	denied := Problem{Status: 429, Code: CodeRateLimited, Title: "Used up", Detail: "100 % of \"a\"\nis used up.", RetryAfter: 7}
	for contentType, want := range map[string]string{
		"application/grpc": "application/grpc", "application/grpc+proto": "application/grpc+proto", "Application/GRPC; charset=x": "application/grpc",
		"application/grpc-web+json": "application/grpc-web+json", "application/grpc-web-text": "application/grpc-web-text",
		"application/grpcx": "", "application/grpc+a b": "", "application/json": "", "": "", "application/grpc+": "",
	} {
		a := answered(denied, contentType, nil)
		if want == "" {
			if a.StatusCode != 429 || a.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%q: %s %v", contentType, a.Status, a.Header)
			}
			continue
		}
		message, err := url.PathUnescape(a.Header.Get("Grpc-Message"))
		if a.StatusCode != 200 || a.Header.Get("Content-Type") != want || a.Header.Get("Grpc-Status") != "8" || err != nil || message != denied.Detail || a.ContentLength > 0 {
			t.Errorf("%q: %s %v, message %q", contentType, a.Status, a.Header, message)
		}
		packed, err := base64.RawStdEncoding.DecodeString(a.Header.Get("Grpc-Status-Details-Bin"))
		var status statuspb.Status
		if err != nil || proto.Unmarshal(packed, &status) != nil || len(status.GetDetails()) != 2 {
			t.Fatalf("%q: details %v, %v", contentType, &status, err)
		}
		var info errdetails.ErrorInfo
		var retry errdetails.RetryInfo
		if status.GetDetails()[0].UnmarshalTo(&info) != nil || info.GetReason() != "RATE_LIMITED" ||
			status.GetDetails()[1].UnmarshalTo(&retry) != nil || retry.GetRetryDelay().AsDuration() != 7*time.Second {
			t.Errorf("%q: details %v %v", contentType, &info, &retry)
		}
	}
	for status, code := range map[int]string{408: "4", 400: "3", 401: "16", 405: "12", 500: "13", 502: "14", 503: "14", 504: "4", 418: "13"} {
		if got := answered(NewProblem(status, "a", ""), "application/grpc", nil).Header.Get("Grpc-Status"); got != code {
			t.Errorf("%d is gRPC's %s, want %s", status, got, code)
		}
	}
}

// TestConnectCallsGetConnectsErrors: who says that a call is Connect's gets the error of
// the protocol; the same JSON without that is anybody's.
func TestConnectCallsGetConnectsErrors(t *testing.T) {
	denied := Problem{Status: 429, Code: CodeRateLimited, Title: "Used up", Detail: "It is used up.", RetryAfter: 7}
	answer := func(p Problem, method, path, contentType, version string) (*http.Response, string) {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Content-Type", contentType)
		if version != "" {
			r.Header.Set("Connect-Protocol-Version", version)
		}
		w := httptest.NewRecorder()
		p.Answer(w, r, nil)
		return w.Result(), w.Body.String()
	}
	const said = `"code":"resource_exhausted","message":"It is used up.","details":[{"type":"google.rpc.ErrorInfo"`
	for _, c := range []struct {
		method, path, contentType, version string
		status                             int
		media, body                        string
	}{
		{"POST", "/a.B/C", "application/json", "1", 429, "application/json", said},
		{"POST", "/a.B/C", "application/proto", "1", 429, "application/json", said},
		{"GET", "/a.B/C?connect=v1&encoding=json", "", "", 429, "application/json", said},
		{"POST", "/a.B/C", "application/connect+proto", "1", 200, "application/connect+proto", `{"error":{` + said},
		{"POST", "/a.B/C", "application/connect+a b", "1", 429, "application/problem+json", `"code":"rate_limited"`},
		{"POST", "/a.B/C", "application/json", "", 429, "application/problem+json", `"code":"rate_limited"`},
		{"GET", "/a.B/C", "", "", 429, "application/problem+json", `"code":"rate_limited"`},
	} {
		a, body := answer(denied, c.method, c.path, c.contentType, c.version)
		if a.StatusCode != c.status || a.Header.Get("Content-Type") != c.media || !strings.Contains(body, c.body) || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s of %q: %s %v %s", c.method, c.path, c.contentType, a.Status, a.Header, body)
		}
	}
	for status, want := range map[int]int{400: 400, 401: 401, 405: 501, 408: 504, 500: 500, 502: 503, 503: 503, 504: 504} {
		if a, body := answer(NewProblem(status, "a", ""), "POST", "/a.B/C", "application/json", "1"); a.StatusCode != want {
			t.Errorf("%d is %s for a call of Connect, want %d: %s", status, a.Status, want, body)
		}
	}
}

// TestBodyIsTriedBeforeItIsUsed: a template that fails for any refusal, or breaks the
// promise of its type, is an error at the start.
func TestBodyIsTriedBeforeItIsUsed(t *testing.T) {
	for _, c := range []struct{ text, contentType, want string }{
		{`{{.Detail`, "text/plain", "cannot be read"},
		{`{{.Colour}}`, "text/plain", "fails for code"},
		{`{{if not .RetryAfter}}{{.Never}}{{end}}`, "text/plain", `fails for code "cost_above_limit"`},
		{`{{index .Rules 1}}`, "text/plain", "fails for code"},
		{`{"why": "{{.Detail}}"}`, "application/json", "no valid JSON"},
		{`{"wait": {{if .RetryAfter}}{{.RetryAfter}}{{end}}}`, "application/problem+json", "no valid JSON"},
		{`x`, "json", "content type"}, {`x`, "", "content type"},
		{strings.Repeat("x", BodyMax+1), "text/plain", "at most"},
		{`{{range .Rules}}` + strings.Repeat("x", BodyMax/2+1) + `{{end}}`, "text/plain", "too much"},
	} {
		if _, err := ParseBody(c.text, c.contentType); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s as %s: %v, want %s", c.text, c.contentType, err, c.want)
		}
	}
}

// TestBodySpeaksForA429Alone: with its fields, escaped as its type needs.
func TestBodySpeaksForA429Alone(t *testing.T) {
	for _, c := range []struct{ text, contentType, want string }{
		{`{"code": {{json .Code}}, "rules": {{json .Rules}}, "wait": {{.RetryAfter}}, "why": {{json .Detail}}}`, "application/json",
			`{"code": "rate_limited", "rules": ["a","b"], "wait": 7, "why": "\"a\" \u003c b"}`},
		{`<p title="{{.Code}}">{{.Detail}}</p>`, "text/html; charset=utf-8", `<p title="rate_limited">&#34;a&#34; &lt; b</p>`},
		{`{{.Status}} {{.Title}}: {{.Detail}}`, "text/plain", `429 T: "a" < b`},
	} {
		body, err := ParseBody(c.text, c.contentType)
		if err != nil {
			t.Fatal(err)
		}
		p := Problem{Status: 429, Title: "T", Code: CodeRateLimited, Detail: `"a" < b`, Violated: []string{"a", "b"}, RetryAfter: 7}
		w := httptest.NewRecorder()
		p.Answer(w, httptest.NewRequest(http.MethodGet, "/", nil), body)
		if w.Code != 429 || w.Body.String() != c.want || w.Header().Get("Content-Type") != c.contentType {
			t.Errorf("%s: %d %v\n%s\nwant %s", c.contentType, w.Code, w.Header(), w.Body, c.want)
		}
		p.Status = 503
		if a := answered(p, "", body); a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("a 503 is %s", a.Header.Get("Content-Type"))
		}
	}
}

// TestFieldsCanBeReadByWhoMayReadTheResponse: and are not named to others.
func TestFieldsCanBeReadByWhoMayReadTheResponse(t *testing.T) {
	f := Fields{Policy: "p", State: "s", RetryAfter: "7", XReset: "1"}
	open, closed := http.Header{"Access-Control-Allow-Origin": {"*"}, "Access-Control-Expose-Headers": {"X-Total"}}, http.Header{}
	f.Set(open)
	f.Set(closed)
	if got := strings.Join(open["Access-Control-Expose-Headers"], "|"); got != "X-Total|Ratelimit-Policy, Ratelimit, Retry-After, X-Ratelimit-Reset" {
		t.Errorf("exposed: %s", got)
	}
	if got := closed["Access-Control-Expose-Headers"]; got != nil {
		t.Errorf("exposed to nobody: %s", got)
	}
}
