// Package meter counts what the gateway does: what libs/limitmeter counts of every
// service, and what becomes of requests that were admitted.
package meter

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/limitmeter"
)

// Meter counts. Safe for concurrent use. It is the limiter's Observer.
type Meter struct {
	*limitmeter.Meter
	own      metric.Meter
	upstream metric.Int64Counter
}

// New makes the instruments. revision and keys are asked at each scrape.
func New(provider metric.MeterProvider, revision, keys func() int64) (*Meter, error) {
	decisions, err1 := limitmeter.New(provider, limitmeter.Config{Service: "gateway"})
	own := provider.Meter("github.com/shiplane/limits/gateway")
	upstream, err2 := own.Int64Counter("shiplane_gateway_upstream_errors",
		metric.WithDescription("Requests to which the upstream gave no answer, by reason."))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &Meter{decisions, own, upstream}, errors.Join(
		decisions.Gauge("rules_revision", "Revision of the rules in force.", revision),
		decisions.Gauge("keys_loaded", "API keys in force.", keys))
}

// Upstream counts a request without an answer; reason is a constant of proxy.
func (m *Meter) Upstream(reason string) {
	m.upstream.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", reason)))
}

// Upstreams tells at each scrape which upstreams serve.
func (m *Meter) Upstreams(serving func() map[string]bool) error {
	_, err := m.own.Int64ObservableGauge("shiplane_gateway_upstream_serving",
		metric.WithDescription("1 if the upstream takes its turns, 0 if it is left out while there are others."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for upstream, serves := range serving() {
				value := int64(0)
				if serves {
					value = 1
				}
				o.Observe(value, metric.WithAttributes(attribute.String("upstream", upstream)))
			}
			return nil
		}))
	return err
}
