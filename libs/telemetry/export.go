package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// failuresEvery is the time between two lines on failed pushes.
const failuresEvery = time.Minute

// Export is where telemetry is pushed to, by OTLP over HTTP. The zero Export
// pushes nothing.
type Export struct {
	endpoint        string // base URL without a slash at the end; "" for what the environment says
	metrics, traces bool
}

// Traces reports whether traces are pushed.
func (e Export) Traces() bool { return e.traces }

// ParseExport reads where to push from an option (a base URL, as in
// http://127.0.0.1:4318; "" if it was not given) and from the standard variables
// OTEL_EXPORTER_OTLP_[TRACES_|METRICS_]ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL,
// OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER and OTEL_SDK_DISABLED, by getenv
// (os.Getenv). The SDK reads the others (headers, certificates, OTEL_TRACES_SAMPLER)
// from the environment itself.
func ParseExport(endpoint string, getenv func(string) string) (Export, error) {
	e := Export{endpoint: strings.TrimSuffix(endpoint, "/")}
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
			return Export{}, fmt.Errorf("want http://HOST[:PORT][/PATH] or https://…, without a password: headers come by OTEL_EXPORTER_OTLP_HEADERS")
		}
	}
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return Export{}, nil
	}
	var faults error
	wanted := func(signal string) bool {
		if getenv("OTEL_"+signal+"_EXPORTER") == "none" {
			return false
		}
		for _, name := range [...]string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"} {
			if p := getenv(name); p != "" && p != "http/protobuf" {
				faults = fmt.Errorf("%s is %q: want http/protobuf", name, p)
			}
		}
		return endpoint != "" || getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
	}
	e.metrics, e.traces = wanted("METRICS"), wanted("TRACES")
	if !e.metrics && !e.traces {
		return Export{}, nil
	}
	return e, faults
}

// Traces make a service's spans.
type Traces struct{ provider *sdktrace.TracerProvider }

// NewTraces makes the traces of a service that exports them. Which are sampled is
// said by OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG (default: all, and what
// the caller's trace says). It connects to nothing.
func NewTraces(ctx context.Context, cfg Config) (*Traces, error) {
	var options []otlptracehttp.Option
	if cfg.Export.endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(cfg.Export.endpoint+"/v1/traces"))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("making the exporter of traces: %w", err)
	}
	from, err := cfg.resource(ctx)
	if err != nil {
		return nil, err
	}
	return &Traces{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(spanPush{exporter, newFailures(cfg.Logger, "traces")}),
		sdktrace.WithResource(from),
	)}, nil
}

// Provider gives each package its tracer.
func (t *Traces) Provider() trace.TracerProvider { return t.provider }

// Close pushes the spans that were not pushed yet. It returns ctx's error if that
// ends first.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

func (c Config) metricReader(ctx context.Context) (sdk.Reader, error) {
	var options []otlpmetrichttp.Option
	if c.Export.endpoint != "" {
		options = append(options, otlpmetrichttp.WithEndpointURL(c.Export.endpoint+"/v1/metrics"))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("making the exporter of metrics: %w", err)
	}
	return sdk.NewPeriodicReader(metricPush{exporter, newFailures(c.Logger, "metrics")}), nil
}

// resource says whose telemetry it is; the environment may say it better
// (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES).
func (c Config) resource(ctx context.Context) (*resource.Resource, error) {
	named := []attribute.KeyValue{attribute.String("service.name", c.Service)}
	if c.Export != (Export{}) {
		// A collector must be able to tell pods apart, Prometheus knows whom it asks.
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("naming this instance: %w", err)
		}
		named = append(named, attribute.String("service.instance.id", fmt.Sprintf("%s-%d", host, os.Getpid())))
	}
	r, err := resource.New(ctx, resource.WithAttributes(named...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}

// failures tells the log of pushes that failed. The SDK would tell a global
// handler, which prints past the log.
type failures struct {
	log    *slog.Logger
	signal string
	often  *rate.Sometimes
}

func newFailures(log *slog.Logger, signal string) failures {
	return failures{log, signal, &rate.Sometimes{Interval: failuresEvery}}
}

func (f failures) tell(err error) {
	if err != nil {
		f.often.Do(func() { f.log.Warn("telemetry was not pushed and is lost", "signal", f.signal, "error", err) })
	}
}

type spanPush struct {
	sdktrace.SpanExporter
	failures
}

func (p spanPush) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	p.tell(p.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

type metricPush struct {
	sdk.Exporter
	failures
}

func (p metricPush) Export(ctx context.Context, metrics *metricdata.ResourceMetrics) error {
	p.tell(p.Exporter.Export(ctx, metrics))
	return nil
}
