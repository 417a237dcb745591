package decide

import (
	"context"

	"github.com/shiplane/limits/libs/limit"
)

// Charge is what a request takes from one counter, by a caller that has matched
// the rules of Engine.Rules itself.
type Charge struct {
	limit.Charge
	// Peek takes nothing: it refuses the request, and all that it charges, if the
	// charge would be refused.
	Peek bool
}

// Decide is Check for a caller that has found the charges, each counter once; the
// entries of the answer are their places, and there may be none. Peeks are looked at
// first. The observer is told no outcomes of their rules: a look is no request that
// a rule has decided.
func (e *Engine) Decide(ctx context.Context, charges []Charge) (*Answer, error) {
	a, _ := e.spare.Get().(*Answer)
	a.engine = e
	err := gone(ctx)
	if a.begin(len(charges)); err == nil {
		err = a.part(charges)
	}
	if err != nil {
		a.Release()
		e.Failed(ctx, err)
		return nil, err
	}
	if e.cfg.Mode == Off {
		a.peeked.reset()
	}
	if len(a.peeked.items) == 0 {
		e.decide(ctx, a)
	} else {
		e.decideBehind(ctx, a)
	}
	a.index()
	return a, nil
}

// part parts the charges from what is only looked at.
func (a *Answer) part(charges []Charge) error {
	for i := range charges {
		to := &a.asked
		if charges[i].Peek {
			to = &a.peeked
		}
		if err := to.add(item{i, true}, &charges[i].Charge); err != nil {
			return err
		}
	}
	return nil
}

// decideBehind decides a request behind its peeks: what they refuse charges nothing.
// Their outcomes stand behind those of the charges.
func (e *Engine) decideBehind(ctx context.Context, a *Answer) {
	d, seen := &a.Decision, &a.seen
	a.asked.request.Waited = e.cfg.Limiter.Peek(&a.peeked.request, seen)
	if seen.Verdict == limit.Allowed {
		e.decide(ctx, a)
		d.Outcomes = append(d.Outcomes, seen.Outcomes...)
		return
	}
	*d = limit.Decision{Verdict: seen.Verdict, DecidedBy: seen.DecidedBy, Cause: seen.Cause, Refused: -1, Outcomes: d.Outcomes[:0]}
	e.cfg.Observer.Decided(ctx, d, refuser(seen), e.cfg.Mode == Shadow)
	d.Outcomes, d.Refused = append(d.Outcomes, seen.Outcomes...), seen.Refused
	e.soften(d)
}
