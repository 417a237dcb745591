package envoy

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/shiplane/limits/checker/internal/decide"
)

// Config is what a Service is made of. All of it is required.
type Config struct {
	Engine  *decide.Engine
	Metrics metric.MeterProvider
	Logger  *slog.Logger
}

// Service implements RateLimitService. Safe for concurrent use.
type Service struct {
	pb.UnimplementedRateLimitServiceServer
	engine *decide.Engine
	notes  *notes
	spare  sync.Pool // of *ask
}

// Register makes a Service and adds it to a server. The error is the meter's.
func Register(server grpc.ServiceRegistrar, cfg Config) error {
	notes, err := newNotes(cfg.Metrics, cfg.Logger)
	if err != nil {
		return err
	}
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
		HandlerType: pb.RateLimitService_ServiceDesc.HandlerType,
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
		Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
	}, &Service{engine: cfg.Engine, notes: notes, spare: sync.Pool{New: func() any { return &ask{} }}})
	return nil
}

// handle is the generated handler, but for messages with a text that is not UTF-8:
// gRPC ends their call with an error, which an Envoy lets pass, and a client brings
// that about by a header. So a message is taken as fields that nobody knows, which
// any may be, and read from those.
//
//nolint:revive // the order is gRPC's
func handle(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	var raw emptypb.Empty
	if err := decode(&raw); err != nil {
		return nil, err
	}
	s := srv.(*Service) //nolint:forcetypeassert // of Register
	q := &pb.RateLimitRequest{}
	unread := proto.Unmarshal(raw.ProtoReflect().GetUnknown(), q)
	answer := func(ctx context.Context, _ any) (any, error) { return s.ShouldRateLimit(ctx, q) }
	if unread != nil {
		answer = func(ctx context.Context, _ any) (any, error) { return s.unreadable(ctx, unread), nil }
	}
	if interceptor == nil {
		return answer(ctx, q)
	}
	return interceptor(ctx, q, &grpc.UnaryServerInfo{Server: srv, FullMethod: pb.RateLimitService_ShouldRateLimit_FullMethodName}, answer)
}

// unreadable answers a message that is none.
func (s *Service) unreadable(ctx context.Context, err error) *pb.RateLimitResponse {
	s.notes.count(unreadableValue)
	s.notes.once(unreadableValue, err.Error())
	s.engine.Failed(ctx, err)
	if !s.engine.Enforces() {
		return unlimited(0)
	}
	return unheard(0, -1)
}

// ShouldRateLimit implements RateLimitService. A refusal is an answer; the error is
// INVALID_ARGUMENT about what an Envoy's configuration has to mend, UNAVAILABLE while
// there are no rules, and that of a call which had ended.
func (s *Service) ShouldRateLimit(ctx context.Context, q *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	r, err := s.decide(ctx, q)
	if err == nil {
		return r, nil
	}
	var badCharge *decide.FieldError
	var badRequest *fault
	switch {
	case errors.As(err, &badCharge), errors.As(err, &badRequest):
		s.notes.count(invalid)
		s.notes.once(invalid, err.Error())
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, decide.ErrNoRules):
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return nil, status.FromContextError(err).Err()
}

func (s *Service) decide(ctx context.Context, q *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	a := s.spare.Get().(*ask) //nolint:forcetypeassert // the pool's own
	defer s.spare.Put(a)
	if err := s.read(q, a); err != nil {
		s.engine.Failed(ctx, err)
		return nil, err
	}
	if a.unreadable != nil && s.engine.Enforces() {
		s.engine.Failed(ctx, a.unreadable)
		return unheard(len(a.of), a.refused), nil
	}
	answer, err := s.engine.Decide(ctx, a.charges)
	if err != nil {
		return nil, err
	}
	defer answer.Release()
	return a.respond(answer, s.engine.Enforces()), nil
}
