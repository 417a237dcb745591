package ruleset

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// Caller is who sent a request. A zero Subject is an identity that the request
// does not have; the others are of the ruleset's domain and of their field's
// kind.
type Caller struct {
	Plan              string // the account's plan, or PlanAnonymous
	Account, IP, User limit.Subject
}

func (c *Caller) subject(kind limit.Kind) limit.Subject {
	switch kind {
	case limit.IP:
		return c.IP
	case limit.User:
		return c.User
	}
	return c.Account
}

// Match fills req with the charges of a request of this caller and route class
// at the time now: one for each rule that matches plan, route class and an
// identity of the caller, with the override in force at now applied. Charges
// of one subject stand together, subjects in the order of their kinds.
//
// A nil route is the class of requests that no pattern matches. A plan that the
// ruleset does not know meets the rules that name no plan. Match resets req
// first and allocates only to grow it. Safe for concurrent use, with a req for
// each.
func (s *Ruleset) Match(now time.Time, route *Route, caller *Caller, req *limit.Request) {
	req.Reset()
	if route == nil {
		route = s.other
	}
	rules := s.row(caller.Plan, route.ID)
	if rules == nil {
		return
	}
	for kind := limit.IP; kind <= limit.Account; kind++ {
		subject := caller.subject(kind)
		if len(rules[kind]) == 0 || subject == (limit.Subject{}) {
			continue
		}
		exceptions := s.exceptions.get(subject)
		for _, rule := range rules[kind] {
			req.Charges = append(req.Charges, s.charge(now, subject, exceptions, rule, route.Cost))
		}
	}
}

// charge is what a rule takes from a subject that has these exceptions.
func (s *Ruleset) charge(now time.Time, subject limit.Subject, exceptions []exception, rule *limit.Rule, cost int64) limit.Charge {
	charge := limit.Charge{Subject: subject, Rule: rule, Limit: rule.Limit, Cost: rule.Charge(cost), Revision: s.order}
	for i := range exceptions {
		if e := &exceptions[i]; e.rule == rule && e.inForce(now) {
			charge.Limit, charge.Banned = e.limit, e.banned
			break
		}
	}
	return charge
}

// row returns the rules of a place, nil if there are none. A plan or route
// class that this ruleset does not know (of a key file or a request that is
// older than it) still meets the rules that name none; for one that it knows
// those are in its own row.
func (s *Ruleset) row(plan, route string) *row {
	for _, at := range [...]place{{plan, route}, {"", route}, {plan, ""}, {"", ""}} {
		if rules := s.index[at]; rules != nil {
			return rules
		}
	}
	return nil
}
