package limit

import (
	"fmt"
	"hash/fnv"
)

// nameMax bounds the ids of rules, plans and routes, in bytes: they stand in
// headers, metric labels and store keys.
const nameMax = 64

// ValidateName reports whether name can be the id of a rule, plan or route
// (what says which, for the error): 1 to 64 of a-z, 0-9, '-', '_' and '.',
// beginning with a letter or digit.
func ValidateName(what, name string) error { return validateName(what, name, nameMax) }

// Algorithm is how a rule counts.
type Algorithm uint8

// The algorithms.
const (
	TokenBucket Algorithm = iota + 1 // tokens that refill at a rate, up to a burst
	FixedWindow                      // a count that starts anew with each UTC-aligned window
	SlidingLog                       // the accepted attempts of the last window, each kept
)

// String returns token_bucket, fixed_window or sliding_log.
func (a Algorithm) String() string {
	return name(a, map[Algorithm]string{TokenBucket: "token_bucket", FixedWindow: "fixed_window", SlidingLog: "sliding_log"})
}

// Mode is whether a rule's refusals are enforced.
type Mode uint8

// The modes of a rule.
const (
	Enforce Mode = iota + 1 // a refusal refuses the request
	Shadow                  // evaluated and counted, never refuses, never makes a request wait
)

// String returns enforce or shadow.
func (m Mode) String() string { return name(m, map[Mode]string{Enforce: "enforce", Shadow: "shadow"}) }

// FailMode is what a rule does with a request while the store does not answer.
type FailMode uint8

// The fail modes.
const (
	FailOpen   FailMode = iota + 1 // admit, within the pod's fallback bucket
	FailClosed                     // refuse with 503: what is not known to be allowed is not admitted
)

// String returns open or closed.
func (f FailMode) String() string {
	return name(f, map[FailMode]string{FailOpen: "open", FailClosed: "closed"})
}

// Counts is what a window or a log adds for one request.
type Counts uint8

// What can be counted.
const (
	CountRequests Counts = iota + 1 // 1 a request, whatever it costs
	CountCost                       // the request's cost
)

// String returns requests or cost.
func (c Counts) String() string {
	return name(c, map[Counts]string{CountRequests: "requests", CountCost: "cost"})
}

func name[T ~uint8](v T, names map[T]string) string {
	if s, ok := names[v]; ok {
		return s
	}
	return fmt.Sprintf("%T(%d)", v, uint8(v))
}

// Check is when a request is counted.
type Check uint8

// When to count.
const (
	CheckBefore Check = iota // before it is admitted: the limit holds exactly
	CheckAfter               // after: in sums, and it never waits; above the limit all are refused for a while
)

// String returns before or after.
func (c Check) String() string {
	return name(c, map[Check]string{CheckBefore: "before", CheckAfter: "after"})
}

// Rule is one limit and whom it is for. It is immutable once handed out; an
// edit makes another Rule with the same Domain and ID.
type Rule struct {
	Domain  string
	ID      string
	Version int64 // grows with each edit; 0 for a rule from a file

	// A request meets the rule if it is of this plan and this route class,
	// where they are set, and has an identity of this kind.
	Plan  string // "" for every plan
	Route string // "" for every route class
	Kind  Kind   // whose requests are counted together

	Algorithm Algorithm
	Limit     Limit // before override and share
	Mode      Mode
	FailMode  FailMode
	Counts    Counts // for windows and logs; buckets always count cost
	Check     Check  // after is for buckets and windows that fail open

	// Largest is the largest charge that one request can make under the rule;
	// 0 says that only the request at hand tells.
	Largest int64

	// Tag names the rule's counter within a subject's record: TagOf. Two rules
	// of a domain never share one; a ruleset refuses the second.
	Tag uint32
}

// Waits reports whether a request waits for the rule's word: not for one in
// shadow, nor for one that counts after.
func (r *Rule) Waits() bool { return r.Mode != Shadow && r.Check == CheckBefore }

// Charge is what a request of this cost takes from the rule's counter: the cost
// from a bucket; 1 from a window or a log unless the rule counts cost. A request
// of cost 0 takes nothing from any.
func (r *Rule) Charge(cost int64) int64 {
	if r.Algorithm == TokenBucket || r.Counts == CountCost {
		return cost
	}
	return min(cost, 1)
}

// TagOf is the 32-bit FNV-1a hash that names a rule's counter in a record. The
// algorithm is part of it: a rule that turns from a bucket into a window starts
// a counter of its own, for the two states cannot be converted.
func TagOf(domain, id string, algorithm Algorithm) uint32 {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d:%s/%d:%s/%d", len(domain), domain, len(id), id, algorithm)
	return h.Sum32()
}
