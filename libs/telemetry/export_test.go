package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/telemetry"
	"github.com/shiplane/limits/libs/telemetry/telemetrytest"
)

func none(string) string { return "" }

// TestExportIsOffUnlessAsked: nothing is pushed without an endpoint, a signal can
// be turned off, and what cannot be spoken is refused.
func TestExportIsOffUnlessAsked(t *testing.T) {
	for _, c := range []struct {
		name, endpoint string
		env            map[string]string
		traces, off    bool
		fault          string
	}{
		{name: "nothing", off: true},
		{name: "a flag", endpoint: "http://127.0.0.1:4318", traces: true},
		{name: "the environment", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, traces: true},
		{name: "traces alone", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, traces: true},
		{name: "metrics alone", env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c"}},
		{name: "no traces", endpoint: "http://c", env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}},
		{name: "disabled", endpoint: "http://c", env: map[string]string{"OTEL_SDK_DISABLED": "true"}, off: true},
		{name: "gRPC", endpoint: "http://c", env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, fault: "http/protobuf"},
		{name: "JSON", endpoint: "http://c", env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, fault: "http/protobuf"},
		{name: "no URL", endpoint: "collector:4318", fault: "want http://"},
		{name: "a password", endpoint: "http://me:secret@c", fault: "OTEL_EXPORTER_OTLP_HEADERS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := telemetry.ParseExport(c.endpoint, func(name string) string { return c.env[name] })
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "secret") {
					t.Errorf("got %v, want %s", err, c.fault)
				}
				return
			}
			if err != nil || e.Traces() != c.traces || (e == telemetry.Export{}) != c.off {
				t.Errorf("got %+v, %v", e, err)
			}
		})
	}
}

// TestMetricsAndTracesArePushed: to the endpoint, at the latest when they are
// closed, and Prometheus reads the same counts.
func TestMetricsAndTracesArePushed(t *testing.T) {
	c := telemetrytest.Start(t)
	export, err := telemetry.ParseExport(c.URL+"/", none)
	if err != nil {
		t.Fatal(err)
	}
	cfg := telemetry.Config{Service: "gateway", Export: export, Logger: slog.New(slog.DiscardHandler)}
	m, err := telemetry.NewMetrics(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	traces, err := telemetry.NewTraces(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	count(t, m, "allowed")
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "GET labels")
	span.End()
	if text := scrape(t, m); !strings.Contains(text, `shiplane_requests_total{verdict="allowed"} 3`) {
		t.Errorf("the scrape lacks the count:\n%s", text)
	}
	for _, closing := range []func(context.Context) error{m.Close, traces.Close} {
		if err := closing(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]string{"/v1/metrics": "shiplane_requests", "/v1/traces": "GET labels"} {
		if !strings.Contains(c.Sent(path), want) || !strings.Contains(c.Sent(path), "service.instance.id") {
			t.Errorf("%s got %q, want %s of an instance", path, c.Sent(path), want)
		}
	}
}

// TestFailedPushIsLogged: where the service logs, and nothing else fails.
func TestFailedPushIsLogged(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	export, err := telemetry.ParseExport(server.URL, none)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	traces, err := telemetry.NewTraces(t.Context(), telemetry.Config{Service: "gateway", Export: export, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	_, span := traces.Provider().Tracer("test").Start(t.Context(), "GET labels")
	span.End()
	if err := traces.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "signal=traces") {
		t.Errorf("the log is %q", &log)
	}
}
