// Package limitmeter counts what a service that asks the limiter decides, in the
// same words for each service. Labels are small closed sets: verdicts, stages and
// the ids of rules. A caller is never a label.
package limitmeter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/limit"
)

// Verdicts and stages beside the limiter's own.
const (
	VerdictUnauthorized = "unauthorized" // 401
	VerdictBadRequest   = "bad_request"  // 400, 405
	VerdictError        = "error"        // 500
	VerdictGone         = "gone"         // the caller had left before it was looked at
	ByIdentity          = "identity"
	ByRequest           = "request"
	ByOff               = "off" // --mode off: the limiter was not asked
)

// Meter counts. Safe for concurrent use. It is the limiter's Observer.
type Meter struct {
	meter    metric.Meter
	prefix   string // of all names
	domains  bool   // rules are told by domain too
	requests metric.Int64Counter
	rules    metric.Int64Counter
	shadow   metric.Int64Counter
	dropped  metric.Int64Counter
	waited   metric.Float64Histogram
	reloads  metric.Int64Counter

	decided [limit.Unavailable + 1][limit.ByFailClosed + 1][]metric.AddOption
	series  sync.Map // ruleName → *series
}

// ruleName names a rule among all domains.
type ruleName struct{ domain, id string }

// series are the labels of one rule, made once: counting allocates nothing.
type series struct {
	allowed, denied, unknown []metric.AddOption // of rules
	wouldAllow, wouldDeny    []metric.AddOption // of shadow
}

// Config says whose decisions are counted.
type Config struct {
	Service string // as in "gateway"
	Domains bool   // it has several domains: a rule's labels are its domain and its id
}

// New makes the instruments of a service.
func New(provider metric.MeterProvider, cfg Config) (*Meter, error) {
	meter := provider.Meter("github.com/shiplane/limits/" + cfg.Service)
	m := &Meter{meter: meter, prefix: "shiplane_" + cfg.Service + "_", domains: cfg.Domains}
	var faults []error
	counter := func(name, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(m.prefix+name, metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	m.requests = counter("requests", "Requests by verdict and by the stage that decided. With --mode shadow: what would have been decided.")
	m.rules = counter("rule_decisions", "What each enforced rule said of a request: allowed, denied, or unknown where its counter did not answer.")
	m.shadow = counter("shadow_decisions", "What each rule in shadow (with --mode shadow: every rule) would have said: would_allow or would_deny.")
	m.dropped = counter("dropped_errands", "Hand-backs and shadow charges that were given up.")
	var err error
	m.waited, err = meter.Float64Histogram(m.prefix+"decision_wait", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(waitBounds...),
		metric.WithDescription("How long decisions waited for the counters, of those that this process could not make by what it holds and knows."))
	faults = append(faults, err)
	m.reloads = counter("reload_failures", "Files that are followed and were refused, wholly or in part.")
	for v := limit.Allowed; v <= limit.Unavailable; v++ {
		for by := limit.ByNoRule; by <= limit.ByFailClosed; by++ {
			m.decided[v][by] = labels("verdict", v.String(), "decided_by", by.String())
		}
	}
	return m, errors.Join(faults...)
}

// waitBounds are the histogram's, in seconds: around the 1 ms that a check may take,
// the 5 ms and 12 ms after which a store and a checker are given up, and twice these.
var waitBounds = []float64{0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.032, 0.05, 0.1, 0.25, 1}

// Gauge adds a figure that is asked for at each scrape.
func (m *Meter) Gauge(name, description string, value func() int64) error {
	_, err := m.meter.Int64ObservableGauge(m.prefix+name, metric.WithDescription(description),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(value()); return nil }))
	return err
}

// ruleLabels returns the labels of a rule.
func (m *Meter) ruleLabels(domain, id string) []string {
	if m.domains {
		return []string{"domain", domain, "rule", id}
	}
	return []string{"rule", id}
}

// labels returns the option of name, value, name, value…
func labels(pairs ...string) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attributes(pairs...))}
}

func attributes(pairs ...string) attribute.Set {
	var set []attribute.KeyValue
	for i := 0; i+1 < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return attribute.NewSet(set...)
}

