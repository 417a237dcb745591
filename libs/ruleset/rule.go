package ruleset

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// What the enumerations of the contract mean here. A value that is in none of
// these tables is refused.
var (
	kinds = map[rulesv1.Identity]limit.Kind{
		rulesv1.Identity_IDENTITY_API_KEY: limit.Account,
		rulesv1.Identity_IDENTITY_IP:      limit.IP,
		rulesv1.Identity_IDENTITY_USER:    limit.User,
	}
	algorithms = map[rulesv1.Algorithm]limit.Algorithm{
		rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET: limit.TokenBucket,
		rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW: limit.FixedWindow,
		rulesv1.Algorithm_ALGORITHM_SLIDING_LOG:  limit.SlidingLog,
	}
	modes = map[rulesv1.Mode]limit.Mode{
		rulesv1.Mode_MODE_UNSPECIFIED: limit.Enforce,
		rulesv1.Mode_MODE_ENFORCE:     limit.Enforce,
		rulesv1.Mode_MODE_SHADOW:      limit.Shadow,
	}
	failModes = map[rulesv1.FailMode]limit.FailMode{
		rulesv1.FailMode_FAIL_MODE_UNSPECIFIED: limit.FailOpen,
		rulesv1.FailMode_FAIL_MODE_OPEN:        limit.FailOpen,
		rulesv1.FailMode_FAIL_MODE_CLOSED:      limit.FailClosed,
	}
	checks = map[rulesv1.Check]limit.Check{
		rulesv1.Check_CHECK_UNSPECIFIED: limit.CheckBefore,
		rulesv1.Check_CHECK_BEFORE:      limit.CheckBefore,
		rulesv1.Check_CHECK_AFTER:       limit.CheckAfter,
	}
	counts = map[rulesv1.Counts]limit.Counts{
		rulesv1.Counts_COUNTS_UNSPECIFIED: limit.CountRequests,
		rulesv1.Counts_COUNTS_REQUESTS:    limit.CountRequests,
		rulesv1.Counts_COUNTS_COST:        limit.CountCost,
	}
)

// enum looks an enumeration's value up, and faults one that is not there.
func enum[E ~int32, T any](b *builder, path string, value E, known map[E]T, want string) T {
	v, ok := known[value]
	switch {
	case ok:
	case value == 0:
		b.fault(path, nil, "is missing: want %s", want)
	default:
		b.fault(path, int32(value), "want %s", want)
	}
	return v
}

// addRules checks the rules and makes them. Where nothing changed, the rule of
// the previous snapshot is used again, pointer and all.
func (b *builder) addRules() {
	for i, r := range b.set.GetRules() {
		path := fmt.Sprintf("rules[%d]", i)
		b.declare("rules", i, r.GetId())
		rule := b.rule(path, r, r.GetId())
		b.rules = append(b.rules, b.again(rule))
	}
}

// rule checks a rule and makes it, to be counted as id.
func (b *builder) rule(path string, r *rulesv1.Rule, id string) *limit.Rule {
	rule := &limit.Rule{
		Domain: b.set.GetDomain(), ID: id, Version: r.GetVersion(), Plan: r.GetPlan(), Route: r.GetRoute(),
		Kind:      enum(b, path+".identity", r.GetIdentity(), kinds, "api_key, ip or user"),
		Algorithm: enum(b, path+".algorithm", r.GetAlgorithm(), algorithms, "token_bucket, fixed_window or sliding_log"),
		Mode:      enum(b, path+".mode", r.GetMode(), modes, "enforce or shadow"),
		FailMode:  enum(b, path+".fail_mode", r.GetFailMode(), failModes, "open or closed"),
		Counts:    enum(b, path+".counts", r.GetCounts(), counts, "requests or cost"),
		Check:     enum(b, path+".check", r.GetCheck(), checks, "before or after"),
	}
	rule.Tag = limit.TagOf(rule.Domain, rule.ID, rule.Algorithm)
	if rule.Version < 0 {
		b.fault(path+".version", rule.Version, "want 0 or more")
	}
	b.matches(path, r, rule)
	rule.Limit = b.amounts(path, rule, limit.Limit{}, amounts{r.Rate, r.Burst, r.Limit, r.GetWindow()}, true)
	if rule.Check == limit.CheckAfter && rule.Algorithm == limit.SlidingLog {
		b.fault(path+".check", "after", "does not belong to a sliding_log, each of whose attempts is counted before")
	}
	if rule.Check == limit.CheckAfter && rule.FailMode == limit.FailClosed {
		b.fault(path+".check", "after", "contradicts fail_mode closed: what is counted after has been admitted")
	}
	if rule.Algorithm == limit.TokenBucket && r.GetCounts() != rulesv1.Counts_COUNTS_UNSPECIFIED {
		b.fault(path+".counts", nil, "does not belong to a token_bucket, which counts cost: leave it out")
	}
	if first, taken := b.tags[rule.Tag]; taken && first != rule.ID {
		b.fault(path+".id", rule.ID, "want another name: the hash of this one, %#x, is that of %s too", rule.Tag, first)
	}
	b.tags[rule.Tag] = rule.ID
	return rule
}

