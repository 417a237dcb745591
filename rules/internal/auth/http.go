package auth

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

type principalKey struct{}

// WithPrincipal returns a context of a request by p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// Need returns who makes the request of ctx if its role includes role: each of
// viewer, editor and admin includes the ones before it, pod includes none and is
// included in none. Else it returns an error of connect that says what is needed.
func Need(ctx context.Context, role rulesv1.Role) (Principal, error) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	if !ok {
		return Principal{}, connect.NewError(connect.CodeUnauthenticated, ErrMissing)
	}
	pod := role == rulesv1.Role_ROLE_POD || p.Role == rulesv1.Role_ROLE_POD
	if pod && p.Role != role || p.Role < role {
		return Principal{}, connect.NewError(connect.CodePermissionDenied, errors.New("the role "+roleName(p.Role)+" may not do this: want "+roleName(role)))
	}
	return p, nil
}

// Middleware serves only requests with a good token, with their Principal in the
// context. refuse answers all others that are no call of Connect, gRPC or gRPC-Web.
func (k *Keyring) Middleware(next http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	rpc := connect.NewErrorWriter(connect.WithRequireConnectProtocolHeader())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := k.Authenticate(r.Context(), bearer(r.Header))
		if err == nil {
			next.ServeHTTP(w, r.WithContext(WithPrincipal(r.Context(), p)))
			return
		}
		failure := connect.NewError(connect.CodeUnauthenticated, err)
		if errors.Is(err, ErrUnasked) {
			failure = connect.NewError(connect.CodeUnavailable, err)
		} else {
			failure.Meta().Set("WWW-Authenticate", "Bearer")
		}
		if rpc.IsSupported(r) {
			_ = rpc.Write(w, r, failure) // an error of the connection is the server's to notice
			return
		}
		refuse(w, r, failure)
	})
}

// bearer returns the token of a request, "" for none.
func bearer(h http.Header) string {
	scheme, text, ok := strings.Cut(h.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}

// Permit returns what tells whether the caller of a context may still do what role
// may: at the beginning of a call that lasts, and again while it does.
func (k *Keyring) Permit(role rulesv1.Role) func(context.Context) error {
	return func(ctx context.Context) error {
		p, err := Need(ctx, role)
		if err != nil {
			return err
		}
		if t := k.find(p.TokenID); t == nil || void(t, k.now()) {
			return connect.NewError(connect.CodeUnauthenticated, ErrInvalid)
		}
		return nil
	}
}
