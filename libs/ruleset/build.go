package ruleset

import (
	"cmp"
	"fmt"
	"net/http"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Bounds of a ruleset. They keep the index, which has a row for each plan and
// route class that a rule is for, within some tens of megabytes.
const (
	plansMax     = 64
	routesMax    = 512
	patternsMax  = 64 // of one route class
	rulesMax     = 4096
	overridesMax = 100_000
)

// builder checks a ruleset and makes the snapshot of it, in one pass: what is
// checked is what is used.
type builder struct {
	set     *rulesv1.Ruleset
	faults  Faults
	faulted map[string]bool // paths that have a fault: the first says enough

	next     *Ruleset
	declared map[string]int // plans, routes and rules by section and id
	rules    []*limit.Rule  // by position in set, candidates behind them; partly filled where faulty
	tags     map[uint32]string
	previous map[string]*limit.Rule
	canary   bool
}

// build returns the snapshot of set, to be used only if there are no faults.
// read are the faults that were found in reading set.
func build(set *rulesv1.Ruleset, previous *Ruleset, read Faults, how settings) (*Ruleset, Faults) {
	b := &builder{
		set: set, faults: append(Faults(nil), read...), faulted: map[string]bool{},
		declared: map[string]int{}, tags: map[uint32]string{}, previous: map[string]*limit.Rule{}, canary: how.canary,
		next: &Ruleset{
			base: baseOf(set), how: how, revision: cmp.Or(set.GetRevision(), 1), other: &Route{Cost: 1},
			mux: http.NewServeMux(), patterns: map[string]*Route{}, byID: map[string]counted{},
			index: map[place]*row{},
		},
	}
	b.next.order = b.next.revision
	for _, f := range read {
		b.faulted[f.Path] = true
	}
	if previous != nil {
		b.next.revision = cmp.Or(set.GetRevision(), previous.revision+1)
		b.next.order = max(b.next.revision, previous.order+1)
		for _, r := range previous.rules {
			b.previous[r.ID] = r
		}
	}
	b.domain(previous)
	if b.sizes() {
		b.plans()
		b.routes()
		b.addRules()
		b.addCandidates()
		b.addOverrides()
		b.addIndex()
	}
	return b.next, b.faults
}

// baseOf returns a set without its overrides; it shares everything else.
func baseOf(set *rulesv1.Ruleset) *rulesv1.Ruleset {
	return &rulesv1.Ruleset{
		Domain: set.GetDomain(), Revision: set.GetRevision(), Plans: set.GetPlans(), Routes: set.GetRoutes(),
		Rules: set.GetRules(), Candidates: set.GetCandidates(),
	}
}

// fault notes what is wrong at a path, unless that path has a fault already.
// value is what stands there, nil if nothing does.
func (b *builder) fault(path string, value any, problem string, args ...any) {
	if b.faulted[path] {
		return
	}
	b.faulted[path] = true
	f := Fault{Path: path, Problem: fmt.Sprintf(problem, args...)}
	if value != nil {
		f.Value = show(value)
	}
	b.faults = append(b.faults, f)
}

// wantName is what limit.ValidateName asks for.
const wantName = "want 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit"

// declare notes a name, which must be valid and the first of its kind.
func (b *builder) declare(section string, i int, id string) {
	path := fmt.Sprintf("%s[%d].id", section, i)
	if err := limit.ValidateName("id", id); err != nil {
		b.fault(path, id, wantName)
		return
	}
	key := section + "/" + id
	if first, taken := b.declared[key]; taken {
		b.fault(path, id, "want a name of its own: %s[%d] has it", section, first)
		return
	}
	b.declared[key] = i
}

func (b *builder) knows(section, id string) bool {
	_, ok := b.declared[section+"/"+id]
	return ok
}

func (b *builder) domain(previous *Ruleset) {
	domain := b.set.GetDomain()
	if limit.ValidateDomain(domain) != nil {
		b.fault("domain", domain, wantName)
	} else if previous != nil && domain != previous.Domain() {
		b.fault("domain", domain, "want %q, as before: under another domain every count would begin anew", previous.Domain())
	}
	if revision := b.set.GetRevision(); revision < 0 {
		b.fault("revision", revision, "want 0 or more")
	}
}

// sizes reports whether the ruleset is small enough to be looked at further.
func (b *builder) sizes() bool {
	ok := true
	for _, list := range []struct {
		path      string
		have, max int
	}{
		{"plans", len(b.set.GetPlans()), plansMax},
		{"routes", len(b.set.GetRoutes()), routesMax},
		{"rules", len(b.set.GetRules()), rulesMax},
		{"overrides", len(b.set.GetOverrides()), overridesMax},
	} {
		if list.have > list.max {
			b.fault(list.path, nil, "has %d entries: at most %d are allowed", list.have, list.max)
			ok = false
		}
	}
	return ok
}

func (b *builder) plans() {
	for i, p := range b.set.GetPlans() {
		if p.GetId() == PlanAnonymous {
			b.fault(fmt.Sprintf("plans[%d].id", i), p.GetId(), "is the plan of requests without an account, which every ruleset has: want another name")
			continue
		}
		b.declare("plans", i, p.GetId())
		b.next.plans = append(b.next.plans, p.GetId())
	}
}

func (b *builder) routes() {
	for i, r := range b.set.GetRoutes() {
		path := fmt.Sprintf("routes[%d]", i)
		b.declare("routes", i, r.GetId())
		route := &Route{ID: r.GetId(), Match: r.GetMatch(), Cost: 1, UserField: r.GetUserField()}
		if r.Cost != nil && b.within(path+".cost", r.GetCost(), 0, limit.CostMax) {
			route.Cost = r.GetCost()
		}
		b.text(path+".user_field", route.UserField)
		switch n := len(route.Match); {
		case n == 0:
			b.fault(path+".match", nil, "is missing: want at least one pattern, as in \"GET /v1/labels\"")
		case n > patternsMax:
			b.fault(path+".match", nil, "has %d patterns: at most %d are allowed", n, patternsMax)
			continue
		}
		for j, pattern := range route.Match {
			b.text(fmt.Sprintf("%s.match[%d]", path, j), pattern)
			if err := register(b.next.mux, pattern); err != nil {
				b.fault(fmt.Sprintf("%s.match[%d]", path, j), pattern, "%v", err)
				continue
			}
			b.next.patterns[pattern] = route
		}
		b.next.routes = append(b.next.routes, route)
	}
	b.slashes()
}

// slashes adds to each pattern that of its path with a slash at the end, where no
// pattern of the rules contradicts: a broader class must not take it.
func (b *builder) slashes() {
	for _, route := range b.next.routes {
		for _, pattern := range route.Match {
			if with, ok := withSlash(pattern); ok && b.next.patterns[pattern] == route && register(b.next.mux, with) == nil {
				b.next.patterns[with] = route
			}
		}
	}
}

// within reports whether v is in a range, and faults it otherwise.
func (b *builder) within(path string, v, lowest, highest int64) bool {
	if v >= lowest && v <= highest {
		return true
	}
	b.fault(path, v, "want %d to %d", lowest, highest)
	return false
}

// addIndex puts each rule into the rows of the places where it is met.
func (b *builder) addIndex() {
	if len(b.faults) > 0 {
		return
	}
	everyPlan := append([]string{"", PlanAnonymous}, b.next.plans...)
	everyRoute := []string{""}
	for _, r := range b.next.routes {
		everyRoute = append(everyRoute, r.ID)
	}
	for i, rule := range b.rules {
		plans, routes := everyPlan, everyRoute
		if rule.Plan != "" {
			plans = []string{rule.Plan}
		}
		if rule.Route != "" {
			routes = []string{rule.Route}
		}
		for _, plan := range plans {
			for _, route := range routes {
				b.addToRow(i, rule, place{plan, route})
			}
		}
	}
	b.next.rules = b.rules
}

// addToRow adds a rule to the row of a place. A request asks the store for all
// rules of a subject at once, and there is a bound to that.
func (b *builder) addToRow(i int, rule *limit.Rule, at place) {
	r := b.next.index[at]
	if r == nil {
		r = new(row)
		b.next.index[at] = r
	}
	if len(r[rule.Kind]) == store.EntriesMax {
		b.fault(b.pathOfRule(i), nil, "a request of plan %q and route %q would meet more than %d rules for one %s",
			at.plan, at.route, store.EntriesMax, rule.Kind)
		return
	}
	r[rule.Kind] = append(r[rule.Kind], rule)
}
