// Package storemeter turns what stores over the network tell into metrics. Labels are
// servers (a shard by its slots, a checker by its address), classes of outcomes and
// states: a caller is never one.
package storemeter

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/store/breaker"
)

// latencyBounds are the histogram's, in seconds: around the 1 ms that a check
// may take and the 5 ms that it times out after.
var latencyBounds = []float64{0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.05, 0.1, 1}

// Meter is an observer of rediscluster and of remote. Safe for concurrent use.
type Meter struct {
	server      attribute.Key
	calls       metric.Float64Histogram
	transitions metric.Int64Counter
	states      sync.Map // shard → breaker.State
	clocks      sync.Map // shard → time.Duration
	labels      sync.Map // [2]string{shard, class} → []metric.RecordOption
}

// New makes the instruments. server is the label of what a call goes to: "shard" or
// "checker". pods is the count of the region's live pods.
func New(provider metric.MeterProvider, server string, pods func() int) (*Meter, error) {
	meter := provider.Meter("github.com/shiplane/limits/libs/store/storemeter")
	m := &Meter{server: attribute.Key(server)}
	var errs [5]error
	m.calls, errs[0] = meter.Float64Histogram("shiplane_store_call_duration", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(latencyBounds...),
		metric.WithDescription("Calls to the counter store by shard (or checker) and outcome: ok, or the class of the error. A timeout's charge is unknown; open means that the breaker let no call through."))
	m.transitions, errs[1] = meter.Int64Counter("shiplane_store_breaker_transitions", metric.WithDescription("Changes of a breaker, by the state it changed to."))
	_, errs[2] = meter.Int64ObservableGauge("shiplane_store_breaker_state", metric.WithDescription("A breaker: 0 closed, 1 open, 2 probing."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			each(&m.states, func(shard string, state breaker.State) { o.Observe(int64(state), m.label(shard)) })
			return nil
		}))
	_, errs[3] = meter.Float64ObservableGauge("shiplane_store_clock_ahead", metric.WithUnit("s"),
		metric.WithDescription("How far a shard's clock was ahead of this pod's at the last reply; below 0 by up to the way back."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			each(&m.clocks, func(shard string, ahead time.Duration) { o.Observe(ahead.Seconds(), m.label(shard)) })
			return nil
		}))
	_, errs[4] = meter.Int64ObservableGauge("shiplane_store_region_pods", metric.WithDescription("Live pods of the region that share the counters, as last heard."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error { o.Observe(int64(pods())); return nil }))
	return m, errors.Join(errs[:]...)
}

func (m *Meter) label(shard string) metric.ObserveOption {
	return metric.WithAttributes(m.server.String(shard))
}

func each[V any](m *sync.Map, visit func(shard string, v V)) {
	m.Range(func(shard, v any) bool { visit(shard.(string), v.(V)); return true })
}

// Call implements the observers.
func (m *Meter) Call(shard, class string, took time.Duration) {
	key := [2]string{shard, class}
	options, ok := m.labels.Load(key)
	if !ok {
		set := attribute.NewSet(m.server.String(shard), attribute.String("outcome", class))
		options, _ = m.labels.LoadOrStore(key, []metric.RecordOption{metric.WithAttributeSet(set)})
	}
	m.calls.Record(context.Background(), took.Seconds(), options.([]metric.RecordOption)...)
}

// Breaker implements the observers.
func (m *Meter) Breaker(shard string, _, to breaker.State) {
	m.states.Store(shard, to)
	m.transitions.Add(context.Background(), 1, metric.WithAttributes(m.server.String(shard), attribute.String("to", to.String())))
}

// Clock implements the observers.
func (m *Meter) Clock(shard string, ahead time.Duration) { m.clocks.Store(shard, ahead) }
