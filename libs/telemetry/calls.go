package telemetry

import (
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// ConnectSpans makes a span of each call that a Connect handler answers, under its
// caller's trace: it is for callers who were let in. provider is nil if spans go nowhere.
func ConnectSpans(provider trace.TracerProvider) (connect.HandlerOption, error) {
	if provider == nil {
		return connect.WithHandlerOptions(), nil
	}
	spans, err := otelconnect.NewInterceptor(
		otelconnect.WithTracerProvider(provider), otelconnect.WithPropagator(propagation.TraceContext{}),
		otelconnect.WithTrustRemote(), otelconnect.WithoutMetrics(),
	)
	if err != nil {
		return nil, fmt.Errorf("spans of calls: %w", err)
	}
	return connect.WithInterceptors(spans), nil
}

// HTTPSpans is ConnectSpans of any other handler. A span is named by the request's
// method and its Pattern as next leaves it.
func HTTPSpans(provider trace.TracerProvider, next http.Handler) http.Handler {
	if provider == nil {
		return next
	}
	routed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		route := r.Pattern // otelhttp renews the name by it, and not this
		if _, path, ok := strings.Cut(route, " "); ok {
			route = path
		}
		trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("http.route", route))
	})
	return otelhttp.NewHandler(routed, "",
		otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
	)
}
