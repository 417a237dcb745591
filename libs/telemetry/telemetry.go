// Package telemetry makes a service's metrics and traces: the OpenTelemetry SDK
// behind its API. Metrics are read by Prometheus; both are pushed by OTLP if
// asked. It is the only package that imports the SDK or an exporter; everything
// else takes a metric.MeterProvider and a trace.TracerProvider.
//
// Nothing is global: two services in one process (or two tests) have metrics of
// their own.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
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

// New makes the metrics of the named service for Prometheus alone.
func New(service string) (*Metrics, error) {
	return NewMetrics(context.Background(), Config{Service: service})
}

// Config is whose telemetry it is and where it goes.
type Config struct {
	Service string       // service.name, as in shiplane-gateway
	Export  Export       // the zero Export pushes nothing
	Logger  *slog.Logger // told of failed pushes; required with an Export
}

// NewMetrics makes the metrics of a service, those of the Go runtime and the
// process among them. Close releases them. It connects to nothing: a collector
// that is away is told of by the log, later.
func NewMetrics(ctx context.Context, cfg Config) (*Metrics, error) {
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
	scraped, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("making the Prometheus exporter: %w", err)
	}
	from, err := cfg.resource(ctx)
	if err != nil {
		return nil, err
	}
	options := []sdk.Option{sdk.WithReader(scraped), sdk.WithCardinalityLimit(seriesMax), sdk.WithResource(from)}
	if cfg.Export.metrics {
		pushed, err := cfg.metricReader(ctx)
		if err != nil {
			return nil, err
		}
		options = append(options, sdk.WithReader(pushed))
	}
	return &Metrics{
		provider: sdk.NewMeterProvider(options...),
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}),
	}, nil
}

// Provider makes the meters that instruments come from.
func (m *Metrics) Provider() metric.MeterProvider { return m.provider }

// Handler serves the metrics in Prometheus' text format, or OpenMetrics if asked.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Close pushes what was not pushed yet and stops the metrics. It returns ctx's
// error if that ends first.
func (m *Metrics) Close(ctx context.Context) error { return m.provider.Shutdown(ctx) }
