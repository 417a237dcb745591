package watch

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meter counts what the hub does. Labels are small closed sets and domains; a pod
// is never a label.
type meter struct {
	cut     metric.Int64Counter
	wholes  metric.Int64Counter
	encoded metric.Int64Counter
	delay   metric.Float64Histogram
	reports metric.Int64Counter
}

var (
	slowWatcher   = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", "slow")))
	drainsAway    = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", "draining")))
	reportStored  = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", "stored")))
	reportDropped = metric.WithAttributeSet(attribute.NewSet(attribute.String("result", "dropped")))
)

// delays are the bounds of the histogram, in seconds: the aim is 0.2 for all of the
// way.
var delays = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .2, .5, 1, 2.5, 5, 10}

// newMeter makes the instruments. The hub is asked at each scrape.
func newMeter(provider metric.MeterProvider, h *Hub) (*meter, error) {
	from := provider.Meter("github.com/shiplane/limits/rules")
	m := &meter{}
	var faults []error
	counter := func(name, description string) metric.Int64Counter {
		c, err := from.Int64Counter(name, metric.WithDescription(description))
		faults = append(faults, err)
		return c
	}
	gauge := func(name, description string) metric.Int64ObservableGauge {
		g, err := from.Int64ObservableGauge(name, metric.WithDescription(description))
		faults = append(faults, err)
		return g
	}
	m.cut = counter("shiplane_rules_watches_cut", "Watches that this instance has ended: of watchers that were too slow, or because it drained.")
	m.wholes = counter("shiplane_rules_watch_snapshots_sent", "Times that a watcher was sent the whole ruleset.")
	m.encoded = counter("shiplane_rules_watch_snapshots_encoded", "Times that the whole ruleset was encoded for watchers; far fewer than were sent.")
	m.reports = counter("shiplane_rules_reports", "Reports of pods: stored, or dropped because the database could not be reached.")
	delay, err := from.Float64Histogram("shiplane_rules_watch_send_delay", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(delays...),
		metric.WithDescription("From when this instance learned of a change until one watcher's connection had taken it."))
	m.delay, faults = delay, append(faults, err)

	watchers := gauge("shiplane_rules_watchers", "Watches that are open.")
	revision := gauge("shiplane_rules_watch_revision", "Last revision of each domain that watchers are sent.")
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	_, err = from.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		o.ObserveInt64(watchers, int64(h.watchers))
		for name, d := range h.domains {
			o.ObserveInt64(revision, d.head(), metric.WithAttributes(attribute.String("domain", name)))
		}
		return nil
	}, watchers, revision)
	return m, err
}

// ended counts a watch that we have ended.
func (m *meter) ended(ctx context.Context, err error) {
	switch {
	case errors.Is(err, errSlow):
		m.cut.Add(ctx, 1, slowWatcher)
	case errors.Is(err, errDraining):
		m.cut.Add(ctx, 1, drainsAway)
	}
}

func (m *meter) sentChange(ctx context.Context, after time.Duration) {
	m.delay.Record(ctx, after.Seconds())
}

func (m *meter) sentWhole(ctx context.Context, made bool) {
	m.wholes.Add(ctx, 1)
	if made {
		m.encoded.Add(ctx, 1)
	}
}

func (m *meter) stored(ctx context.Context, n int, err error) {
	if err != nil {
		m.reports.Add(ctx, int64(n), reportDropped)
		return
	}
	m.reports.Add(ctx, int64(n), reportStored)
}
