package limitmeter

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/limiter"
)

// tokens is a figure of each rule, as limiter.RuleStats describes it.
type tokens struct {
	name, description string
	of                func(*limiter.RuleStats) int64
}

// The figures that only grow, and those that are of now.
var (
	sums = []tokens{
		{"leased_tokens", "Tokens that the store granted this process, for requests that waited and ahead of others.", func(r *limiter.RuleStats) int64 { return r.Leased }},
		{"returned_tokens", "Of the leased tokens those that the store was given back unspent.", func(r *limiter.RuleStats) int64 { return r.Returned }},
		{"lost_tokens", "Of the leased tokens those that were neither spent nor given back: their window ended, or the call that brought them back failed.", func(r *limiter.RuleStats) int64 { return r.Lost }},
		{"contention_holds", "Times that the store found a caller's counter short, and this process leaves it alone for a while.", func(r *limiter.RuleStats) int64 { return r.Holds }},
	}
	gauges = []tokens{
		{"held_tokens", "Tokens on lease in this process. Over all of a region it is what may be admitted late, above the limit.", func(r *limiter.RuleStats) int64 { return r.Held }},
		{"stranded_tokens", "Of the held tokens those that nobody has asked for within a second and no demand supports: they go back half a second later.", func(r *limiter.RuleStats) int64 { return r.Stranded }},
	}
)

// Watch adds what the limiter counts. stats is asked at each scrape.
func (m *Meter) Watch(stats func() limiter.Stats) error {
	w := &watch{stats: stats, labels: m.ruleLabels}
	var faults []error
	var all []metric.Observable
	counter := func(name, description string) metric.Int64ObservableCounter {
		c, err := m.meter.Int64ObservableCounter(m.prefix+name, metric.WithDescription(description))
		faults, all = append(faults, err), append(all, c)
		return c
	}
	w.calls = counter("store_asks", "Calls to the counters, for a request that waited or for an errand: hand-backs, and what is counted later.")
	for _, t := range sums {
		w.figures = append(w.figures, figure{counter(t.name, t.description), t.of})
	}
	for _, t := range gauges {
		g, err := m.meter.Int64ObservableGauge(m.prefix+t.name, metric.WithDescription(t.description))
		faults, all = append(faults, err), append(all, g)
		w.figures = append(w.figures, figure{g, t.of})
	}
	hot, err := m.meter.Float64ObservableGauge(m.prefix+"hot_admitted_ratio",
		metric.WithDescription("Of each rule's hottest caller: what this process admitted in the last whole 10 s, of burst + rate · 10 s (of a window or log: its limit, as often as it fits)."))
	w.hot = hot
	if err := errors.Join(append(faults, err)...); err != nil {
		return err
	}
	_, err = m.meter.RegisterCallback(w.observe, append(all, hot)...)
	return err
}

// watch tells what a limiter counts at each scrape.
type watch struct {
	stats   func() limiter.Stats
	labels  func(domain, id string) []string
	calls   metric.Int64ObservableCounter
	figures []figure
	hot     metric.Float64ObservableGauge
}

type figure struct {
	instrument metric.Int64Observable
	of         func(*limiter.RuleStats) int64
}

var (
	forRequest = metric.WithAttributes(attribute.String("for", "request"))
	forErrand  = metric.WithAttributes(attribute.String("for", "errand"))
)

func (w *watch) observe(_ context.Context, o metric.Observer) error {
	all := w.stats()
	o.ObserveInt64(w.calls, all.Asks, forRequest)
	o.ObserveInt64(w.calls, all.Errands, forErrand)
	for i := range all.Rules {
		r := &all.Rules[i]
		label := metric.WithAttributeSet(attributes(w.labels(r.Domain, r.ID)...))
		for _, f := range w.figures {
			o.ObserveInt64(f.instrument, f.of(r), label)
		}
		o.ObserveFloat64(w.hot, r.Hottest.Ratio(), label)
	}
	return nil
}