// Decision counts a decision of the limiter. If it is shadowed
// (--mode shadow) its refusal refuses nothing.
func (m *Meter) Decision(ctx context.Context, d *limit.Decision, shadowed bool) {
	if d.Verdict < limit.Allowed || d.Verdict > limit.Unavailable || d.DecidedBy < limit.ByNoRule || d.DecidedBy > limit.ByFailClosed {
		m.Verdict(ctx, VerdictError, ByRequest) // the limiter answers no such thing
		return
	}
	m.requests.Add(ctx, 1, m.decided[d.Verdict][d.DecidedBy]...)
	m.Rules(ctx, d, shadowed)
}

// Rules counts what the rules said in a decision, and not the request: something
// else has the last word on it, and tells Verdict.
func (m *Meter) Rules(ctx context.Context, d *limit.Decision, shadowed bool) {
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		switch {
		case o.Rule.Mode == limit.Shadow: // told by Shadow
		case o.DecidedBy == 0: // another rule refused first, and this one was not asked
		case shadowed:
			m.Shadow(o.Rule, 1, short(o))
		default:
			m.rules.Add(ctx, 1, m.of(o.Rule).said(o)...)
		}
	}
}

func short(o *limit.Outcome) int64 {
	if o.Short {
		return 1
	}
	return 0
}

// said returns the labels of what a rule said.
func (s *series) said(o *limit.Outcome) []metric.AddOption {
	switch {
	case o.DecidedBy == limit.ByFallback || o.DecidedBy == limit.ByFailClosed:
		return s.unknown
	case o.Short:
		return s.denied
	default:
		return s.allowed
	}
}

// Verdict counts a request that was answered without the limiter. verdict and by
// are constants of this package or of limit.
func (m *Meter) Verdict(ctx context.Context, verdict, by string) {
	m.requests.Add(ctx, 1, labels("verdict", verdict, "decided_by", by)...)
}

// Shadow counts what a rule would have said of requests: short of them it would
// have refused.
func (m *Meter) Shadow(rule *limit.Rule, requests, short int64) {
	s := m.of(rule)
	// A series appears with its first count.
	if allowed := requests - short; allowed > 0 {
		m.shadow.Add(context.Background(), allowed, s.wouldAllow...)
	}
	if short > 0 {
		m.shadow.Add(context.Background(), short, s.wouldDeny...)
	}
}

// Dropped counts errands of the limiter that were given up.
func (m *Meter) Dropped(n int64) { m.dropped.Add(context.Background(), n) }

// Waited counts how long a decision waited for the counters.
func (m *Meter) Waited(d time.Duration) { m.waited.Record(context.Background(), d.Seconds()) }

func (m *Meter) of(rule *limit.Rule) *series {
	name := ruleName{rule.Domain, rule.ID}
	if known, ok := m.series.Load(name); ok {
		return known.(*series)
	}
	of := func(verdict string) []metric.AddOption {
		return labels(append(m.ruleLabels(rule.Domain, rule.ID), "verdict", verdict)...)
	}
	made, _ := m.series.LoadOrStore(name, &series{
		allowed: of("allowed"), denied: of("denied"), unknown: of("unknown"),
		wouldAllow: of("would_allow"), wouldDeny: of("would_deny"),
	})
	return made.(*series)
}

// CountFailures returns a logger that logs as log does and counts each error as a
// failed reload of a file ("rules" or "keys"). What follows a file says so nowhere
// but in its log, once for each content.
func (m *Meter) CountFailures(log *slog.Logger, file string) *slog.Logger {
	return slog.New(&failures{Handler: log.Handler(), count: func(ctx context.Context) {
		m.reloads.Add(ctx, 1, labels("file", file)...)
	}})
}

type failures struct {
	slog.Handler
	count func(context.Context)
}

func (f *failures) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError {
		f.count(ctx)
	}
	if !f.Handler.Enabled(ctx, record.Level) {
		return nil
	}
	return f.Handler.Handle(ctx, record)
}

func (f *failures) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &failures{Handler: f.Handler.WithAttrs(attrs), count: f.count}
}

func (f *failures) WithGroup(name string) slog.Handler {
	return &failures{Handler: f.Handler.WithGroup(name), count: f.count}
}

// Enabled keeps errors coming, whatever is logged.
func (f *failures) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || f.Handler.Enabled(ctx, level)
}
