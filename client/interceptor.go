package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
)

// errorDomain names who gave an ErrorInfo its reason, as the gateway does.
const errorDomain = "limits.shiplane"

// InterceptorConfig is what an interceptor is made of.
type InterceptorConfig struct {
	Client *Client
	Domain string // as in "public-api"
	// Entries names the rules that a call meets, and who is counted; none: the call
	// is not limited. It is called for each call, from many goroutines.
	Entries func(context.Context, Call) []Entry
	// Logger is told, once a second at most, that checkers cannot decide such calls
	// (Client.Check). nil: nobody is.
	Logger *slog.Logger
}

// Call is a call that a handler gets.
type Call struct {
	Spec   connect.Spec
	Peer   connect.Peer
	Header http.Header
}

// NewInterceptor makes an interceptor for handlers: it serves calls that a checker
// allows, streams when they begin, with RateLimit and RateLimit-Policy in the header
// of the answer. Others get RESOURCE_EXHAUSTED or, where a limit could not be checked that must be,
// UNAVAILABLE, with google.rpc.ErrorInfo, google.rpc.RetryInfo where waiting helps,
// and the same header fields as by HTTP. Calls of clients pass.
func NewInterceptor(cfg InterceptorConfig) connect.Interceptor {
	return &interceptor{guard: newGuard(cfg.Client, cfg.Domain, cfg.Logger), entries: cfg.Entries}
}

type interceptor struct {
	guard   *guard
	entries func(context.Context, Call) []Entry
}

// WrapUnary implements connect.Interceptor.
func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
		if q.Spec().IsClient {
			return next(ctx, q)
		}
		fields, err := i.check(ctx, Call{q.Spec(), q.Peer(), q.Header()})
		if err != nil {
			return nil, err
		}
		answer, err := next(ctx, q)
		if err == nil {
			fields.Set(answer.Header())
		}
		return answer, err
	}
}

// WrapStreamingClient implements connect.Interceptor.
func (*interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		fields, err := i.check(ctx, Call{stream.Spec(), stream.Peer(), stream.RequestHeader()})
		if err != nil {
			return err
		}
		fields.Set(stream.ResponseHeader())
		return next(ctx, stream)
	}
}

// check returns the header fields of a call that may pass, and the error of others.
func (i *interceptor) check(ctx context.Context, call Call) (httplimit.Fields, error) {
	entries := i.entries(ctx, call)
	if len(entries) == 0 {
		return httplimit.Fields{}, nil
	}
	decision := i.guard.check(ctx, entries)
	fields := fieldsOf(&decision)
	if decision.Verdict == limit.Allowed {
		return fields, nil
	}
	problem := refusal(&decision)
	code := connect.CodeResourceExhausted
	if decision.Verdict == limit.Unavailable {
		code = connect.CodeUnavailable
	}
	failure := connect.NewError(code, errors.New(problem.Detail))
	details := []proto.Message{&errdetails.ErrorInfo{Reason: strings.ToUpper(problem.Code), Domain: errorDomain}}
	if problem.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(problem.RetryAfter) * time.Second)})
	}
	for _, m := range details {
		if detail, err := connect.NewErrorDetail(m); err == nil { // these always marshal
			failure.AddDetail(detail)
		}
	}
	fields.Set(failure.Meta())
	return fields, failure
}
