package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// ruleService is a rules service for tests: it sends the whole with every change.
type ruleService struct {
	t      *testing.T
	server *httptest.Server
	secret string

	mu      sync.Mutex
	set     *rulesv1.Ruleset
	woken   chan struct{}
	skew    time.Duration // of its clock
	reports map[string]*rulesv1.ReportRequest
}

// startRules starts a rules service with testRules, at an address; "" for any.
func startRules(t *testing.T, address string) *ruleService {
	t.Helper()
	set, _, faults := ruleset.Parse([]byte(testRules))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	set.Domain, set.Revision = "public-api", 1
	s := &ruleService{t: t, set: set, secret: "slt_pod_secret", woken: make(chan struct{}), reports: map[string]*rulesv1.ReportRequest{}}
	mux := http.NewServeMux()
	mux.Handle(rulesv1.NewWatchServiceHandler(s))
	s.server = httptest.NewUnstartedServer(mux)
	if address != "" {
		_ = s.server.Listener.Close() // the one that it came with
		var err error
		if s.server.Listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
	}
	s.server.Start()
	t.Cleanup(s.stop)
	return s
}

func (s *ruleService) stop() {
	s.server.CloseClientConnections()
	s.server.Close()
}

func (s *ruleService) edit(apply func(*rulesv1.Ruleset)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set = proto.CloneOf(s.set)
	apply(s.set)
	s.set.Revision++
	close(s.woken)
	s.woken = make(chan struct{})
}

func (s *ruleService) reported(pod string) *rulesv1.ReportRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reports[pod]
}

func (s *ruleService) permit(ctx context.Context) error {
	if call, _ := connect.CallInfoForHandlerContext(ctx); call.RequestHeader().Get("Authorization") != "Bearer "+s.secret {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("want a token"))
	}
	return nil
}

