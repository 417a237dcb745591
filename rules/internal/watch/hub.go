package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	heartbeatEvery = 5 * time.Second  // a watcher that hears nothing for three of them goes elsewhere
	stallMax       = 10 * time.Second // for one message to be taken: 64 KiB, 6.5 KB/s
	aheadMax       = 5 * time.Second  // several polls of the database: an instance that is not there by then will not be
	drainSpread    = time.Second      // in which the watches of an instance that drains end, so that the next one is not stormed

	watchersMax     = 10_000   // about 20 KiB each; more are sent elsewhere
	changesKept     = 4096     // of a domain: a rollout of 10 edits a second is kept for minutes
	changeBytesKept = 8 << 20  // of a domain
	changeBytesMax  = 1 << 20  // of one change; clients of gRPC refuse messages above 4 MiB. Bigger ones (a whole file) are sent as the whole
	partBytes       = 64 << 10 // of the whole; each watcher that is being sent one holds a copy
	requestBytesMax = 2 << 20  // a report at its bounds has 1 MiB
)

// Config is what a Hub needs.
type Config struct {
	// Permit returns whether the caller of ctx may watch and report; its error is
	// one of connect. A watch asks again with each heartbeat, so that a token that
	// was revoked ends it. Required.
	Permit func(ctx context.Context) error
	// Reports keeps what pods tell. Required.
	Reports ledger.Reports
	// RollingOut reports whether an edit of a domain is being rolled out, and
	// reports are waited for. It is called often. Required.
	RollingOut func(domain string) bool
	Logger     *slog.Logger
	Metrics    metric.MeterProvider

	Heartbeat time.Duration // how often a watcher hears something at least; 0: 5 s
	Stall     time.Duration // how long it may take nothing of a message; 0: 10 s
	Ahead     time.Duration // how long a revision that is ahead of this instance is waited for; 0: 5 s
	Watchers  int           // at once; 0: 5,000
	Changes   int           // kept of a domain; 0: 4,096
}

// Hub sends the rules to those who watch them, and takes their reports. Its
// methods are safe for concurrent use; Changed and Reset come from one goroutine,
// in the order of the revisions.
type Hub struct {
	cfg     Config
	meter   *meter
	reports *intake

	quit context.Context // ends when the hub drains
	end  context.CancelFunc

	mu       sync.Mutex
	domains  map[string]*domain
	watchers int
	idle     chan struct{} // closed when the hub drains and the last watch has ended
}

// New makes a hub without rules: until the first Reset its watchers are refused.
func New(cfg Config) (*Hub, error) {
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, heartbeatEvery)
	cfg.Stall = cmp.Or(cfg.Stall, stallMax)
	cfg.Ahead = cmp.Or(cfg.Ahead, aheadMax)
	cfg.Watchers = cmp.Or(cfg.Watchers, watchersMax)
	cfg.Changes = cmp.Or(cfg.Changes, changesKept)
	h := &Hub{cfg: cfg, domains: map[string]*domain{}, idle: make(chan struct{})}
	h.quit, h.end = context.WithCancel(context.Background())
	var err error
	if h.meter, err = newMeter(cfg.Metrics, h); err != nil {
		h.end()
		return nil, err
	}
	h.reports = newIntake(cfg, h.meter)
	return h, nil
}

// Handler returns the path of WatchService and what serves it by Connect, gRPC and
// gRPC-Web. Its options must not set codecs or compression.
func (h *Hub) Handler(options ...connect.HandlerOption) (string, http.Handler) {
	options = append(options,
		connect.WithCodec(binary{}), connect.WithCodec(jsonText{"json"}), connect.WithCodec(jsonText{"json; charset=utf-8"}),
		connect.WithCompressMinBytes(math.MaxInt), connect.WithReadMaxBytes(requestBytesMax))
	path, service := rulesv1.NewWatchServiceHandler(h, options...)
	return path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), controlKey{}, http.NewResponseController(w))))
	})
}

// Changed tells of the changes that have led a domain from one revision to the
// next, rules. It does not block.
func (h *Hub) Changed(domain string, from, to int64, changes []*rulesv1.Change, rules *ruleset.Ruleset) {
	now := time.Now()
	d, made := h.open(domain, rules)
	if made {
		return
	}
	if err := d.change(from, to, changes, rules, now); err != nil && !errors.Is(err, errTooBig) {
		h.cfg.Logger.Error("a change cannot be encoded: the whole is sent", "domain", domain, "revision", to, "error", err)
	}
}

// Reset tells that the rules of a domain are new as a whole: all its watchers are
// sent that. It does not block.
func (h *Hub) Reset(domain string, rules *ruleset.Ruleset) {
	if d, made := h.open(domain, rules); !made {
		d.reset(rules)
	}
}

// open returns a domain, made of rules if it is not there.
func (h *Hub) open(name string, rules *ruleset.Ruleset) (d *domain, made bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, there := h.domains[name]
	if !there {
		d = newDomain(name, bounds{h.cfg.Changes, changeBytesKept}, rules)
		h.domains[name] = d
	}
	return d, !there
}

// find returns a domain that has rules.
func (h *Hub) find(name string) (*domain, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch d := h.domains[name]; {
	case d != nil && d.head() > 0:
		return d, nil
	case d == nil && len(h.domains) == 0:
		return nil, errStarting
	}
	return nil, fmt.Errorf("%w: %s", errNoDomain, name)
}

// enter counts a watcher in; leave must follow unless it returns an error.
func (h *Hub) enter() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.quit.Err() != nil:
		return errDraining
	case h.watchers >= h.cfg.Watchers:
		return errFull
	}
	h.watchers++
	return nil
}

func (h *Hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers--
	h.settle()
}

// settle notes that the last watch has ended. mu is held.
func (h *Hub) settle() {
	if h.quit.Err() == nil || h.watchers > 0 {
		return
	}
	select {
	case <-h.idle:
	default:
		close(h.idle)
	}
}

// Drain refuses new watches and ends all others within a second or so. It returns
// when none is left, or with ctx's error.
func (h *Hub) Drain(ctx context.Context) error {
	h.mu.Lock()
	h.end()
	h.settle()
	h.mu.Unlock()
	select {
	case <-h.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run stores what pods report, until ctx ends.
func (h *Hub) Run(ctx context.Context) error { return h.reports.run(ctx) }
