package feed

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// beat is how often the services of these tests send a heartbeat.
const beat = 2 * time.Second

// fleet is instances of a rules service in memory, by host, and the network before
// them. It keeps the whole ruleset and every change since the first.
type fleet struct {
	t *testing.T

	mu      sync.Mutex
	set     *rulesv1.Ruleset
	log     []*rulesv1.Changes
	woken   chan struct{} // closed when there is something new
	hosts   map[string]*host
	dials   map[string][]time.Time // attempts to connect, whether they succeeded or not, by host
	accepts map[string][]time.Time // those that succeeded
	reports map[string]*rulesv1.ReportRequest
	watches []*rulesv1.WatchRequest
	every   time.Duration // asked of reports
	skew    time.Duration // of the service's clock
	secret  string        // that callers must present; "" for none
}

// host is one instance.
type host struct {
	fleet  *fleet
	conns  chan net.Conn
	server *http.Server
	up     bool
	frozen chan struct{} // not nil: nothing is sent until it is closed
	drain  chan struct{} // closed to end the watches
}

func newFleet(t *testing.T, set *rulesv1.Ruleset, names ...string) *fleet {
	f := &fleet{
		t: t, set: set, woken: make(chan struct{}), hosts: map[string]*host{}, reports: map[string]*rulesv1.ReportRequest{},
		dials: map[string][]time.Time{}, accepts: map[string][]time.Time{},
	}
	for _, name := range names {
		f.raise(name)
	}
	t.Cleanup(func() {
		for _, name := range names {
			f.fell(name)
		}
	})
	return f
}

// raise starts an instance.
func (f *fleet) raise(name string) {
	h := &host{fleet: f, conns: make(chan net.Conn), up: true, drain: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle(rulesv1.NewWatchServiceHandler(h))
	h.server = &http.Server{Handler: mux}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[name+":80"] = h
	go func() { _ = h.server.Serve(&listener{h.conns, make(chan struct{}), sync.Once{}}) }()
}

// fell kills an instance: its connections are gone, new ones are refused.
func (f *fleet) fell(name string) {
	f.mu.Lock()
	h := f.hosts[name+":80"]
	wasUp := h.up
	h.up = false
	f.mu.Unlock()
	if wasUp {
		close(h.drain)
		_ = h.server.Close()
	}
}

// drained ends the watches of an instance, which goes on.
func (f *fleet) drained(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[name+":80"]
	close(h.drain)
	h.drain = make(chan struct{})
}

// asked returns the revisions that watches asked from, in order.
func (f *fleet) asked() (revisions []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.watches {
		revisions = append(revisions, q.GetRevision())
	}
	return revisions
}

// reported returns the last report of a pod.
func (f *fleet) reported(pod string) *rulesv1.ReportRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reports[pod]
}

// connections returns when somebody tried to connect to an instance, and when somebody
// did.
func (f *fleet) connections(name string) (tried, made []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dials[name+":80"]), slices.Clone(f.accepts[name+":80"])
}

// freeze lets an instance send nothing any more.
func (f *fleet) freeze(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[name+":80"].frozen = make(chan struct{})
}

// change makes one revision of changes.
func (f *fleet) change(apply func(*rulesv1.Ruleset), changes ...*rulesv1.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := proto.CloneOf(f.set)
	apply(next)
	next.Revision++
	f.log = append(f.log, &rulesv1.Changes{From: f.set.Revision, Revision: next.Revision, Changes: changes})
	f.set = next
	close(f.woken)
	f.woken = make(chan struct{})
}

// setRate puts a new version of a rule.
func (f *fleet) setRate(id string, rate float64) {
	f.mu.Lock()
	var put *rulesv1.Rule
	for _, r := range f.set.Rules {
		if r.Id == id {
			put = proto.CloneOf(r)
		}
	}
	f.mu.Unlock()
	put.Rate, put.Version = &rate, put.Version+1
	f.change(func(set *rulesv1.Ruleset) {
		for i, r := range set.Rules {
			if r.Id == id {
				set.Rules[i] = put
			}
		}
	}, &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: put}})
}

