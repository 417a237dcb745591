package rules_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/telemetry"
	"github.com/shiplane/limits/libs/telemetry/telemetrytest"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules"
)

const seed = `
plans: [{id: free}]
rules:
  - {id: free-global, plan: free, identity: api_key, algorithm: token_bucket, rate: 10/s, burst: 20}
`

// Every call of a test says that it belongs to a trace.
const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	traceparent  = "00-" + callersTrace + "-00f067aa0ba902b7-01"
)

// service is a rules service over its network.
type service struct {
	t          *testing.T
	url, admin string
	tokens     map[string]string // by role
	log        *buffer
	end        func() // ends the service before the test
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start runs a service with a store in memory until the test ends.
func start(t *testing.T, more ...func(*rules.Config)) *service {
	t.Helper()
	dir := t.TempDir()
	s := &service{t: t, tokens: map[string]string{}, log: &buffer{}}
	if err := os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(seed), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := rules.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Domain: "public-api", SeedFile: filepath.Join(dir, "rules.yaml"),
		Rollout: rulesv1.RolloutMode_ROLLOUT_MODE_IMMEDIATE, Bake: time.Minute, Margin: 0.05, Evidence: 100,
		AdminToken: filepath.Join(dir, "admin.token"), PodToken: filepath.Join(dir, "pod.token"), Log: command.Log{Level: -4},
	}
	for _, change := range more {
		change(&cfg)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended, listening := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- rules.Run(ctx, cfg, rules.Output{Stderr: s.log, Listening: func(api, admin net.Addr) {
			s.url, s.admin = "http://"+api.String(), "http://"+admin.String()
			close(listening)
		}})
	}()
	s.end = sync.OnceFunc(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("the service does not end\n%s", s.log)
		}
	})
	t.Cleanup(s.end)
	select {
	case <-listening:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the service has ended: %v\n%s", err, s.log)
	}
	s.ready()
	for role, file := range map[string]string{"admin": cfg.AdminToken, "pod": cfg.PodToken} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s.tokens[role] = strings.TrimSpace(string(text))
	}
	return s
}

// ready waits until the rules of the seed file are there.
func (s *service) ready() {
	s.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); <-tick.C {
		if status, _ := s.call(http.MethodGet, s.admin+"/readyz", "", ""); status == http.StatusOK {
			return
		}
	}
	s.t.Fatalf("the service does not get ready\n%s", s.log)
}

// call makes a request with a token, "" for none.
func (s *service) call(method, url, token, body string) (status int, answer string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", traceparent)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return got.StatusCode, string(text)
}

// endpoints are all that the service answers: the paths of its own document, and
// every procedure.
func (s *service) endpoints() map[string]string {
	s.t.Helper()
	_, text := s.call(http.MethodGet, s.url+"/v1/openapi.json", s.tokens["admin"], "")
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(text), &document); err != nil || len(document.Paths) < 10 {
		s.t.Fatalf("the document has %d paths: %v", len(document.Paths), err)
	}
	all := map[string]string{"/v1/openapi.json": http.MethodGet, "/": http.MethodGet, "/v1/nonsense": http.MethodGet}
	for path, methods := range document.Paths {
		for method := range methods {
			all[regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(path, "x")+"#"+method] = strings.ToUpper(method)
		}
	}
	for _, file := range []protoreflect.FileDescriptor{rulesv1.File_shiplane_rules_v1_service_proto, rulesv1.File_shiplane_rules_v1_watch_proto} {
		service := file.Services().Get(0)
		for i := range service.Methods().Len() {
			all[fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(i).Name())] = http.MethodPost
		}
	}
	return all
}

