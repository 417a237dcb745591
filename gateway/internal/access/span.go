package access

import (
	"context"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// methods are those that a span may be named by: callers can invent others.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace,
}

// startSpan begins the span of a request and tells the upstream of it (W3C Trace
// Context). A stranger's trace is no parent: it would choose what is sampled.
func (h *Handler) startSpan(ctx context.Context, r *http.Request, trusted bool) (context.Context, trace.Span) {
	carrier := propagation.HeaderCarrier(r.Header)
	given := propagation.TraceContext{}.Extract(ctx, carrier)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}
	if trusted {
		ctx = given
	} else {
		r.Header.Del("Tracestate") // is another trace's, even if its Traceparent cannot be read
		if link := trace.SpanContextFromContext(given); link.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: link}))
		}
	}
	ctx, span := h.Tracer.Start(ctx, spanMethod(r), options...) //nolint:spancheck // endSpan ends it, when the request is over
	propagation.TraceContext{}.Inject(ctx, carrier)
	return ctx, span //nolint:spancheck // see above
}

func spanMethod(r *http.Request) string {
	if slices.Contains(methods, r.Method) {
		return r.Method
	}
	return "HTTP"
}

// endSpan says what became of the request, and ends its span.
func endSpan(r *http.Request, v *visit) {
	if !v.span.IsRecording() {
		v.span.End()
		return
	}
	if v.route != "" {
		v.span.SetName(spanMethod(r) + " " + v.route)
	}
	v.span.SetAttributes(
		attribute.String("http.request.method", spanMethod(r)),
		attribute.Int("http.response.status_code", v.status),
		attribute.Int64("http.response.body.size", v.bytes),
		attribute.String("network.protocol.version", r.Proto),
		attribute.String("shiplane.request_id", v.id),
		attribute.String("shiplane.verdict", v.verdictText()),
		attribute.String("shiplane.decided_by", v.byText()),
		attribute.String("shiplane.rule", v.rule),
		attribute.String("shiplane.route", v.route),
		attribute.String("shiplane.plan", v.plan),
		attribute.Bool("shiplane.shadow", v.shadowed),
	)
	if v.status >= http.StatusInternalServerError || v.aborted {
		v.span.SetStatus(codes.Error, "")
	}
	v.span.End()
}
