package command

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
)

// LogFlags say how a service logs.
type LogFlags struct {
	LogFormat string `default:"text" placeholder:"text|json" help:"Format of the log on standard error (default text)."`
	LogLevel  string `default:"info" placeholder:"debug|info|warn|error" help:"Least severe level to log (default info)."`
}

// Log is a checked configuration of the log.
type Log struct {
	JSON  bool
	Level slog.Level
}

// Config checks the flags.
func (f *LogFlags) Config(faults *Faults) Log {
	log := Log{JSON: f.LogFormat == "json"}
	if f.LogFormat != "text" && f.LogFormat != "json" {
		faults.Add("log-format", f.LogFormat, "want text or json")
	}
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[f.LogLevel]
	if !ok {
		faults.Add("log-level", f.LogLevel, "want debug, info, warn or error")
	}
	log.Level = level
	return log
}

// New makes the logger.
func (l Log) New(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.Level}
	if l.JSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// DrainFlags say how a service ends. One whose callers keep their connections sets
// drain_delay where it embeds them: its callers see by an answer that it ends.
type DrainFlags struct {
	DrainDelay   string `default:"${drain_delay=0s}" placeholder:"DURATION" help:"On SIGTERM, how long to serve on while /readyz says no, 0s to 10m (default ${drain_delay=0s})."`
	DrainTimeout string `default:"30s" placeholder:"DURATION" help:"Then, how long requests in flight may take before they are cut, 0s to 1h (default 30s)."`
}

// Bounds of a drain.
const (
	drainDelayMax   = 10 * time.Minute
	drainTimeoutMax = time.Hour
)

// Config checks the flags; the logger is the caller's to add.
func (f *DrainFlags) Config(faults *Faults) serve.Config {
	return serve.Config{
		DrainDelay:   faults.Duration("drain-delay", f.DrainDelay, 0, drainDelayMax),
		DrainTimeout: faults.Duration("drain-timeout", f.DrainTimeout, 0, drainTimeoutMax),
	}
}

// TelemetryFlags say where telemetry is pushed to.
type TelemetryFlags struct {
	OTLPEndpoint string `name:"otlp-endpoint" placeholder:"URL" help:"Collector to push traces and metrics to by OTLP over HTTP, as http://127.0.0.1:4318. The standard OTEL_… variables work with and without it (default: nothing is pushed)."`
}

// Config checks the flag and the environment.
func (f *TelemetryFlags) Config(faults *Faults) telemetry.Export {
	export, err := telemetry.ParseExport(f.OTLPEndpoint, os.Getenv)
	if err != nil {
		faults.Add("otlp-endpoint", WithoutUser(f.OTLPEndpoint), err.Error())
	}
	return export
}

// OpenTelemetry makes the metrics of a service, as in "gateway", and what makes
// its spans: nil if they go nowhere.
func OpenTelemetry(ctx context.Context, process *serve.Process, service string, export telemetry.Export, log *slog.Logger) (*telemetry.Metrics, trace.TracerProvider, error) {
	cfg := telemetry.Config{Service: "shiplane-" + service, Export: export, Logger: log}
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
	return metrics, traces.Provider(), nil
}