// Watch implements WatchService.
func (s *ruleService) Watch(ctx context.Context, _ *rulesv1.WatchRequest, stream *connect.ServerStream[rulesv1.WatchResponse]) error {
	if err := s.permit(ctx); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		set, woken, now := s.set, s.woken, timestamppb.New(time.Now().Add(s.skew))
		s.mu.Unlock()
		whole := &rulesv1.WatchResponse_Snapshot{Snapshot: &rulesv1.Snapshot{Part: set}}
		beat := &rulesv1.WatchResponse_Heartbeat{Heartbeat: &rulesv1.Heartbeat{Revision: set.Revision, Every: durationpb.New(deadline)}}
		if err := errors.Join(stream.Send(&rulesv1.WatchResponse{Event: whole, Now: now}), stream.Send(&rulesv1.WatchResponse{Event: beat, Now: now})); err != nil {
			return err
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Report implements WatchService.
func (s *ruleService) Report(ctx context.Context, q *rulesv1.ReportRequest) (*rulesv1.ReportResponse, error) {
	if err := s.permit(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports[q.GetPod().GetId()] = q
	return &rulesv1.ReportResponse{Next: durationpb.New(time.Second)}, nil
}

// tokenFile writes the service's token where a gateway can read it.
func (s *ruleService) tokenFile() string {
	path := filepath.Join(s.t.TempDir(), "token")
	replace(s.t, path, s.secret+"\n")
	return path
}

// A gateway without rules lets nothing pass unlimited: it is not ready and answers
// 503. When the service is there it serves by its rules, follows them, goes by its
// clock, and tells it what they decide. A plan that the service does not know keeps
// nothing from starting.
func TestRulesComeFromTheService(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	address := away.Listener.Addr().String()
	away.Close()
	state := t.TempDir()
	token := (&ruleService{t: t, secret: "slt_pod_secret"}).tokenFile()
	flags := []string{
		"--rules", "http://" + address, "--rules-token-file", token, "--state-dir", state, "--pod-id", "pod-1", "--region", "eu-west", "--canary",
	}
	g := start(t, echoes, flags...)
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 503, `"rules_unavailable"`)
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "wrong").want(t, 503, `"rules_unavailable"`)
	ready := func() answer {
		r, err := http.NewRequest(http.MethodGet, g.admin+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		return send(t, http.DefaultTransport, r)
	}
	ready().want(t, 503, "rules service was not reached")

	service := startRules(t, address)
	poll(t, "ready", func() bool { return ready().StatusCode == 200 })
	small := func() answer { return g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1") }
	if got := small().want(t, 200, "").Header.Get("RateLimit"); !strings.HasPrefix(got, `"small-global";r=11;`) {
		t.Errorf("limited by %s", got)
	}
	service.mu.Lock()
	service.skew = time.Hour
	service.mu.Unlock()
	service.edit(func(set *rulesv1.Ruleset) {
		set.Overrides = append(set.Overrides, &rulesv1.Override{Id: "o-1", Rule: "small-global", Key: "acct_small-1", Deny: true,
			StartsAt: timestamppb.New(time.Now().Add(30 * time.Minute))})
	})
	poll(t, "the override is in force", func() bool { return small().StatusCode == 429 })
	poll(t, "the refusal is reported", func() bool {
		for _, c := range service.reported("pod-1").GetCounts() {
			if c.Rule == "small-global" && c.Refused > 0 && c.Evaluated > c.Refused {
				return true
			}
		}
		return false
	})
	if report := service.reported("pod-1"); !report.Pod.Canary || report.Pod.Region != "eu-west" || report.Revision != 2 {
		t.Errorf("reported %v", report)
	}
	g.wantMetrics("shiplane_gateway_rules_revision", "2", "shiplane_gateway_rules_watches_total", "1", "shiplane_gateway_rules_faults", "0")
	if strings.Contains(g.log.String(), service.secret) {
		t.Errorf("the token is in the log:\n%s", g.log)
	}

	service.stop()
	g.stop()
	if err := receive(t, g.ended, "end of the gateway"); err != nil {
		t.Fatal(err)
	}
	g.ended <- nil // for the end of the test
	again := start(t, echoes, flags...)
	again.wantMetrics("shiplane_gateway_rules_revision", "2")
	again.do("GET", "/v1/items/1", "", "X-Api-Key", "big-1").want(t, 200, "")
}

// In shadow mode a gateway never stands in the way, not even without rules.
func TestWithoutRulesShadowLetsPass(t *testing.T) {
	g := start(t, echoes, "--rules", "http://127.0.0.1:1", "--mode", "shadow")
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "wrong").want(t, 401, "")
}

// check asks the service once, and tells plans of keys that its rules do not know, or
// why it cannot be asked. A password in an address is refused and not shown.
func TestCheckAsksTheService(t *testing.T) {
	service := startRules(t, "")
	keys := filepath.Join(t.TempDir(), "keys")
	replace(t, keys, testKeys("small-1"))
	t.Setenv("SHIPLANE_RULES_TOKEN", service.secret)
	out, _ := printed(t, 0, "check", "--rules", service.server.URL, "--keys", keys)
	if !strings.Contains(out, service.server.URL+": no faults. Domain public-api") || !strings.Contains(out, "small-global") {
		t.Errorf("printed\n%s", out)
	}
	replace(t, keys, testKeys("gold-1"))
	_, problems := printed(t, 2, "check", "--rules", service.server.URL, "--keys", keys)
	if !strings.Contains(problems, `"gold": no such plan`) {
		t.Errorf("told\n%s", problems)
	}
	t.Setenv("SHIPLANE_RULES_TOKEN", "wrong")
	if _, problems := printed(t, 2, "check", "--rules", service.server.URL); !strings.Contains(problems, "unauthenticated") {
		t.Errorf("told\n%s", problems)
	}
	_, problems = printed(t, 2, "check", "--rules", "http://a,http://pod:hunter2@b,c://d", "--rules-cert", "cert")
	for _, want := range []string{"must not hold a user or password", "c://d", "--rules-cert"} {
		if !strings.Contains(problems, want) {
			t.Errorf("lacks %q in\n%s", want, problems)
		}
	}
	if strings.Contains(problems, "hunter2") {
		t.Errorf("shows a password:\n%s", problems)
	}
	if _, problems := printed(t, 2, "check", "--rules", "http://a", "--domain", "?"); !strings.Contains(problems, "--domain") {
		t.Errorf("told\n%s", problems)
	}
	if _, problems := printed(t, 2, "check", "--rules", "rules.yaml", "--rules-ca", "ca"); !strings.Contains(problems, "--rules-ca") {
		t.Errorf("told\n%s", problems)
	}
}
