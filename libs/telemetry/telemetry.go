// Package telemetry makes a service's metrics: the OpenTelemetry SDK behind its
// API, read by Prometheus. It is the only package that imports the SDK or the
// exporter; everything else takes a metric.MeterProvider.
//
// Nothing is global: two services in one process (or two tests) have metrics of
// their own.
package telemetry

import (
	"context"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// seriesMax bounds the series of one instrument. Labels are small closed sets
// (rule, verdict, decided_by), so that it is reached by mistake only; what is
// above it is counted in one series labelled otel_metric_overflow.
const seriesMax = 10_000

// Metrics are one service's metrics. Safe for concurrent use.
type Metrics struct {
	provider *sdk.MeterProvider
	handler  http.Handler
}

// New makes the metrics of the named service, those of the Go runtime and the
// process among them. Close releases them.
func New(service string) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering runtime metrics: %w", err)
		}
	}
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("making the Prometheus exporter: %w", err)
	}
	return &Metrics{
		provider: sdk.NewMeterProvider(
			sdk.WithReader(reader),
			sdk.WithCardinalityLimit(seriesMax),
			sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", service))),
		),
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}),
	}, nil
}

// Provider makes the meters that instruments come from.
func (m *Metrics) Provider() metric.MeterProvider { return m.provider }

// Handler serves the metrics in Prometheus' text format, or OpenMetrics if asked.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Close stops the metrics. It returns ctx's error if that ends first.
func (m *Metrics) Close(ctx context.Context) error { return m.provider.Shutdown(ctx) }
