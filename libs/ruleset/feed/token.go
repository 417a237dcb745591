package feed

import (
	"context"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/bearer"
)

// token puts a bearer token into each call.
type token struct{ *bearer.Token }

// WrapUnary implements connect.Interceptor.
func (t token) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, call connect.AnyRequest) (connect.AnyResponse, error) {
		t.Authorize(call.Header())
		return next(ctx, call)
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (t token) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		t.Authorize(conn.RequestHeader())
		return conn
	}
}

// WrapStreamingHandler implements connect.Interceptor; no handler has it.
func (t token) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
