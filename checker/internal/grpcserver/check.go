// Package grpcserver serves native gRPC, which costs half of what gRPC over
// connect-go does: CheckService, health and reflection. The same implementation
// stands behind it as behind Connect.
//
// CheckService is described by hand: protoc-gen-go-grpc gives its Go types the
// names that connect's have, and they share a package.
package grpcserver

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// RegisterCheck adds CheckService to a server.
func RegisterCheck(server grpc.ServiceRegistrar, service checkv1.CheckServiceHandler) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: checkv1.CheckServiceName,
		HandlerType: (*checkv1.CheckServiceHandler)(nil),
		Methods: []grpc.MethodDesc{
			method("Check", checkv1.CheckServiceCheckProcedure, service.Check),
			method("CheckBatch", checkv1.CheckServiceCheckBatchProcedure, service.CheckBatch),
			method("Acquire", checkv1.CheckServiceAcquireProcedure, service.Acquire),
			method("Join", checkv1.CheckServiceJoinProcedure, service.Join),
		},
		Metadata: checkv1.File_shiplane_check_v1_check_proto.Path(),
	}, service)
}

// method describes a unary call; procedure is its full name, as interceptors see it.
func method[Q, A any](name, procedure string, call func(context.Context, *Q) (*A, error)) grpc.MethodDesc {
	answer := func(ctx context.Context, q any) (any, error) {
		a, err := call(ctx, q.(*Q)) //nolint:forcetypeassert // made below
		if err != nil {
			return nil, Status(err)
		}
		return a, nil
	}
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			q := new(Q)
			if err := decode(q); err != nil {
				return nil, err
			}
			if interceptor == nil {
				return answer(ctx, q)
			}
			return interceptor(ctx, q, &grpc.UnaryServerInfo{Server: srv, FullMethod: procedure}, answer)
		},
	}
}

// Status makes an error of Connect one of gRPC: the codes have the same numbers,
// the details are the same messages. Any other error is UNKNOWN, and its text is
// not told.
func Status(err error) error {
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return status.Error(codes.Unknown, "an internal error; the log of the checker tells more")
	}
	s := status.New(codes.Code(failure.Code()), failure.Message())
	var details []protoadapt.MessageV1
	for _, d := range failure.Details() {
		if m, err := d.Value(); err == nil {
			details = append(details, protoadapt.MessageV1Of(m))
		}
	}
	if with, err := s.WithDetails(details...); err == nil {
		s = with
	}
	return s.Err()
}
