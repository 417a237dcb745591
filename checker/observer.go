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
func (o observer) Decided(ctx context.Context, d *limit.Decision, refused *limit.Rule, shadowed bool) {
	if o.mode == decide.Off {
		o.Verdict(ctx, d.Verdict.String(), limitmeter.ByOff)
		tell(ctx, d.Verdict.String(), limitmeter.ByOff, refused, shadowed)
		return
	}
	tell(ctx, d.Verdict.String(), d.DecidedBy.String(), refused, shadowed)
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
	tell(ctx, verdict, limitmeter.ByRequest, nil, false)
}

// tell says on a call's span what became of a request, in the words of the metrics.
func tell(ctx context.Context, verdict, by string, refused *limit.Rule, shadowed bool) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("shiplane.verdict", verdict), attribute.String("shiplane.decided_by", by), attribute.Bool("shiplane.shadow", shadowed))
	if refused != nil {
		span.SetAttributes(attribute.String("shiplane.domain", refused.Domain), attribute.String("shiplane.rule", refused.ID))
	}
}

// Shadow implements limiter.Observer.
func (o observer) Shadow(rule *limit.Rule, requests, short int64) {
	o.Meter.Shadow(rule, requests, short)
	o.rules[rule.Domain].Shadow(rule, requests, short)
}
