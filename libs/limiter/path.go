package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// look walks one charge down the stages that need no store, in their order, and
// leaves in o which of them refused it; o.Short is false if none did.
func (s *state) look(now time.Duration, c *limit.Charge, o *limit.Outcome) {
	switch {
	case c.Banned:
		o.Short, o.DecidedBy = true, limit.ByBan
	case c.Cost == 0:
		s.known.describe(now, c.Limit, o)
	case c.Cost > c.Limit.Size():
		s.known.describe(now, c.Limit, o)
		o.Short, o.Never, o.DecidedBy = true, true, limit.ByKnowledge
	case s.capped(now, c):
		s.describeCap(now, c, o)
		o.Short, o.DecidedBy = true, limit.ByCap
	case s.known.excludes(now, c.Limit, c.Cost):
		s.known.describe(now, c.Limit, o)
		o.Retry = s.known.wait(now, c.Limit, c.Cost)
		o.Short, o.DecidedBy = true, limit.ByKnowledge
	default:
		s.known.describe(now, c.Limit, o)
	}
}

// learn takes what the store said of a charge: into the outcome, and into what
// this pod knows. sent is when the ask was sent, for a bound must never be
// below the truth.
func (s *state) learn(sent, at time.Duration, c *limit.Charge, reply *store.Outcome, o *limit.Outcome) {
	o.DecidedBy, o.Known = limit.ByStore, true
	o.Short, o.Never, o.Retry = reply.Short, reply.Never, reply.Retry
	o.Remaining, o.Reset = reply.Remaining, reply.Reset
	s.known.learn(sent, at, c, reply)
	if reply.Granted > 0 {
		s.spend(sent, c, reply.Granted)
	}
}

// state is what a pod keeps of one rule for one subject.
type state struct {
	tag   uint32
	limit limit.Limit   // under which the rest was learned
	cap   bucket.Tokens // what this pod alone has admitted, as a bucket of the whole limit
	known knowledge
}

func newState(now time.Duration, c *limit.Charge) state {
	return state{tag: c.Rule.Tag, limit: c.Limit, cap: bucket.Full(now, c.Limit)}
}

// state returns the record's state for a charge's rule, fit for its limit: an
// edit, an override or a share that moved voids what was known and fills the
// cap. The store carries tokens over; what it carries is not known here, and a
// counter that it does not have is full under any limit.
func (r *record) state(now time.Duration, c *limit.Charge) *state {
	for i := range r.states {
		s := &r.states[i]
		if s.tag != c.Rule.Tag {
			continue
		}
		if s.limit != c.Limit {
			*s = newState(now, c)
		}
		return s
	}
	if len(r.states) >= statesMax {
		clear(r.states)
		r.states = r.states[:0]
	}
	r.states = append(r.states, newState(now, c))
	return &r.states[len(r.states)-1]
}

// record is all that a pod keeps of one subject.
type record struct {
	states []state
}

// statesMax bounds a record: rules come and go while a subject stays. At the
// bound everything is forgotten, which costs one call to the store a rule.
const statesMax = 64
