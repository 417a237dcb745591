package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"

	"github.com/shiplane/limits/gateway/internal/demo"
	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/keys"
	"github.com/shiplane/limits/gateway/internal/meter"
	"github.com/shiplane/limits/gateway/internal/proxy"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
)

// Output is where a gateway reports.
type Output struct {
	Stdout, Stderr io.Writer // for people, and for the log
	// Listening is called once everything is served, with the addresses that
	// were bound. Nil: nobody is told.
	Listening func(api, admin net.Addr)
}

// Run runs a gateway until ctx ends, and drains it. Its error is a usage error
// (serve.ExitCode) where a file or address of cfg cannot be used.
func Run(ctx context.Context, cfg Config, out Output) error {
	log := newLogger(cfg, out.Stderr)
	process := serve.New(serve.Config{Logger: log, DrainDelay: cfg.DrainDelay, DrainTimeout: cfg.DrainTimeout})
	defer process.Close()

	metrics, err := telemetry.New("shiplane-gateway")
	if err != nil {
		return err
	}
	process.OnClose("metrics", metrics.Close)
	in, err := open(process, cfg, metrics, log)
	if err != nil {
		return err
	}
	counters, err := openStore(process, cfg.Store, metrics.Provider(), log)
	if err != nil {
		return err
	}
	limits, err := limiter.New(limiter.Config{Store: counters.store, Pods: counters.pods, Unpaced: counters.local, Observer: in.meter, Logger: log})
	if err != nil {
		return err
	}
	process.OnClose("limiter", limits.Close)
	process.Go("rules", func(ctx context.Context) error { in.rules.Run(ctx); return nil })
	process.Go("keys", func(ctx context.Context) error { in.keys.Run(ctx); return nil })

	clients := &identity.Identifier{Keys: in.keys, RequireKey: cfg.RequireKey, Trusted: cfg.Trusted}
	handler := edge.New(edge.Config{
		Rules: in.rules, Limiter: limits, Identity: clients, Meter: in.meter, Logger: log,
		Upstream: proxy.New(proxy.Config{Upstream: in.upstream, Clients: clients, Failed: in.meter.Upstream, Logger: log}),
		Mode:     cfg.Mode, Legacy: cfg.Legacy, BodyMax: cfg.LoginBodyMax,
	})
	admin, err := process.Serve("--admin", cfg.Admin, serve.Admin{Ready: process.Ready, Metrics: metrics.Handler(), Pprof: cfg.Pprof}.Handler())
	if err != nil {
		return err
	}
	api, err := process.Serve("--listen", cfg.Listen, handler)
	if err != nil {
		return err
	}
	return process.Run(ctx, func() {
		log.Info("listening", "api", api.String(), "admin", admin.String(), "mode", string(cfg.Mode),
			"upstream", in.upstream.Redacted(), "rules", len(in.rules.Current().Rules()), "keys", in.keys.Current().Len())
		if cfg.Demo {
			log.Warn("this is the demo: its keys are known to everybody")
			demo.Welcome(out.Stdout, api.String(), admin.String())
		}
		if out.Listening != nil {
			out.Listening(api, admin)
		}
	})
}

// inputs is what the gateway works from, the demo's or the operator's.
type inputs struct {
	rules    *ruleset.Live
	keys     *keys.Live
	upstream *url.URL
	meter    *meter.Meter
}

func open(process *serve.Process, cfg Config, metrics *telemetry.Metrics, log *slog.Logger) (*inputs, error) {
	in := &inputs{}
	revision := func() int64 { return in.rules.Current().Revision() }
	known := func() int64 { return int64(in.keys.Current().Len()) }
	var err error
	if in.meter, err = meter.New(metrics.Provider(), revision, known); err != nil {
		return nil, err
	}
	plans := func() []string { return in.rules.Current().Plans() }
	if cfg.Demo {
		return in, in.openDemo(process, plans)
	}
	in.upstream = cfg.Upstream
	if in.rules, err = ruleset.Open(cfg.Rules, in.meter.CountFailures(log, "rules")); err != nil {
		return nil, serve.Usage(fmt.Errorf("--rules: %w", err))
	}
	in.keys = keys.Empty()
	if cfg.Keys == "" {
		return in, nil
	}
	if in.keys, err = keys.Open(cfg.Keys, plans, in.meter.CountFailures(log, "keys")); err != nil {
		return nil, serve.Usage(fmt.Errorf("--keys: %w", err))
	}
	return in, nil
}

func (in *inputs) openDemo(process *serve.Process, plans func() []string) (err error) {
	if in.rules, err = ruleset.OpenBytes("demo", demo.Rules); err != nil {
		return err
	}
	if in.keys, err = keys.OpenBytes("demo", demo.Keys, plans); err != nil {
		return err
	}
	address, err := process.Serve("demo upstream", "127.0.0.1:0", demo.Upstream())
	if err != nil {
		return err
	}
	in.upstream = &url.URL{Scheme: "http", Host: address.String()}
	return nil
}

func newLogger(cfg Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	if cfg.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
