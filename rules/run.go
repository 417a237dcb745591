package rules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/admin"
	"github.com/shiplane/limits/rules/internal/auth"
	"github.com/shiplane/limits/rules/internal/book"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/memstore"
	"github.com/shiplane/limits/rules/internal/pgstore"
	"github.com/shiplane/limits/rules/internal/rest"
	"github.com/shiplane/limits/rules/internal/rollout"
	"github.com/shiplane/limits/rules/internal/watch"
)

const (
	// requestMax bounds a request: a rule has a few hundred bytes, a pod's report
	// of 8,192 rules some hundred KiB.
	requestMax = 4 << 20 // bytes
	// storeRetry is the time between two attempts to prepare a store that is away.
	storeRetry = time.Second
	// passwordMax bounds the file of a password.
	passwordMax = 4 << 10 // bytes
)

// Run runs the service until ctx ends, and drains it. Its error is a usage error
// (serve.ExitCode) where a file or address of cfg cannot be used.
func Run(ctx context.Context, cfg Config, out Output) error {
	log := cfg.Log.New(out.Stderr)
	cfg.Drain.Logger = log
	process := serve.New(cfg.Drain)
	defer process.Close()
	metrics, traces, err := command.OpenTelemetry(ctx, process, "rules", cfg.Export, log)
	if err != nil {
		return err
	}
	tls, err := cfg.TLS.Open(process, log)
	if err != nil {
		return serve.Usage(err)
	}
	p, err := open(ctx, process, cfg, metrics.Provider(), log)
	if err != nil {
		return err
	}
	ready := func() error { return errors.Join(process.Ready(), p.ready()) }
	handler, err := p.handler(ready, traces)
	if err != nil {
		return err
	}
	adminAt, err := process.Serve("--admin", cfg.Admin, serve.Admin{Ready: ready, Metrics: metrics.Handler(), Pprof: cfg.Pprof}.Handler())
	if err != nil {
		return err
	}
	api, err := process.ServeEndpoint(serve.Endpoint{Flag: "--listen", Address: cfg.Listen, TLS: tls, Handler: handler})
	if err != nil {
		return err
	}
	process.OnClose("watchers", p.hub.Drain)
	return process.Run(ctx, func() {
		log.Info("listening", "api", api.String(), "admin", adminAt.String(), "store", storeName(cfg), "domain", cfg.Domain)
		if cfg.Store == "" {
			log.Warn("the rules are kept in memory: they end with this process")
		}
		if out.Listening != nil {
			out.Listening(api, adminAt)
		}
	})
}

// parts are what the service is made of.
type parts struct {
	cfg      Config
	log      *slog.Logger
	store    ledger.Store
	keys     *auth.Keyring
	rules    *book.Book
	hub      *watch.Hub
	seed     *rulesv1.Ruleset // nil for none
	prepared atomic.Bool
}

// open makes the parts and has process run them.
func open(ctx context.Context, process *serve.Process, cfg Config, meters metric.MeterProvider, log *slog.Logger) (*parts, error) {
	p := &parts{cfg: cfg, log: log}
	var err error
	if p.store, err = openStore(cfg, log); err != nil {
		return nil, serve.Usage(err)
	}
	process.OnClose("store", func(context.Context) error { p.store.Close(); return nil })
	if p.seed, err = readSeed(cfg.SeedFile); err != nil {
		return nil, serve.Usage(err)
	}
	p.keys = auth.NewKeyring(p.store, log, time.Now)
	if p.hub, err = watch.New(watch.Config{
		Permit: p.keys.Permit(rulesv1.Role_ROLE_POD), Reports: p.store, Logger: log, Metrics: meters,
		RollingOut: func(domain string) bool { return p.rules.RollingOut(domain) },
	}); err != nil {
		return nil, err
	}
	if p.rules, err = book.Open(ctx, book.Config{Store: p.store, Domain: cfg.Domain, Rollout: cfg.Rollout, Listener: p.hub, Logger: log}); err != nil {
		return nil, err
	}
	policy := rollout.Policy{BakeShadow: cfg.Bake, BakeCanary: cfg.Bake, Margin: cfg.Margin, Evidence: cfg.Evidence}
	guard := rollout.New(p.rules, p.store, policy, log, time.Now)
	process.Go("rules", p.follow)
	process.Go("rollouts", func(ctx context.Context) error { guard.Run(ctx); return nil })
	process.Go("tokens", func(ctx context.Context) error { p.keys.Run(ctx); return nil })
	process.Go("reports", p.hub.Run)
	return p, nil
}

// follow prepares the store, and then follows it.
func (p *parts) follow(ctx context.Context) error {
	if err := p.prepare(ctx); err != nil {
		return err
	}
	p.prepared.Store(true)
	p.rules.Run(ctx)
	return nil
}

