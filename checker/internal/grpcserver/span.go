package grpcserver

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// spans makes a span of each call under its caller's trace, but of health probes. It
// stands behind what lets calls pass: grpc's own hook for this (stats.Handler) comes
// before it, where a stranger's trace would choose what is sampled.
type spans struct{ tracer trace.Tracer }

func (s spans) unary(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := strings.TrimPrefix(info.FullMethod, "/")
	if strings.HasPrefix(method, healthv1.Health_ServiceDesc.ServiceName+"/") {
		return next(ctx, q)
	}
	given, _ := metadata.FromIncomingContext(ctx)
	ctx, span := s.tracer.Start(propagation.TraceContext{}.Extract(ctx, carrier(given)), method, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system.name", "grpc"), attribute.String("rpc.method", method)))
	defer span.End()
	a, err := next(ctx, q)
	code := status.Code(err)
	span.SetAttributes(attribute.String("rpc.response.status_code", code.String()))
	if serversFault(code) {
		span.SetStatus(codes.Error, "")
	}
	return a, err
}

// serversFault reports whether a code is a failure of the server's, as OpenTelemetry's
// conventions for gRPC have it.
func serversFault(code grpccodes.Code) bool {
	switch code {
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented, grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
		return true
	}
	return false
}

// carrier is a call's metadata, of which nothing is written.
type carrier metadata.MD

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if all := metadata.MD(c).Get(key); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return nil }
