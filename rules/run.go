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

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/serve"
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
	metrics, _, err := command.OpenTelemetry(ctx, process, "rules", cfg.Export, log)
	if err != nil {
		return err
	}
	tls, err := cfg.TLS.Open(process, log)
	if err != nil {
		return serve.Usage(err)
	}
	store, err := openStore(cfg, log)
	if err != nil {
		return serve.Usage(err)
	}
	process.OnClose("store", func(context.Context) error { store.Close(); return nil })

	keys := auth.NewKeyring(store, log, time.Now)
	var rules *book.Book
	hub, err := watch.New(watch.Config{
		Permit: keys.Permit(rulesv1.Role_ROLE_POD), Reports: store, Logger: log, Metrics: metrics.Provider(),
		RollingOut: func(domain string) bool { return rules.RollingOut(domain) },
	})
	if err != nil {
		return err
	}
	seed, err := readSeed(cfg.SeedFile)
	if err != nil {
		return serve.Usage(err)
	}
	if rules, err = book.Open(ctx, book.Config{Store: store, Domain: cfg.Domain, Rollout: cfg.Rollout, Listener: hub, Logger: log}); err != nil {
		return err
	}
	policy := rollout.Policy{BakeShadow: cfg.Bake, BakeCanary: cfg.Bake, Margin: cfg.Margin, Evidence: cfg.Evidence}
	guard := rollout.New(rules, store, policy, log, time.Now)
	var prepared atomic.Bool
	process.Go("rules", func(ctx context.Context) error {
		if err := prepare(ctx, store, keys, rules, seed, cfg, log); err != nil {
			return err
		}
		prepared.Store(true)
		rules.Run(ctx)
		return nil
	})
	process.Go("rollouts", func(ctx context.Context) error { guard.Run(ctx); return nil })
	process.Go("tokens", func(ctx context.Context) error { keys.Run(ctx); return nil })
	process.Go("reports", hub.Run)

	ready := func() error {
		if !prepared.Load() {
			return errors.New("the store is not prepared yet")
		}
		return errors.Join(process.Ready(), rules.Ready())
	}
	adminAt, err := process.Serve("--admin", cfg.Admin, serve.Admin{Ready: ready, Metrics: metrics.Handler(), Pprof: cfg.Pprof}.Handler())
	if err != nil {
		return err
	}
	api, err := process.ServeEndpoint(serve.Endpoint{Flag: "--listen", Address: cfg.Listen, TLS: tls, Handler: handler(admin.New(rules, keys, log), hub, keys, ready)})
	if err != nil {
		return err
	}
	process.OnClose("watchers", hub.Drain)
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

// handler serves everything: health to everybody, all else to who has a token.
func handler(service *admin.Service, hub *watch.Hub, keys *auth.Keyring, ready func() error) http.Handler {
	limits := connect.WithReadMaxBytes(requestMax)
	inside := http.NewServeMux()
	inside.Handle(hub.Handler(limits))
	inside.Handle(rulesv1.NewRulesServiceHandler(service, limits))
	names := grpcreflect.NewStaticReflector(rulesv1.RulesServiceName, rulesv1.WatchServiceName)
	inside.Handle(grpcreflect.NewHandlerV1(names))
	inside.Handle(grpcreflect.NewHandlerV1Alpha(names))
	inside.Handle("/", rest.New(service))
	outside := http.NewServeMux()
	outside.Handle(grpchealth.NewHandler(health(ready)))
	outside.Handle("/", keys.Middleware(inside, rest.Refuse))
	return outside
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
	if h() != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
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
		if _, err := read(nil); err != nil { //nolint:staticcheck // it looks at no context
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
func prepare(ctx context.Context, store ledger.Store, keys *auth.Keyring, rules *book.Book, seed *rulesv1.Ruleset, cfg Config, log *slog.Logger) error {
	for told := false; ; told = true {
		err := prepareNow(ctx, store, keys, rules, seed, cfg, log)
		if err == nil || !errors.Is(err, ledger.ErrUnavailable) {
			return err
		}
		if !told {
			log.Warn("the rules store is away: it is waited for", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(storeRetry):
		}
	}
}

func prepareNow(ctx context.Context, store ledger.Store, keys *auth.Keyring, rules *book.Book, seed *rulesv1.Ruleset, cfg Config, log *slog.Logger) error {
	if tables, ok := store.(interface{ Migrate(context.Context) error }); ok {
		if err := tables.Migrate(ctx); err != nil {
			return fmt.Errorf("making the tables: %w", err)
		}
	}
	firsts := []auth.First{{File: cfg.AdminToken, Name: "first admin", Role: rulesv1.Role_ROLE_ADMIN}}
	if cfg.PodToken != "" {
		firsts = append(firsts, auth.First{File: cfg.PodToken, Name: "first pods", Role: rulesv1.Role_ROLE_POD})
	}
	if err := keys.Bootstrap(ctx, firsts); err != nil {
		return err
	}
	if seed == nil {
		return nil
	}
	done, err := rules.Import(ctx, "seed file", seed)
	if err != nil {
		return fmt.Errorf("--seed-file %s: %w", cfg.SeedFile, err)
	}
	if !done {
		log.Info("the domain has rules: the seed file was not looked at", "domain", seed.GetDomain(), "file", cfg.SeedFile)
	}
	return nil
}
