package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
)

// record is all that a pod keeps of one subject. It is only touched under its
// shard's lock.
type record struct {
	states []state
	queue  []*Call // requests that wait for the ask in flight, in order
	asking bool    // an ask for the queue is in flight
}

// state is what a pod keeps of one rule for one subject.
type state struct {
	tag       uint32
	period    int32 // of passed: HotPeriods since the clock's zero
	revision  int64 // of the ruleset that the limit is from
	rule      *limit.Rule
	limit     limit.Limit   // under which the rest was learned
	cap       bucket.Tokens // what this pod alone has admitted, as a bucket of the whole limit
	lease     lease
	waiting   int64 // the charges of the requests in the queue
	known     knowledge
	hold      hold
	demand    demand
	uncounted tally         // charges that no request waits for: the store has not been told
	counting  bool          // it is being told right now
	unheard   bool          // it was told in vain: the next sweep tries again
	mitigated time.Duration // pod time until which a rule that counts after refuses
	fallback  *fallback     // this pod's part of the limit while the store does not answer; nil: it does
	counts    *counts       // of the rule
	passed    int64         // tokens admitted in the period, as of the last sweep
	fresh     int64         // and since then
}

// statesMax is how many rules a record keeps before it forgets those that hold
// nothing: rules come and go while a subject stays. What is forgotten costs a
// call to the store.
const statesMax = 32

// state returns the record's state for a charge's rule, fit for its limit. An
// edit, an override or a share that moved voids what was known and fills the
// cap: the store carries tokens over, but a counter that it does not have is
// full under any limit. The lease is dropped at once: it goes back to the store,
// as does that of a rule that goes into shadow. A request that was matched by an
// older ruleset changes nothing: the state stays that of the newer.
func (r *record) state(now time.Duration, c *limit.Charge, out *outbox) *state {
	if s := r.find(c.Rule.Tag); s != nil {
		s.void(now)
		if c.Revision < s.revision {
			return s
		}
		if s.limit != c.Limit || s.rule != c.Rule && (s.rule.Waits() != c.Rule.Waits() || s.rule.Mode != c.Rule.Mode) {
			out.tell(c.Subject, s)
			s.limit, s.cap = c.Limit, bucket.Full(now, c.Limit)
			out.giveBack(c.Subject, s, s.releaseAll(now)) // by the new limit: the old one's rate would refill the counter
			s.known, s.hold, s.lease, s.mitigated = knowledge{}, hold{}, lease{}, 0
			s.passed, s.fresh = 0, 0
		}
		s.rule, s.revision = c.Rule, c.Revision
		return s
	}
	if len(r.states) >= statesMax {
		r.forget()
	}
	r.room()
	r.states = append(r.states, state{
		tag: c.Rule.Tag, revision: c.Revision, rule: c.Rule, limit: c.Limit, cap: bucket.Full(now, c.Limit), counts: out.book.of(c.Rule),
	})
	return &r.states[len(r.states)-1]
}

// room makes room for one more state, and for no more: records are many, and a
// subject's rules are few and come with its first request.
func (r *record) room() {
	if n := len(r.states); n == cap(r.states) {
		grown := make([]state, n, n+1)
		copy(grown, r.states)
		r.states = grown
	}
}

// again returns what state has returned for a charge at the same time, under the
// same lock.
func (r *record) again(now time.Duration, c *limit.Charge, out *outbox) *state {
	if s := r.find(c.Rule.Tag); s != nil {
		return s
	}
	return r.state(now, c, out) // a later charge's state took its place
}

// find returns the state of the rule with this tag, nil if there is none.
func (r *record) find(tag uint32) *state {
	for i := range r.states {
		if r.states[i].tag == tag {
			return &r.states[i]
		}
	}
	return nil
}

// forget drops the states that hold nothing of anybody's.
func (r *record) forget() {
	kept := r.states[:0]
	for _, s := range r.states {
		if s.lease.held > 0 || s.waiting > 0 || s.uncounted.tokens > 0 {
			kept = append(kept, s)
		}
	}
	clear(r.states[len(kept):])
	r.states = kept
}

// pinned reports whether somebody waits for the record.
func (r *record) pinned() bool { return r.asking || len(r.queue) > 0 }

// reset empties an evicted record and keeps its memory.
func (r *record) reset() {
	clear(r.states)
	r.states, r.queue = r.states[:0], r.queue[:0]
}