// again returns the rule of the previous snapshot if it is the same.
func (b *builder) again(rule *limit.Rule) *limit.Rule {
	if old := b.previous[rule.ID]; old != nil && *old == *rule {
		return old
	}
	return rule
}

// matches checks whom a rule is for: somebody, and everybody only if it says so.
func (b *builder) matches(path string, r *rulesv1.Rule, rule *limit.Rule) {
	if rule.Plan != "" && rule.Plan != PlanAnonymous && !b.knows("plans", rule.Plan) {
		b.fault(path+".plan", rule.Plan, "want the id of one of the plans, or %s", PlanAnonymous)
	}
	if rule.Route != "" && !b.knows("routes", rule.Route) {
		b.fault(path+".route", rule.Route, "want the id of one of the routes")
	}
	everything := rule.Plan == "" && rule.Route == ""
	switch scope := r.GetScope(); {
	case scope != rulesv1.Scope_SCOPE_UNSPECIFIED && scope != rulesv1.Scope_SCOPE_ALL:
		b.fault(path+".scope", int32(scope), "want all, or nothing")
	case everything && scope != rulesv1.Scope_SCOPE_ALL:
		b.fault(path+".scope", nil, "is missing: the rule has neither plan nor route; if it is for every request, say scope: all")
	case !everything && scope == rulesv1.Scope_SCOPE_ALL:
		b.fault(path+".scope", "all", "want none: the rule has a plan or a route")
	}
	if rule.Kind == limit.Account && rule.Plan == PlanAnonymous {
		b.fault(path+".identity", "api_key", "can never match: requests of plan %s have no account", PlanAnonymous)
	}
	route, largest := b.next.costliest(rule)
	rule.Largest = largest
	if rule.Kind == limit.User && route == nil && (rule.Route == "" || b.knows("routes", rule.Route)) {
		b.fault(path+".identity", "user", "can never match: no route of the rule has a user_field")
	}
}

// amounts is what a rule and an override alike say of a limit; nil is unsaid.
type amounts struct {
	rate   *float64
	burst  *int64
	count  *int64
	window *durationpb.Duration
}

// amounts returns base with what is said put in, all of it checked. If whole,
// everything that the rule's algorithm needs must be said.
func (b *builder) amounts(path string, rule *limit.Rule, base limit.Limit, say amounts, whole bool) limit.Limit {
	bucket, counter := rule.Algorithm == limit.TokenBucket, rule.Algorithm == limit.FixedWindow || rule.Algorithm == limit.SlidingLog
	if !bucket && !counter {
		return base // the fault is in the algorithm
	}
	for _, field := range []struct {
		name         string
		said, belong bool
	}{
		{"rate", say.rate != nil, bucket}, {"burst", say.burst != nil, bucket},
		{"limit", say.count != nil, counter}, {"window", say.window != nil, counter},
	} {
		if field.said && !field.belong {
			b.fault(path+"."+field.name, nil, "does not belong to a %s: leave it out", rule.Algorithm)
		} else if whole && field.belong && !field.said {
			b.fault(path+"."+field.name, nil, "is missing: a %s needs it", rule.Algorithm)
		}
	}
	l := base
	if bucket {
		b.bucket(path, rule, say, &l)
	} else {
		b.counter(path, rule, say, &l)
	}
	return l
}

// bucket checks a token bucket's rate and burst and puts them into l.
func (b *builder) bucket(path string, rule *limit.Rule, say amounts, l *limit.Limit) {
	if say.rate != nil {
		l.Rate = limit.Rate(*say.rate)
		if err := l.Rate.Validate(); err != nil {
			b.fault(path+".rate", *say.rate, "%v", err)
		}
	}
	if say.burst != nil {
		l.Burst = *say.burst
		if b.within(path+".burst", l.Burst, 1, limit.BurstMax) {
			b.holdsLargest(path+".burst", rule, l.Burst)
		}
	}
}

// counter checks the count and window of a window or log and puts them into l.
func (b *builder) counter(path string, rule *limit.Rule, say amounts, l *limit.Limit) {
	if say.count != nil {
		l.Count = *say.count
		most := limit.CountMax
		if rule.Algorithm == limit.SlidingLog {
			most = limit.LogCountMax
		}
		if b.within(path+".limit", l.Count, 1, most) {
			b.holdsLargest(path+".limit", rule, l.Count)
		}
	}
	if say.window != nil {
		var err error
		if l.Window, err = windowOf(say.window); err != nil {
			b.fault(path+".window", say.window.AsDuration(), "%v", err)
		}
	}
}

// windowOf returns a window's length, in whole microseconds.
func windowOf(said *durationpb.Duration) (time.Duration, error) {
	window := said.AsDuration()
	if !said.IsValid() || window < limit.WindowMin || window > limit.WindowMax {
		return 0, fmt.Errorf("want %v to %v", limit.WindowMin, limit.WindowMax)
	}
	if window%time.Microsecond != 0 {
		return 0, errors.New("want whole microseconds, which stores count in")
	}
	return window, nil
}

// holdsLargest faults a size below the largest charge that one request can
// make: such a request could never pass.
func (b *builder) holdsLargest(path string, rule *limit.Rule, size int64) {
	route, largest := b.next.costliest(rule)
	if size < largest {
		b.fault(path, size, "want %d or more, which one request of route %q costs: it could never pass", largest, route.ID)
	}
}
