package checker

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limitmeter"
)

// observer tells what is decided: to the metrics, the rules service and the spans of
// calls. It is the engine's and the limiter's.
type observer struct {
	*limitmeter.Meter
	rules domains
	mode  decide.Mode
}

// Decided implements decide.Observer.
func (o observer) Decided(ctx context.Context, d *limit.Decision, shadowed bool) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		tell(span, d, shadowed)
	}
	if o.mode == decide.Off {
		o.Verdict(ctx, d.Verdict.String(), limitmeter.ByOff)
		return
	}
	o.Decision(ctx, d, shadowed)
	if len(d.Outcomes) > 0 {
		o.rules[d.Outcomes[0].Rule.Domain].Decided(d)
	}
}

// Failed implements decide.Observer.
func (o observer) Failed(ctx context.Context, err error) {
	verdict := limitmeter.VerdictBadRequest
	switch {
	case errors.Is(err, decide.ErrNoRules):
		verdict = limitmeter.VerdictError
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		verdict = limitmeter.VerdictGone
	}
	o.Verdict(ctx, verdict, limitmeter.ByRequest)
	trace.SpanFromContext(ctx).SetAttributes(attribute.String("shiplane.verdict", verdict))
}

// tell says on a call's span what was decided, with the gateway's names.
func tell(span trace.Span, d *limit.Decision, shadowed bool) {
	span.SetAttributes(
		attribute.String("shiplane.verdict", d.Verdict.String()),
		attribute.String("shiplane.decided_by", d.DecidedBy.String()),
		attribute.Bool("shiplane.shadow", shadowed),
	)
	if len(d.Outcomes) > 0 {
		span.SetAttributes(attribute.String("shiplane.domain", d.Outcomes[0].Rule.Domain))
	}
	if d.Refused >= 0 {
		span.SetAttributes(attribute.String("shiplane.rule", d.Outcomes[d.Refused].Rule.ID))
	}
}

// Shadow implements limiter.Observer.
func (o observer) Shadow(rule *limit.Rule, requests, short int64) {
	o.Meter.Shadow(rule, requests, short)
	o.rules[rule.Domain].Shadow(rule, requests, short)
}
