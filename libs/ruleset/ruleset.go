package ruleset

import (
	"net/http"
	"time"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// PlanAnonymous is the plan of requests without an account. Every ruleset knows
// it; none may declare it.
const PlanAnonymous = "anonymous"

// Ruleset is all rules, routes and overrides at one revision. It is made by
// Compile, immutable, and safe for concurrent use. What its methods return
// belongs to it and must not be modified.
type Ruleset struct {
	// What it was compiled from, the last good version of everything: base is all
	// but the overrides. Items are shared with other rulesets and never modified.
	base      *rulesv1.Ruleset
	overrides cow[string, *override] // by their ids; those of a file by their places

	how      settings
	revision int64
	// order is the revision, but grows with every ruleset that takes the place of
	// another: a database that was put back to an earlier state has lower revisions.
	order  int64
	rules  []*limit.Rule // candidates behind the rules of the file
	byID   map[string]counted
	plans  []string
	routes []*Route
	other  *Route // the class of requests that no pattern matches

	mux      *http.ServeMux
	patterns map[string]*Route // by pattern, as the mux reports it

	index      map[place]*row
	exceptions cow[limit.Subject, []exception]
}

// counted is what counts under the id of a rule: the rule, and its candidate while
// that is being rolled out; one of them may be nil.
type counted struct{ rule, candidate *limit.Rule }

// shown is the one whose word counts: in shadow is only what is compared with it.
func (c counted) shown() (shown, other *limit.Rule) {
	if c.rule == nil || c.candidate != nil && c.rule.Mode == limit.Shadow && c.candidate.Mode != limit.Shadow {
		return c.candidate, c.rule
	}
	return c.rule, c.candidate
}

// place is what of a request selects rules, before its identities do. The plan
// "" is every plan that the ruleset does not know.
type place struct{ plan, route string }

// row is the rules of a place by the kind of subject they count, each kind in
// the order of the file.
type row [limit.Kinds + 1][]*limit.Rule

// exception is an override, ready to apply.
type exception struct {
	override string // by which overrides know it
	rule     *limit.Rule
	limit    limit.Limit // the whole effective limit
	banned   bool
	from, to time.Time // in force at from, not at to; a zero to is never
}

func (e *exception) inForce(now time.Time) bool {
	return !now.Before(e.from) && (e.to.IsZero() || now.Before(e.to))
}

// Domain returns the set of rules that subjects are counted under.
func (s *Ruleset) Domain() string { return s.base.GetDomain() }

// Revision grows with each change that took effect: the server's revision, or
// for a rule file the number of contents that have been in force, from 1.
func (s *Ruleset) Revision() int64 { return s.revision }

// Naming returns by which a request's caller is named.
func (s *Ruleset) Naming() Naming { return s.how.naming }

// Rules returns the rules, in the order of the file, and candidates behind them.
func (s *Ruleset) Rules() []*limit.Rule { return s.rules }

// Plans returns the ids of the plans, in the order of the file, without
// PlanAnonymous.
func (s *Ruleset) Plans() []string { return s.plans }

// Routes returns the route classes, in the order of the file, without the one
// for requests that no pattern matches.
func (s *Ruleset) Routes() []*Route { return s.routes }

// LargestCost returns the largest charge that one request can make under the
// rule: what its burst must hold, wherever it is counted. It looks at every
// route class, and is not for the path of a request.
func (s *Ruleset) LargestCost(rule *limit.Rule) int64 {
	_, largest := s.costliest(rule)
	return largest
}

// costliest returns the route class whose requests charge the rule most, nil
// if it meets none.
func (s *Ruleset) costliest(rule *limit.Rule) (route *Route, largest int64) {
	meets := func(r *Route) bool {
		return (rule.Route == "" || rule.Route == r.ID) && (rule.Kind != limit.User || r.UserField != "")
	}
	if meets(s.other) {
		route, largest = s.other, rule.Charge(s.other.Cost)
	}
	for _, r := range s.routes {
		if meets(r) && (route == nil || rule.Charge(r.Cost) > largest) {
			route, largest = r, rule.Charge(r.Cost)
		}
	}
	return route, largest
}
