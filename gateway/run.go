package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/url"

	"go.opentelemetry.io/otel/trace"

	"github.com/shiplane/limits/gateway/internal/access"
	"github.com/shiplane/limits/gateway/internal/demo"
	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/meter"
	"github.com/shiplane/limits/gateway/internal/proxy"
	"github.com/shiplane/limits/gateway/internal/respond"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
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
	log := cfg.Log.New(out.Stderr)
	cfg.Drain.Logger = log
	process := serve.New(cfg.Drain)
	defer process.Close()

	metrics, traces, err := command.OpenTelemetry(ctx, process, "gateway", cfg.Export, log)
	if err != nil {
		return err
	}
	in, err := open(process, cfg, metrics, log)
	if err != nil {
		return err
	}
	counters, top, err := openCountedStore(process, cfg.Store, metrics.Provider(), log)
	if err != nil {
		return err
	}
	limits, err := limiter.New(limiter.Config{Store: counters.Store, Pods: counters.Pods, Unpaced: counters.Local, Budget: counters.Budget, Observer: in.observer(), Logger: log})
	if err != nil {
		return err
	}
	process.OnClose("limiter", limits.Close)
	if err := in.meter.Watch(limits.Stats); err != nil {
		return err
	}
	for name, follow := range in.follow {
		process.Go(name, func(ctx context.Context) error { follow(ctx); return nil })
	}

	clients, answers := in.clients(cfg), respond.New(in.denied, cfg.Origins)
	trusted := func(remote string) bool { return clients.Trusts(clients.Address(remote, nil)) }
	upstream := proxy.New(proxy.Config{
		Pools: in.pools, Timeout: cfg.Proxy.UpstreamTimeout, HealthPath: cfg.Proxy.UpstreamHealth, StrictPaths: cfg.Proxy.StrictPaths,
		Trusted: trusted, Withheld: clients.Withheld, Failed: in.meter.Upstream, Answers: answers, Logger: log,
	})
	if err := in.meter.Upstreams(upstream.Serving); err != nil {
		return err
	}
	process.Go("upstream health", func(ctx context.Context) error { upstream.Run(ctx); return nil })
	handler := edge.New(edge.Config{
		Rules: in.rules, Now: in.rules.Now, Decided: in.rules.Decided, Limiter: limits, Identity: clients, Answers: answers, Meter: in.meter, Logger: log, Upstream: upstream,
		Mode: cfg.Mode, Charge: cfg.Charge, Legacy: cfg.Legacy, BodyMax: cfg.LoginBodyMax,
	})
	ready := func() error { return cmp.Or(process.Ready(), in.ready(cfg.Mode), counters.Ready()) }
	admin, err := process.Serve("--admin", cfg.Admin, withTop(serve.Admin{Ready: ready, Metrics: metrics.Handler(), Pprof: cfg.Pprof}.Handler(), top, limits.Stats))
	if err != nil {
		return err
	}
	api, err := process.ServeEndpoint(serve.Endpoint{
		Flag: "--listen", Address: cfg.Listen, TLS: in.tls, ClientTimeout: cfg.Proxy.ClientTimeout,
		Handler: access.New(access.Config{
			Next: handler, Trusted: trusted, Logger: log, Sample: cfg.Observe.Sample, HashKey: in.hashKey, Tracer: tracer(traces),
		}),
	})
	if err != nil {
		return err
	}
	return process.Run(ctx, func() { in.announce(cfg, out, log, api, admin) })
}

// tracer makes the gateway's spans; nil if they go nowhere.
func tracer(traces trace.TracerProvider) trace.Tracer {
	if traces == nil {
		return nil
	}
	return traces.Tracer("github.com/shiplane/limits/gateway")
}

// announce tells that everything is served.
func (in *inputs) announce(cfg Config, out Output, log *slog.Logger, api, admin net.Addr) {
	_, rules := in.rules.Figures()
	log.Info("listening", "api", api.String(), "admin", admin.String(), "mode", string(cfg.Mode),
		"upstream", upstreams(in.pools), "rules", rules, "keys", in.keys.Current().Len())
	if cfg.Demo {
		log.Warn("this is the demo: its keys are known to everybody")
		demo.Welcome(out.Stdout, api.String(), admin.String())
	}
	if out.Listening != nil {
		out.Listening(api, admin)
	}
}

// inputs is what the gateway works from, the demo's or the operator's.
type inputs struct {
	*files
	pools   []Pool
	meter   *meter.Meter
	tls     *tls.Config // nil: callers are served without TLS
	hashKey []byte
}

func open(process *serve.Process, cfg Config, metrics *telemetry.Metrics, log *slog.Logger) (*inputs, error) {
	in := &inputs{pools: cfg.Proxy.Pools}
	revision := func() int64 { revision, _ := in.rules.Figures(); return revision }
	known := func() int64 { return int64(in.keys.Current().Len()) }
	var err error
	if in.meter, err = meter.New(metrics.Provider(), revision, known); err != nil {
		return nil, err
	}
	var faults []error
	in.files, faults = openFiles(cfg, func(file string) *slog.Logger { return in.meter.CountFailures(log, file) })
	if in.tls, err = cfg.Proxy.TLS.Open(process, log); err != nil {
		faults = append(faults, err)
	}
	if in.hashKey, err = cfg.Observe.key(); err != nil {
		faults = append(faults, err)
	}
	if err := combine(faults); err != nil {
		return nil, serve.Usage(err)
	}
	if err := rulesource.Watch(metrics.Provider(), "gateway", map[string]*rulesource.Source{"": in.rules}); err != nil {
		return nil, err
	}
	if cfg.Demo {
		address, err := process.Serve("demo upstream", "127.0.0.1:0", demo.Upstream())
		if err != nil {
			return nil, err
		}
		in.pools = []Pool{{URLs: []*url.URL{{Scheme: "http", Host: address.String()}}}}
	}
	return in, nil
}

// clients tells callers apart as cfg says.
func (in *files) clients(cfg Config) *identity.Identifier {
	i := &identity.Identifier{
		RequireKey: cfg.RequireKey, DefaultPlan: cfg.DefaultPlan, Trusted: cfg.Trusted,
		AddressHeader: cfg.AddressHeader, AccountHeader: cfg.AccountHeader, PlanHeader: cfg.PlanHeader,
	}
	if cfg.Demo || cfg.Keys != "" {
		i.Keys = in.keys
	}
	if in.tokens != nil {
		i.Tokens = in.tokens
	}
	return i
}
