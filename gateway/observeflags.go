package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
)

// observeFlags are the flags that say what is told of requests, and to whom.
type observeFlags struct {
	AccessLogSample string `default:"0" placeholder:"SHARE" help:"Share of admitted requests to log, 0 to 1. Refusals and failures are always logged, up to 10 a second (default 0)."`
	LogHashKeyFile  string `placeholder:"FILE" help:"File with at least 16 bytes that key the hashes of callers in the log, so that all gateways name a caller alike (default: a random key, so that hashes change with each start)."`
	OTLPEndpoint    string `name:"otlp-endpoint" placeholder:"URL" help:"Collector to push traces and metrics to by OTLP over HTTP, as http://127.0.0.1:4318. The standard OTEL_… variables work with and without it (default: nothing is pushed)."`
}

// ObserveConfig is a checked configuration of log, traces and metrics.
type ObserveConfig struct {
	Sample  float64
	HashKey string // path; "" for a random key
	Export  telemetry.Export
}

// Bounds of the key of hashes, in bytes.
const (
	hashKeyMin = 16
	hashKeyMax = 4 << 10
)

func (f *observeFlags) config(fault faultFunc) ObserveConfig {
	cfg := ObserveConfig{HashKey: f.LogHashKeyFile}
	var err error
	if cfg.Sample, err = strconv.ParseFloat(f.AccessLogSample, 64); err != nil || !(cfg.Sample >= 0 && cfg.Sample <= 1) {
		fault("access-log-sample", f.AccessLogSample, "want a share of 0 to 1, as 0.01")
	}
	if cfg.Export, err = telemetry.ParseExport(f.OTLPEndpoint, os.Getenv); err != nil {
		fault("otlp-endpoint", withoutUser(f.OTLPEndpoint), err.Error())
	}
	return cfg
}

// key returns the key of callers' hashes.
func (cfg *ObserveConfig) key() ([]byte, error) {
	if cfg.HashKey == "" {
		return []byte(rand.Text()), nil
	}
	content, err := filewatch.Read(cfg.HashKey, hashKeyMax)
	if err != nil {
		return nil, fmt.Errorf("--log-hash-key-file: %w", err)
	}
	key := strings.TrimRight(string(content), "\r\n")
	if len(key) < hashKeyMin {
		return nil, fmt.Errorf("--log-hash-key-file: %s has %d bytes: want %d to %d", cfg.HashKey, len(key), hashKeyMin, hashKeyMax)
	}
	return []byte(key), nil
}

// openTelemetry makes the metrics, and what makes spans: nil if they go nowhere.
func openTelemetry(ctx context.Context, process *serve.Process, observe ObserveConfig, log *slog.Logger) (*telemetry.Metrics, trace.Tracer, error) {
	cfg := telemetry.Config{Service: "shiplane-gateway", Export: observe.Export, Logger: log}
	metrics, err := telemetry.NewMetrics(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	process.OnClose("metrics", metrics.Close)
	if !cfg.Export.Traces() {
		return metrics, nil, nil
	}
	traces, err := telemetry.NewTraces(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	process.OnClose("traces", traces.Close)
	return metrics, traces.Tracer("github.com/shiplane/limits/gateway"), nil
}