func (p *parts) ready() error {
	if !p.prepared.Load() {
		return errors.New("the store is not prepared yet")
	}
	return p.rules.Ready()
}

// handler serves everything: health to everybody, all else to who has a token.
func (p *parts) handler(ready func() error, traces trace.TracerProvider) (http.Handler, error) {
	spans, err := telemetry.ConnectSpans(traces)
	if err != nil {
		return nil, err
	}
	options, service := connect.WithHandlerOptions(connect.WithReadMaxBytes(requestMax), spans), admin.New(p.rules, p.keys, p.log)
	inside := http.NewServeMux()
	inside.Handle(p.hub.Handler(options))
	inside.Handle(rulesv1.NewRulesServiceHandler(service, options))
	names := grpcreflect.NewStaticReflector(rulesv1.RulesServiceName, rulesv1.WatchServiceName)
	inside.Handle(grpcreflect.NewHandlerV1(names))
	inside.Handle(grpcreflect.NewHandlerV1Alpha(names))
	inside.Handle("/", telemetry.HTTPSpans(traces, rest.New(service)))
	outside := http.NewServeMux()
	outside.Handle(grpchealth.NewHandler(health(ready)))
	outside.Handle("/", p.keys.Middleware(inside, rest.Refuse))
	return outside, nil
}

// health answers for every service what /readyz says.
type health func() error

// Check implements grpchealth.Checker.
func (h health) Check(_ context.Context, q *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	switch q.Service {
	case "", rulesv1.RulesServiceName, rulesv1.WatchServiceName:
	default:
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no service %.100q", q.Service))
	}
	status := grpchealth.StatusServing
	if h() != nil {
		status = grpchealth.StatusNotServing
	}
	return &grpchealth.CheckResponse{Status: status}, nil
}

// openStore makes the store; a database that is away is no failure.
func openStore(cfg Config, log *slog.Logger) (ledger.Store, error) {
	if cfg.Store == "" {
		return memstore.New(), nil
	}
	listen := cfg.ListenURL
	if listen == "" {
		listen = cfg.Store
	}
	pg := pgstore.Config{URL: cfg.Store, ListenURL: listen, Logger: log}
	if cfg.Password != "" {
		read := func(context.Context) (string, error) {
			text, err := filewatch.Read(cfg.Password, passwordMax)
			return strings.TrimRight(string(text), "\r\n"), err
		}
		if _, err := read(context.Background()); err != nil {
			return nil, fmt.Errorf("--store-password-file: %w", err)
		}
		pg.Password = read
	}
	store, err := pgstore.Open(pg)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	return store, nil
}

func storeName(cfg Config) string {
	if cfg.Store == "" {
		return "memory"
	}
	return command.WithoutUser(cfg.Store)
}

// readSeed reads a rule file whole; nil for none.
func readSeed(file string) (*rulesv1.Ruleset, error) {
	if file == "" {
		return nil, nil
	}
	live, err := ruleset.Open(file, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, fmt.Errorf("--seed-file: %w", err)
	}
	return live.Current().Source(), nil
}

// prepare makes of an empty store one that can be worked with: tables, the first
// tokens, the rules of the seed file. It waits for a store that is away.
func (p *parts) prepare(ctx context.Context) error {
	for told := false; ; told = true {
		err := p.prepareNow(ctx)
		if err == nil || !errors.Is(err, ledger.ErrUnavailable) {
			return err
		}
		if !told {
			p.log.Warn("the rules store is away: it is waited for", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(storeRetry):
		}
	}
}

func (p *parts) prepareNow(ctx context.Context) error {
	if tables, ok := p.store.(interface{ Migrate(context.Context) error }); ok {
		if err := tables.Migrate(ctx); err != nil {
			return fmt.Errorf("making the tables: %w", err)
		}
	}
	firsts := []auth.First{{File: p.cfg.AdminToken, Name: "first admin", Role: rulesv1.Role_ROLE_ADMIN}}
	if p.cfg.PodToken != "" {
		firsts = append(firsts, auth.First{File: p.cfg.PodToken, Name: "first pods", Role: rulesv1.Role_ROLE_POD})
	}
	if err := p.keys.Bootstrap(ctx, firsts); err != nil {
		return err
	}
	if p.seed == nil {
		return nil
	}
	if err := p.rules.Load(ctx); err != nil { // they were not there to be read before the tables were
		return err
	}
	done, err := p.rules.Import(ctx, "seed file", p.seed)
	if err != nil {
		return fmt.Errorf("--seed-file %s: %w", p.cfg.SeedFile, err)
	}
	if !done {
		p.log.Info("the domain has rules: the seed file was not looked at", "domain", p.seed.GetDomain(), "file", p.cfg.SeedFile)
	}
	return nil
}
