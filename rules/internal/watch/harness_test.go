package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/telemetry"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/watch"
)

const domain = "public-api"

// stage is a hub behind a real server, whose rules the test writes.
type stage struct {
	*watch.Hub
	url     string // "" without a server
	metrics *telemetry.Metrics

	mu    sync.Mutex
	rules *ruleset.Ruleset // the last that was written
}

// newHub makes a hub with one rule at revision 1. cfg needs no more than what
// differs from the defaults.
func newHub(t testing.TB, cfg watch.Config) *stage {
	t.Helper()
	metrics, err := telemetry.New("test")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{metrics: metrics}
	first := &rulesv1.Ruleset{Domain: domain, Revision: 1, Rules: []*rulesv1.Rule{{
		Id: "global", Scope: rulesv1.Scope_SCOPE_ALL, Identity: rulesv1.Identity_IDENTITY_API_KEY,
		Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: proto.Float64(10), Burst: proto.Int64(20),
	}}}
	var faults ruleset.Faults
	if s.rules, faults = ruleset.Compile(first, nil); len(faults) > 0 {
		t.Fatal(faults)
	}
	if cfg.Permit == nil {
		cfg.Permit = func(context.Context) error { return nil }
	}
	if cfg.Reports == nil {
		cfg.Reports = &shelf{}
	}
	if cfg.RollingOut == nil {
		cfg.RollingOut = func(string) bool { return false }
	}
	cfg.Logger, cfg.Metrics = slog.New(slog.DiscardHandler), metrics.Provider()
	if s.Hub, err = watch.New(cfg); err != nil {
		t.Fatal(err)
	}
	s.Reset(domain, s.rules)
	return s
}

// newStage is newHub behind a server.
func newStage(t *testing.T, cfg watch.Config) *stage {
	t.Helper()
	s := newHub(t, cfg)
	mux := http.NewServeMux()
	mux.Handle(s.Handler())
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s.url = server.URL
	return s
}

// end runs the hub to its end at once.
func (s *stage) end(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
}

// reset makes what there is the whole, at a revision.
func (s *stage) reset(t testing.TB, revision int64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.rules.Source()
	set.Revision = revision
	rules, faults := ruleset.Compile(set, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s.rules = rules
	s.Reset(domain, rules)
}

// put writes n overrides for accounts from number on, with a reason of some
// length, as one revision. What was there for these accounts is replaced.
func (s *stage) put(t testing.TB, revision int64, number, n, reason int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var changes []*rulesv1.Change
	for i := number; i < number+n; i++ {
		changes = append(changes, &rulesv1.Change{Item: &rulesv1.Change_Override{Override: &rulesv1.Override{
			Id: fmt.Sprintf("o-%d", i), Rule: "global", Key: fmt.Sprintf("acct_%d", i),
			Rate: proto.Float64(float64(revision)), Burst: proto.Int64(20), Reason: strings.Repeat("r", reason),
		}}})
	}
	from := s.rules.Revision()
	rules, faults := s.rules.Apply(changes, revision)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	s.rules = rules
	s.Changed(domain, from, revision, changes, rules)
}

// content is what a pod should have in the end.
func (s *stage) content() map[string]*rulesv1.Override {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]*rulesv1.Override{}
	for _, o := range s.rules.Source().GetOverrides() {
		all[o.GetId()] = o
	}
	return all
}

// count returns a metric's value, "" if it has none.
func (s *stage) count(series string) string {
	w := httptest.NewRecorder()
	s.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// shelf is a ledger of reports alone, which can be away.
type shelf struct {
	mu      sync.Mutex
	away    bool
	batches [][]ledger.Report
}

func (s *shelf) Report(_ context.Context, reports []ledger.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return ledger.ErrUnavailable
	}
	s.batches = append(s.batches, slices.Clone(reports))
	return nil
}

func (s *shelf) Pods(context.Context, string, time.Time) ([]*rulesv1.PodStatus, error) {
	return nil, ledger.ErrUnavailable
}

func (s *shelf) Counts(context.Context, string, string) (ledger.Counts, error) {
	return ledger.Counts{}, ledger.ErrUnavailable
}

