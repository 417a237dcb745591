package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// What one client can take from a server, and for how long it stays.
const (
	handshakeTimeout = 10 * time.Second // from a connection to its first settings, TLS included
	headerBytesMax   = 64 << 10         // a call's metadata
	streamsMax       = 1000             // calls at once on a connection: a pod's are all on one
	idleTimeout      = 15 * time.Minute // a connection without a call
	pingAfter        = 30 * time.Second // a connection that is silent for so long is asked whether it lives
	pingTimeout      = 10 * time.Second
	pingsApart       = 10 * time.Second // a client that pings more often is cut off
	// A connection lives for so long (± 10 %) and is then replaced by its client:
	// that is how load comes to a server that has just started.
	ageMax      = 5 * time.Minute
	ageMaxGrace = time.Minute // then, for its calls to end
)

// workers are goroutines that take call after call and keep the stack that a call needs:
// for one that is new to it, the runtime spends a sixth of a hot decision on growing it.
// Calls that find them all busy get a goroutine of their own. Four times as many are
// slower, for their stacks take turns in the processor's cache.
const workers = 128

// Config is what a Server is made of.
type Config struct {
	TLS        *tls.Config // nil: without TLS
	RequestMax int         // bytes of a message
	Ready      func() error
	// Unary and Stream let calls pass or not.
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
	Traces trace.TracerProvider // nil: no spans
	Logger *slog.Logger
}

// Server is a gRPC server with health and reflection; other services are registered
// with it before it serves. It implements serve.Server.
type Server struct {
	*grpc.Server
	draining chan struct{}
}

// New makes a server.
func New(cfg Config) *Server {
	rescue := rescuer{cfg.Logger}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cfg.RequestMax), grpc.MaxHeaderListSize(headerBytesMax), grpc.MaxConcurrentStreams(streamsMax), grpc.NumStreamWorkers(workers),
		grpc.ConnectionTimeout(handshakeTimeout), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTimeout, MaxConnectionAge: ageMax, MaxConnectionAgeGrace: ageMaxGrace, Time: pingAfter, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(rescue.unary, cfg.Unary), grpc.ChainStreamInterceptor(rescue.stream, cfg.Stream),
	}
	if cfg.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(cfg.TLS)))
	}
	if cfg.Traces != nil { // an interceptor more in the chain: the last
		options = append(options, grpc.ChainUnaryInterceptor(spans{cfg.Traces.Tracer("github.com/shiplane/limits/checker")}.unary))
	}
	s := &Server{Server: grpc.NewServer(options...), draining: make(chan struct{})}
	healthv1.RegisterHealthServer(s, &health{ready: cfg.Ready, draining: s.draining, known: s.GetServiceInfo})
	reflection.Register(s)
	return s
}

// Serve implements serve.Server.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Drain implements serve.Server: clients are told to go on elsewhere, and calls in
// flight are waited for.
func (s *Server) Drain(ctx context.Context) error {
	close(s.draining)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.GracefulStop()
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		s.Stop() // GracefulStop returns then, too
		<-ended
		return ctx.Err()
	}
}

// rescuer keeps a panic of one call from ending the process.
type rescuer struct{ log *slog.Logger }

func (r rescuer) unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (a any, err error) {
	defer func() { r.rescue(info.FullMethod, recover(), &err) }()
	return next(ctx, q)
}

func (r rescuer) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() { r.rescue(info.FullMethod, recover(), &err) }()
	return next(srv, stream)
}

func (r rescuer) rescue(method string, p any, err *error) {
	if p != nil {
		r.log.Error("a call panicked", "doing", method, "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the call failed; the log of the checker tells more")
	}
}