// dial is the network.
func (f *fleet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	h := f.hosts[address]
	f.dials[address] = append(f.dials[address], time.Now())
	up := h != nil && h.up
	f.mu.Unlock()
	if !up {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	select {
	case h.conns <- there:
		f.mu.Lock()
		f.accepts[address] = append(f.accepts[address], time.Now())
		f.mu.Unlock()
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func (f *fleet) now() *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(f.skew)) }

// permit refuses callers without the secret.
func (f *fleet) permit(ctx context.Context) error {
	call, _ := connect.CallInfoForHandlerContext(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.secret != "" && call.RequestHeader().Get("Authorization") != "Bearer "+f.secret {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("want a token"))
	}
	return nil
}

// Watch implements the service.
func (h *host) Watch(ctx context.Context, q *rulesv1.WatchRequest, stream *connect.ServerStream[rulesv1.WatchResponse]) error {
	f := h.fleet
	if err := f.permit(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	drain := h.drain
	f.watches = append(f.watches, q)
	f.mu.Unlock()
	for at := q.GetRevision(); ; {
		f.mu.Lock()
		set, log, woken, frozen := f.set, f.log, f.woken, h.frozen
		f.mu.Unlock()
		if frozen != nil {
			select {
			case <-frozen:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		first := set.Revision - int64(len(log)) // that changes are known from
		var err error
		switch {
		case at == set.Revision:
			if err = stream.Send(&rulesv1.WatchResponse{Now: f.now(), Event: &rulesv1.WatchResponse_Heartbeat{
				Heartbeat: &rulesv1.Heartbeat{Revision: at, Every: durationpb.New(beat)},
			}}); err != nil {
				return err
			}
			select {
			case <-woken:
			case <-time.After(beat):
			case <-ctx.Done():
				return ctx.Err()
			case <-drain:
				return connect.NewError(connect.CodeUnavailable, errors.New("draining"))
			}
			continue
		case at < first || at > set.Revision || at == 0:
			err = sendWhole(stream, set, f.now())
			at = set.Revision
		default:
			err = stream.Send(&rulesv1.WatchResponse{Now: f.now(), Event: &rulesv1.WatchResponse_Changes{Changes: log[at-first]}})
			at++
		}
		if err != nil {
			return err
		}
	}
}

// sendWhole sends a ruleset in two parts.
func sendWhole(stream *connect.ServerStream[rulesv1.WatchResponse], set *rulesv1.Ruleset, now *timestamppb.Timestamp) error {
	part := func(more bool, p *rulesv1.Ruleset) error {
		p.Domain, p.Revision = set.Domain, set.Revision
		return stream.Send(&rulesv1.WatchResponse{Now: now, Event: &rulesv1.WatchResponse_Snapshot{Snapshot: &rulesv1.Snapshot{Part: p, More: more}}})
	}
	if err := part(true, &rulesv1.Ruleset{Plans: set.Plans, Routes: set.Routes, Rules: set.Rules}); err != nil {
		return err
	}
	return part(false, &rulesv1.Ruleset{Overrides: set.Overrides, Candidates: set.Candidates})
}

// Report implements the service.
func (h *host) Report(ctx context.Context, q *rulesv1.ReportRequest) (*rulesv1.ReportResponse, error) {
	f := h.fleet
	if err := f.permit(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports[q.GetPod().GetId()] = q
	if f.every == 0 {
		return &rulesv1.ReportResponse{}, nil
	}
	return &rulesv1.ReportResponse{Next: durationpb.New(f.every)}, nil
}

// pod opens a feed before the fleet.
func (f *fleet) config(id string, names ...string) Config {
	cfg := Config{Domain: "public-api", Pod: &rulesv1.Pod{Id: id, Region: "eu-west"}, Dial: f.dial, Logger: slog.New(slog.DiscardHandler)}
	for _, name := range names {
		cfg.Addresses = append(cfg.Addresses, "http://"+name)
	}
	return cfg
}

// open opens a feed.
func open(t *testing.T, cfg Config) *Feed {
	t.Helper()
	feed, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return feed
}

// run runs a feed until stop is called or the test ends.
func run(t *testing.T, feed *Feed) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { feed.Run(ctx); close(ended) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}