func (s *shelf) stored() [][]ledger.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.batches)
}

// pod is a watcher that goes by what it is sent.
type pod struct {
	id       string
	client   rulesv1.WatchServiceClient
	revision int64
	content  map[string]*rulesv1.Override
	joining  map[string]*rulesv1.Override // of the parts so far
	wholes   int
	parts    int
}

// protocols are all ways to call the hub.
var protocols = []struct {
	name    string
	http2   bool
	options []connect.ClientOption
}{
	{"connect", false, nil},
	{"connect, HTTP/2", true, nil},
	{"gRPC", true, []connect.ClientOption{connect.WithGRPC()}},
	{"gRPC-Web", false, []connect.ClientOption{connect.WithGRPCWeb()}},
	{"JSON", false, []connect.ClientOption{connect.WithProtoJSON()}},
}

// newPod makes a pod that calls by a protocol of the list.
func newPod(t *testing.T, s *stage, protocol int) *pod {
	t.Helper()
	by := protocols[protocol%len(protocols)]
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!by.http2)
	transport.Protocols.SetUnencryptedHTTP2(by.http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &pod{id: "pod-1", client: rulesv1.NewWatchServiceClient(&http.Client{Transport: transport}, s.url, by.options...), content: map[string]*rulesv1.Override{}}
}

// watch begins a watch with what the pod has.
func (p *pod) watch(ctx context.Context) (*connect.ServerStreamForClient[rulesv1.WatchResponse], error) {
	return p.client.Watch(ctx, &rulesv1.WatchRequest{Domain: domain, Revision: p.revision, Pod: &rulesv1.Pod{Id: p.id, Region: "us-east"}})
}

// mustWatch is watch for a test that has nothing else to expect. It ends with the test.
func (p *pod) mustWatch(t *testing.T) *connect.ServerStreamForClient[rulesv1.WatchResponse] {
	t.Helper()
	stream, err := p.watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// follow takes messages until the pod has a revision.
func (p *pod) follow(t *testing.T, stream *connect.ServerStreamForClient[rulesv1.WatchResponse], revision int64) {
	t.Helper()
	for p.revision != revision && stream.Receive() {
		p.take(t, stream.Msg())
	}
	if p.revision != revision {
		t.Fatalf("the watch ended at revision %d before %d: %v", p.revision, revision, stream.Err())
	}
}

// take goes by a message, which must lead on from what the pod has.
func (p *pod) take(t *testing.T, m *rulesv1.WatchResponse) {
	t.Helper()
	if m.GetNow() == nil {
		t.Errorf("a message has no time: %v", m)
	}
	switch {
	case m.GetSnapshot() != nil:
		if p.joining == nil {
			p.joining = map[string]*rulesv1.Override{}
		}
		p.parts++
		for _, o := range m.GetSnapshot().GetPart().GetOverrides() {
			p.joining[o.GetId()] = o
		}
		if m.GetSnapshot().GetMore() {
			return
		}
		p.content, p.joining = p.joining, nil
		p.revision = m.GetSnapshot().GetPart().GetRevision()
		p.wholes++
	case m.GetChanges() != nil:
		c := m.GetChanges()
		if c.GetFrom() != p.revision || c.GetRevision() <= p.revision {
			t.Errorf("changes lead from %d to %d: the pod has %d", c.GetFrom(), c.GetRevision(), p.revision)
		}
		for _, change := range c.GetChanges() {
			p.content[change.GetOverride().GetId()] = change.GetOverride()
		}
		p.revision = c.GetRevision()
	case m.GetHeartbeat() != nil:
		if got := m.GetHeartbeat().GetRevision(); got != p.revision {
			t.Errorf("a heartbeat says %d: the pod was sent %d", got, p.revision)
		}
	}
}

// check compares what the pod has with what was written.
func (p *pod) check(t *testing.T, s *stage) {
	t.Helper()
	want := s.content()
	if len(p.content) != len(want) {
		t.Errorf("a pod has %d overrides, want %d", len(p.content), len(want))
	}
	for id, o := range want {
		if !proto.Equal(p.content[id], o) {
			t.Fatalf("a pod has %v, want %v", p.content[id], o)
		}
	}
}
