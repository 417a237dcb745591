package rest

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/admin"
	"github.com/shiplane/limits/rules/internal/auth"
	"github.com/shiplane/limits/rules/internal/book"
	"github.com/shiplane/limits/rules/internal/memstore"
)

// api is the whole of the API on a store in memory. Every answer of it is held to
// the document.
type api struct {
	handler http.Handler
	ours    *Handler
	doc     *openapi3.T // nil to leave that out
}

var served = sync.OnceValues(func() (*openapi3.T, error) { return openapi3.NewLoader().LoadFromData(document) })

func newAPI(t *testing.T, s rulesv1.RulesServiceHandler) *api {
	t.Helper()
	h := New(s)
	doc, err := served()
	if err != nil {
		t.Fatal(err)
	}
	return &api{h, h, doc}
}

// open is an API with a few rules, as someone of a role sees it.
func open(t *testing.T, role rulesv1.Role) *api {
	t.Helper()
	store, log := memstore.New(), slog.New(slog.DiscardHandler)
	b, err := book.Open(t.Context(), book.Config{Store: store, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, admin.New(b, auth.NewKeyring(store, log, time.Now), log))
	as := func(role rulesv1.Role) {
		a.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a.ours.ServeHTTP(w, r.WithContext(auth.WithPrincipal(r.Context(), auth.Principal{Name: "ops", Role: role})))
		})
	}
	as(rulesv1.Role_ROLE_EDITOR)
	for _, plan := range []string{"free", "growth"} {
		a.want(t, 201, "POST", "/v1/plans", `{"id":"`+plan+`"}`)
	}
	a.want(t, 201, "PUT", "/v1/routes/labels", `{"match":"GET /v1/labels"}`, "If-None-Match: *")
	a.want(t, 201, "PUT", "/v1/routes/bulk", `{"match":["POST /v1/bulk"],"cost":10}`, "If-None-Match: *")
	a.want(t, 201, "PUT", "/v1/routes/login", `{"match":"POST /v1/login","user_field":"username"}`, "If-None-Match: *")
	a.want(t, 201, "PUT", "/v1/rules/growth-global?rollout=immediate", growthGlobal, "If-None-Match: *")
	as(role)
	return a
}

const growthGlobal = `{"plan":"growth","identity":"api_key","algorithm":"token_bucket","rate":"100/s","burst":200}`

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
}

// do sends a request; a body is of application/json unless a field says otherwise.
// What comes back must be what the document promises.
func (a *api) do(t *testing.T, method, target, body string, fields ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://rules.test", strings.NewReader(body))
	r.RequestURI = target
	var err error
	if r.URL, err = url.ParseRequestURI(target); err != nil {
		t.Error(err)
		return answer{}
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		if name == "Content-Type" {
			r.Header.Del(name)
		}
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	a.handler.ServeHTTP(w, r)
	got := answer{w.Code, w.Header(), w.Body.String()}
	if method != http.MethodHead && a.doc != nil {
		a.asDocumented(t, method, r.URL.EscapedPath(), got)
	}
	return got
}

// want is do for a status.
func (a *api) want(t *testing.T, status int, method, target, body string, fields ...string) answer {
	t.Helper()
	got := a.do(t, method, target, body, fields...)
	if got.status != status {
		t.Fatalf("%s %s %.200s %q: got %d %s, want %d", method, target, body, fields, got.status, got.text, status)
	}
	return got
}

// asDocumented holds an answer to the document.
func (a *api) asDocumented(t *testing.T, method, path string, got answer) {
	t.Helper()
	media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
	schema := a.doc.Components.Schemas["Problem"]
	for i := range a.ours.operations {
		o := &a.ours.operations[i]
		if _, ok := o.match(path); !ok || o.method != method {
			continue
		}
		described := a.doc.Paths.Value(o.path).GetOperation(method).Responses
		response := described.Status(got.status)
		if response == nil && got.status < 400 {
			t.Errorf("%s %s: the document has no %d", method, path, got.status)
			return
		}
		if response == nil {
			response = described.Default()
		}
		if len(response.Value.Content) == 0 {
			if got.text != "" {
				t.Errorf("%s %s: %d has a body: %s", method, path, got.status, got.text)
			}
			return
		}
		body := response.Value.Content[media]
		if body == nil {
			t.Errorf("%s %s: %d is %q", method, path, got.status, media)
			return
		}
		schema = body.Schema
	}
	if path == documentPath && got.status == http.StatusOK {
		return
	}
	var value any
	if err := json.Unmarshal([]byte(got.text), &value); err != nil {
		t.Errorf("%s %s: %d %q: %v", method, path, got.status, got.text, err)
		return
	}
	if err := schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors()); err != nil {
		t.Errorf("%s %s: %d %s is not as documented: %v", method, path, got.status, got.text, err)
	}
}

// problem reads a problem.
func (got answer) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(got.text), &p); err != nil || p.Status != got.status || got.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %q is no problem: %v", got.status, got.text, err)
	}
	return p
}

// member reads a member of an object, as in "rule.version".
func (got answer) member(t *testing.T, path string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(got.text), &value); err != nil {
		t.Errorf("%q: %v", got.text, err)
	}
	for step := range strings.SplitSeq(path, ".") {
		in, _ := value.(map[string]any)
		value = in[step]
	}
	return value
}
