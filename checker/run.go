package checker

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"
	connectcors "connectrpc.com/cors"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"
	"github.com/rs/cors"
	"go.opentelemetry.io/otel/trace"

	"github.com/shiplane/limits/checker/internal/auth"
	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/checker/internal/envoy"
	"github.com/shiplane/limits/checker/internal/grpcserver"
	"github.com/shiplane/limits/checker/internal/rest"
	"github.com/shiplane/limits/checker/internal/service"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/counters"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/limitmeter"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// requestMax bounds a message: 256 requests or asks of some entries have 300 KiB.
const requestMax = 1 << 20 // bytes

// compressMin is the bytes of an answer from which compressing it is worth the while: a
// check's are some hundred.
const compressMin = 4 << 10

// Run runs a checker until ctx ends, and drains it. Its error is a usage error
// (serve.ExitCode) where a file or address of cfg cannot be used.
func Run(ctx context.Context, cfg Config, out Output) error {
	log := cfg.Log.New(out.Stderr)
	cfg.Drain.Logger = log
	process := serve.New(cfg.Drain)
	defer process.Close()
	metrics, traces, err := command.OpenTelemetry(ctx, process, "checker", cfg.Export, log)
	if err != nil {
		return err
	}
	meter, err := limitmeter.New(metrics.Provider(), limitmeter.Config{Service: "checker", Domains: true})
	if err != nil {
		return err
	}
	keys, err := auth.Open(auth.Config{
		Tokens: cfg.Tokens, PodTokens: cfg.PodTokens, Trusting: cfg.open(), Logger: meter.CountFailures(log, "tokens"),
		Refused: func(ctx context.Context) { meter.Verdict(ctx, limitmeter.VerdictUnauthorized, limitmeter.ByIdentity) },
	})
	if err != nil {
		return serve.Usage(err)
	}
	process.Go("tokens", func(ctx context.Context) error { keys.Run(ctx); return nil })
	tls, err := cfg.TLS.Open(process, log)
	if err != nil {
		return serve.Usage(err)
	}
	rules, err := openRules(ctx, process, cfg.Rules, meter.CountFailures(log, "rules"))
	if err != nil {
		return serve.Usage(err)
	}
	if err := rules.watch(metrics.Provider()); err != nil {
		return err
	}
	store, err := counters.Open(process, cfg.Store, metrics.Provider(), log)
	if err != nil {
		return err
	}
	observer := observer{meter, rules, cfg.Mode}
	limits, err := limiter.New(limiter.Config{Store: store.Store, Pods: store.Pods, Unpaced: store.Local, Budget: store.Budget, Observer: observer, Logger: log})
	if err != nil {
		return err
	}
	process.OnClose("limiter", limits.Close)
	if err := meter.Watch(limits.Stats); err != nil {
		return err
	}
	engine := decide.New(decide.Config{Domains: rules.sources(), Limiter: limits, Mode: cfg.Mode, Observer: observer})
	checks := service.New(service.Config{Engine: engine, Store: store.Store, Roster: store.Roster, PodOnly: keys.PodOnly, Logger: log})
	ready := func() error { return cmp.Or(process.Ready(), rules.ready(), store.Ready()) }
	handler, err := (&overHTTP{checks: checks, keys: keys, origins: cfg.Origins, ready: ready, traces: traces}).handler()
	if err != nil {
		return err
	}
	b := binding{process: process, cfg: cfg, endpoint: serve.Endpoint{Flag: "--listen", Address: cfg.Listen, TLS: tls, Handler: handler}}
	b.admin = serve.Admin{Ready: ready, Metrics: metrics.Handler(), Pprof: cfg.Pprof}
	b.grpc, err = native(grpcserver.Config{
		TLS: tls, RequestMax: requestMax, Ready: ready, Unary: keys.Unary(grpcserver.Status), Stream: keys.Stream(grpcserver.Status), Traces: traces, Logger: log,
	}, checks, envoy.Config{Engine: engine, Metrics: metrics.Provider(), Logger: log})
	if err != nil {
		return err
	}
	return b.run(ctx, log, rules, out)
}

// binding is what is served where.
type binding struct {
	process  *serve.Process
	cfg      Config
	admin    serve.Admin
	endpoint serve.Endpoint
	grpc     *grpcserver.Server
}

// run binds the addresses and serves until ctx ends.
func (b *binding) run(ctx context.Context, log *slog.Logger, rules domains, out Output) error {
	admin, err := b.process.Serve("--admin", b.cfg.Admin, b.admin.Handler())
	if err != nil {
		return err
	}
	api, err := b.process.ServeEndpoint(b.endpoint)
	if err != nil {
		return err
	}
	native, err := b.process.ServeWith("--grpc-listen", b.cfg.GRPCListen, b.grpc)
	if err != nil {
		return err
	}
	return b.process.Run(ctx, func() {
		log.Info("listening", "api", api.String(), "grpc", native.String(), "admin", admin.String(), "mode", string(b.cfg.Mode), "domains", rules.names())
		if b.cfg.open() {
			log.Warn("callers need no token: whoever is on this machine may check, and Acquire")
		}
		if out.Listening != nil {
			out.Listening(api, native, admin)
		}
	})
}

// native makes the server of gRPC, which answers checks in our words and in Envoy's.
func native(cfg grpcserver.Config, checks checkv1.CheckServiceHandler, envoys envoy.Config) (*grpcserver.Server, error) {
	server := grpcserver.New(cfg)
	grpcserver.RegisterCheck(server, checks)
	return server, envoy.Register(server, envoys)
}

// overHTTP is Connect, gRPC-Web and JSON: health for everybody, all else for who may
// call.
type overHTTP struct {
	checks  checkv1.CheckServiceHandler
	keys    *auth.Keyring
	origins []string // of web pages that may call
	ready   func() error
	traces  trace.TracerProvider // nil: none
}

func (o *overHTTP) handler() (http.Handler, error) {
	spans, err := telemetry.ConnectSpans(o.traces)
	if err != nil {
		return nil, err
	}
	inside := http.NewServeMux()
	inside.Handle(checkv1.NewCheckServiceHandler(o.checks, connect.WithReadMaxBytes(requestMax), connect.WithCompressMinBytes(compressMin), spans))
	names := grpcreflect.NewStaticReflector(checkv1.CheckServiceName)
	inside.Handle(grpcreflect.NewHandlerV1(names))
	inside.Handle(grpcreflect.NewHandlerV1Alpha(names))
	inside.Handle(rest.Path, telemetry.HTTPSpans(o.traces, rest.New(o.checks)))
	inside.HandleFunc("/", rest.NotFound)
	outside := http.NewServeMux()
	outside.Handle(grpchealth.NewHandler(health(o.ready)))
	outside.Handle("/", o.keys.Middleware(inside, rest.Refuse))
	if len(o.origins) == 0 {
		return outside, nil
	}
	headers := append(connectcors.AllowedHeaders(), "Authorization")
	if o.traces != nil {
		headers = append(headers, "Traceparent", "Tracestate")
	}
	return cors.New(cors.Options{
		AllowedOrigins: o.origins, AllowedMethods: connectcors.AllowedMethods(), ExposedHeaders: connectcors.ExposedHeaders(),
		AllowedHeaders: headers, MaxAge: preflightSeconds,
	}).Handler(outside), nil
}

// preflightSeconds is how long a browser goes by a preflight: as long as Chromium
// does at most.
const preflightSeconds = 7200