// Nobody gets an answer without a token, from no endpoint but health; and no
// secret is ever in the log.
func TestNothingAnswersWithoutAToken(t *testing.T) {
	s := start(t)
	for path, method := range s.endpoints() {
		path, _, _ = strings.Cut(path, "#")
		for name, token := range map[string]string{"none": "", "a wrong one": strings.Repeat("x", 40), "another's secret": s.tokens["admin"][:13] + s.tokens["pod"][13:]} {
			if status, answer := s.call(method, s.url+path, token, "{}"); status != http.StatusUnauthorized || strings.Contains(answer, "free-global") {
				t.Errorf("%s %s with %s: %d %s", method, path, name, status, answer)
			}
		}
	}
	if status, answer := s.call(http.MethodPost, s.url+"/grpc.health.v1.Health/Check", "", "{}"); status != http.StatusOK || !strings.Contains(answer, `SERVING_STATUS_SERVING"`) {
		t.Errorf("health: %d %s", status, answer)
	}
	_, made := s.call(http.MethodPost, s.url+"/v1/tokens", s.tokens["admin"], `{"name":"me","role":"viewer"}`)
	secrets := regexp.MustCompile(`slt_[a-z2-7]+_([A-Za-z0-9_-]{43})`).FindStringSubmatch(made)
	if len(secrets) != 2 {
		t.Fatalf("no token was made: %s", made)
	}
	for _, secret := range []string{secrets[1], s.tokens["admin"][13:], s.tokens["pod"][13:]} {
		if strings.Contains(s.log.String(), secret) {
			t.Error("the log holds a secret")
		}
	}
}

// Each role reaches what it is for: a viewer reads, an editor writes rules, an
// admin makes tokens, a pod watches and reports.
func TestRolesReachWhatTheyAreFor(t *testing.T) {
	s := start(t)
	for _, role := range []string{"viewer", "editor"} {
		_, made := s.call(http.MethodPost, s.url+"/v1/tokens", s.tokens["admin"], `{"name":"me","role":"`+role+`"}`)
		s.tokens[role] = regexp.MustCompile(`slt_[A-Za-z0-9_-]+`).FindString(made)
	}
	for _, c := range []struct{ method, path, body, allowed string }{
		{http.MethodGet, "/v1/rules/free-global", "", "viewer editor admin"},
		{http.MethodGet, "/v1/audit", "", "viewer editor admin"},
		{http.MethodPost, "/v1/overrides?validate_only=true", `{"rule":"free-global","key":"acct_7Q2","burst":40,"reason":"launch"}`, "editor admin"},
		{http.MethodGet, "/v1/tokens", "", "admin"},
		{http.MethodPost, "/" + rulesv1.WatchServiceName + "/Report", `{"domain":"public-api","pod":{"id":"p"},"incarnation":"i"}`, "pod"},
	} {
		for role, token := range s.tokens {
			status, answer := s.call(c.method, s.url+c.path, token, c.body)
			if want := strings.Contains(c.allowed, role); want != (status < http.StatusBadRequest) || !want && status != http.StatusForbidden {
				t.Errorf("%s: %s %s: %d %s", role, c.method, c.path, status, answer)
			}
		}
	}
}

// Each call is a span under its caller's trace, by REST with the path that the document
// has; what is refused at the door makes none.
func TestTracesNameTheOperation(t *testing.T) {
	collector := telemetrytest.Start(t)
	export, err := telemetry.ParseExport(collector.URL, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, func(cfg *rules.Config) { cfg.Export = export })
	for path, status := range map[string]int{"/v1/rules/free-global": http.StatusOK, "/v1/rules/nonsense": http.StatusNotFound, "/nonsense": http.StatusNotFound} {
		if got, answer := s.call(http.MethodGet, s.url+path, s.tokens["admin"], ""); got != status {
			t.Errorf("%s: %d %s", path, got, answer)
		}
		s.call(http.MethodGet, s.url+path, "", "")
	}
	client := rulesv1.NewRulesServiceClient(http.DefaultClient, s.url)
	call, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("Authorization", "Bearer "+s.tokens["admin"])
	info.RequestHeader().Set("Traceparent", traceparent)
	if _, err := client.GetRule(call, &rulesv1.GetRuleRequest{Domain: "public-api", Id: "free-global"}); err != nil {
		t.Fatal(err)
	}
	s.end()
	for name, c := range map[string]struct {
		spans int
		route string
	}{"GET /v1/rules/{id}": {2, "/v1/rules/{id}"}, "GET /": {1, "/"}, rulesv1.RulesServiceName + "/GetRule": {1, ""}} {
		got := collector.Spans(name)
		if len(got) != c.spans {
			t.Errorf("got %d spans %s, want %d: %q", len(got), name, c.spans, collector.Names())
		}
		for _, span := range got {
			if span.Service != "shiplane-rules" || span.Trace != callersTrace || span.Attributes["http.route"] != c.route {
				t.Errorf("got %+v", span)
			}
		}
	}
	if names := collector.Names(); len(names) != 4 {
		t.Errorf("got the spans %q", names)
	}
}
