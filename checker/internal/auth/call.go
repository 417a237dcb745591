package auth

import (
	"context"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Middleware serves only requests that may come. refuse answers all others that are
// no call of Connect, gRPC or gRPC-Web.
func (k *Keyring) Middleware(next http.Handler, refuse func(http.ResponseWriter, error)) http.Handler {
	rpc := connect.NewErrorWriter(connect.WithRequireConnectProtocolHeader())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := k.authenticate(r.Context(), bearer(r.Header.Get("Authorization")))
		switch {
		case err == nil:
			if ctx != r.Context() {
				r = r.WithContext(ctx)
			}
			next.ServeHTTP(w, r)
		case rpc.IsSupported(r):
			_ = rpc.Write(w, r, err) // an error of the connection is the server's to notice
		default:
			refuse(w, err)
		}
	})
}

// bearer returns the token of an Authorization field, "" for none.
func bearer(field string) string {
	scheme, text, ok := strings.Cut(field, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// healthPrefix begins the methods that everybody may call.
const healthPrefix = "/grpc.health.v1.Health/"

// Unary lets only calls pass that may come. status makes an error of gRPC of one of
// Connect.
func (k *Keyring) Unary(status func(error) error) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, q any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		ctx, err := k.enter(ctx, info.FullMethod)
		if err != nil {
			return nil, status(err)
		}
		return next(ctx, q)
	}
}

// Stream is Unary for streams, whose handlers need no role.
func (k *Keyring) Stream(status func(error) error) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if _, err := k.enter(stream.Context(), info.FullMethod); err != nil {
			return status(err)
		}
		return next(srv, stream)
	}
}

func (k *Keyring) enter(ctx context.Context, method string) (context.Context, error) {
	if strings.HasPrefix(method, healthPrefix) {
		return ctx, nil
	}
	token := ""
	if fields := metadata.ValueFromIncomingContext(ctx, "authorization"); len(fields) > 0 {
		token = bearer(fields[0])
	}
	return k.authenticate(ctx, token)
}
