package limit

import (
	"slices"
	"time"
)

// Request is what is to be decided: the charges of one request, those of one
// subject beside each other, subjects in the order of their kinds. It is made
// by a ruleset and may be reused after Reset; it is not safe for concurrent use.
type Request struct {
	Charges []Charge
	Waited  time.Duration // for counters that were looked at before: it counts as the decision's
}

// Reset empties the request and keeps its memory.
func (r *Request) Reset() { r.Charges, r.Waited = r.Charges[:0], 0 }

// Charge is one rule that a request meets.
type Charge struct {
	Subject Subject
	Rule    *Rule
	Limit   Limit // effective: override and share applied
	Cost    int64 // what is taken from the rule's counter: Rule.Charge
	Banned  bool  // an override refuses every request, whatever the counter holds

	// Revision is that of the ruleset that the charge is from, or greater where the
	// server's revisions have gone back: of two limits of one rule the one of the
	// higher revision is in force.
	Revision int64
}

// Verdict is what becomes of a request.
type Verdict uint8

// The verdicts, from the mildest; the strictest of a request's charges is its verdict.
const (
	Allowed     Verdict = iota + 1
	Denied              // over a limit: 429
	Unavailable         // the counter of a closed rule could not be reached: 503
)

// String returns allowed, denied or unavailable.
func (v Verdict) String() string {
	return name(v, map[Verdict]string{Allowed: "allowed", Denied: "denied", Unavailable: "unavailable"})
}

// DecidedBy is the stage of the data path that decided.
type DecidedBy uint8

// The stages, in the order of the path.
const (
	ByNoRule     DecidedBy = iota + 1 // no enforced rule charges the request
	ByBan                             // an override says deny
	ByCap                             // this pod alone has passed the whole limit
	ByLease                           // tokens that this pod holds
	ByKnowledge                       // the store's last reply says that it cannot be there yet
	ByHold                            // the store was short a moment ago, and is not asked again at once
	ByMitigation                      // the sums of a rule that counts after were above its limit
	ByStore                           // the store
	ByFallback                        // the store did not answer; an open rule's fallback bucket
	ByFailClosed                      // the store did not answer; a closed rule
)

// String returns the stage's name in snake case, as metrics label it.
func (d DecidedBy) String() string {
	return name(d, map[DecidedBy]string{
		ByNoRule: "no_rule", ByBan: "ban", ByCap: "cap", ByLease: "lease", ByKnowledge: "knowledge", ByHold: "hold", ByMitigation: "mitigation",
		ByStore: "store", ByFallback: "fallback", ByFailClosed: "fail_closed",
	})
}

// Decision is the answer to a Request. The caller owns it and may reuse it for
// the next request; it is not safe for concurrent use.
type Decision struct {
	Verdict   Verdict
	DecidedBy DecidedBy
	// Cause is why the store gave no answer, for ByFallback and ByFailClosed:
	// it wraps a sentinel of libs/store. Nil otherwise.
	Cause error
	// Outcomes has one entry for each charge that was looked at, in the
	// request's order. After a refusal nothing is said of later subjects: it may
	// be shorter than the request's charges.
	Outcomes []Outcome
	// Refused is the index in Outcomes of the charge that refused first, -1 if
	// none did.
	Refused int
}

// Reset makes the decision an undecided one with room for an outcome for each
// charge of the request; what stands in them is stale. It keeps the decision's
// memory.
func (d *Decision) Reset(request *Request) {
	n := len(request.Charges)
	*d = Decision{Outcomes: slices.Grow(d.Outcomes[:0], n)[:n], Refused: -1}
}

// Undecided is the outcome of a charge before any stage has spoken.
func (c *Charge) Undecided() Outcome {
	return Outcome{Rule: c.Rule, Limit: c.Limit, Cost: c.Cost, Banned: c.Banned}
}

// RetryAfter is the time after which the request could be admitted as far as
// the rules that refused it are concerned: the longest of theirs. ok is false
// where no waiting helps (a ban, a cost above the limit) or nothing refused.
func (d *Decision) RetryAfter() (after time.Duration, ok bool) {
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		if !o.Short || o.Rule.Mode == Shadow {
			continue
		}
		if o.Never || o.Banned {
			return 0, false
		}
		after, ok = max(after, o.Retry), true
	}
	return after, ok
}

// Outcome is what one rule said of a request.
type Outcome struct {
	Rule      *Rule
	Limit     Limit // as in the charge
	Cost      int64
	Banned    bool
	DecidedBy DecidedBy     // the stage that spoke for this rule; 0 if none had to
	Short     bool          // the rule lacked what the request needs (a shadow rule too, which refuses nothing)
	Never     bool          // it can never hold as much: cost above the limit's size
	Known     bool          // Remaining and Reset are known; not so when the store did not answer
	Remaining int64         // whole tokens (or counts) left after this request
	Retry     time.Duration // until what is needed will be there, rounded up; 0 if not Short, or Never
	Reset     time.Duration // until the bucket is full, or the window ends, or the log is empty
}
