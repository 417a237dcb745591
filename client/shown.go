package client

import (
	"fmt"
	"slices"
	"strconv"

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
		Rule: &limit.Rule{ID: o.GetRule(), Mode: mode}, Limit: limitOf(o), Cost: o.GetCost(), Short: o.GetShort(), Never: o.GetNever(), Banned: o.GetBanned(),
		Known: o.Remaining != nil, Remaining: o.GetRemaining(), Retry: o.GetRetryAfter().AsDuration(), Reset: o.GetReset_().AsDuration(),
	}
}

func limitOf(o *checkv1.Outcome) limit.Limit {
	if window := o.GetWindow().AsDuration(); window > 0 {
		return limit.Limit{Count: o.GetSize(), Window: window}
	}
	return limit.Limit{Rate: limit.Rate(o.GetRate()), Burst: o.GetSize()}
}

// untold reports whether an outcome has no limit: it is a fallback's, which is this
// process's own.
func untold(o limit.Outcome) bool { return o.Limit.Size() == 0 }

// fieldsOf are the header fields of a decision; of a fallback's Retry-After alone.
func fieldsOf(s *limit.Decision) httplimit.Fields {
	if !slices.ContainsFunc(s.Outcomes, untold) {
		return httplimit.Describe(s, false)
	}
	if after, ok := httplimit.RetryAfter(s); ok {
		return httplimit.Fields{RetryAfter: strconv.FormatInt(after, 10)}
	}
	return httplimit.Fields{}
}

// refusal is the problem of a decision that does not allow.
func refusal(s *limit.Decision) httplimit.Problem {
	p := httplimit.Refusal(s)
	if s.Verdict != limit.Denied || !slices.ContainsFunc(s.Outcomes, untold) {
		return p
	}
	p.Detail = fmt.Sprintf("Limit %q is used up. Retry after %d s.", p.Violated[0], p.RetryAfter)
	if p.Code == httplimit.CodeCostAboveLimit {
		p.Detail = fmt.Sprintf("The request costs more than limit %q can ever hold. Waiting does not help.", p.Violated[0])
	}
	return p
}
