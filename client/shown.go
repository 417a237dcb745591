package client

import (
	"fmt"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// shown is a decision in the words of httplimit.
func shown(d *Decision) limit.Decision {
	s := limit.Decision{Verdict: limit.Denied, Refused: -1}
	switch {
	case d.Allowed:
		s.Verdict = limit.Allowed
	case d.Unavailable || d.DecidedBy == 0:
		s.Verdict, s.Cause = limit.Unavailable, store.ErrUnavailable
	}
	switch {
	case d.Answer != nil:
		if d.Answer.GetCause() == checkv1.Cause_CAUSE_STORE_TIMEOUT {
			s.Cause = store.ErrTimeout
		}
		for i, o := range d.Answer.GetEntries() {
			s.Outcomes = append(s.Outcomes, shownOutcome(o))
			if d.Answer.Refused != nil && i == int(d.Answer.GetRefused()) {
				s.Refused = i
			}
		}
	case d.Refused != "":
		s.Refused = 0
		s.Outcomes = []limit.Outcome{{
			Rule: &limit.Rule{ID: d.Refused, Mode: limit.Enforce}, Short: true, Retry: d.RetryAfter, Never: d.RetryAfter == 0,
		}}
	}
	return s
}

func shownOutcome(o *checkv1.Outcome) limit.Outcome {
	mode := limit.Enforce
	if o.GetShadow() {
		mode = limit.Shadow
	}
	return limit.Outcome{
		Rule: &limit.Rule{ID: o.GetRule(), Mode: mode}, Cost: o.GetCost(), Short: o.GetShort(), Never: o.GetNever(), Banned: o.GetBanned(),
		Known: o.Remaining != nil, Remaining: o.GetRemaining(), Retry: o.GetRetryAfter().AsDuration(), Reset: o.GetReset_().AsDuration(),
	}
}

// fieldsOf are the header fields of a decision: RateLimit, what is left of the rules
// and when all of it is back (in a refusal: when the request can pass), and
// Retry-After. A checker does not tell what the rules allow in all, so that there is
// no RateLimit-Policy.
func fieldsOf(s *limit.Decision) httplimit.Fields {
	var fields httplimit.Fields
	var list httpsfv.List
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		if o.Rule.Mode != limit.Enforce || !o.Known {
			continue
		}
		item := httpsfv.NewItem(o.Rule.ID)
		item.Params.Add("r", max(o.Remaining, 0))
		switch {
		case o.Never || o.Banned:
		case o.Short:
			item.Params.Add("t", max(wholeSeconds(o.Retry), 1))
		default:
			item.Params.Add("t", wholeSeconds(o.Reset))
		}
		if i == s.Refused {
			list = append(httpsfv.List{item}, list...)
		} else {
			list = append(list, item)
		}
	}
	if text, err := httpsfv.Marshal(list); err == nil { // else a rule's id is no ASCII, which a checker has none of
		fields.State = text
	}
	if after, ok := httplimit.RetryAfter(s); ok {
		fields.RetryAfter = fmt.Sprint(after)
	}
	return fields
}

// wholeSeconds is rounded up: who waits for so long comes in time.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// refusal is the problem of a decision that does not allow.
func refusal(s *limit.Decision) httplimit.Problem {
	p := httplimit.Refusal(s)
	if s.Verdict != limit.Denied || len(p.Violated) == 0 {
		return p
	}
	switch rule := p.Violated[0]; p.Code {
	case httplimit.CodeBanned:
		p.Detail = fmt.Sprintf("An override of limit %q refuses this caller. Waiting does not help.", rule)
	case httplimit.CodeCostAboveLimit:
		p.Detail = fmt.Sprintf("The request costs more than limit %q can ever hold. Waiting does not help.", rule)
	default:
		p.Detail = fmt.Sprintf("Limit %q is used up. Retry after %d s.", rule, p.RetryAfter)
	}
	return p
}
