package ruleset

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Compile checks set and makes the snapshot of it. previous is the snapshot in
// force, nil at the start; set stays the caller's.
//
// Without faults the result is all of set. With faults it is what may take
// effect in spite of them: set with the last good version of what is faulty,
// or previous itself (see the package's comment), and so nil without previous.
// It is previous, too, if nothing has changed and set has no revision of its
// own.
func Compile(set *rulesv1.Ruleset, previous *Ruleset, options ...Option) (*Ruleset, Faults) {
	return compile(proto.CloneOf(set), previous, nil, settingsOf(options))
}

// patches bounds how often faulty items are replaced: the first time by what
// the ruleset was asked to change, the second by what that change broke.
const patches = 2

// compile is Compile with the faults that reading a file has found in set.
func compile(set *rulesv1.Ruleset, previous *Ruleset, read Faults, how settings) (*Ruleset, Faults) {
	var good *rulesv1.Ruleset // what previous was made of
	if previous != nil {
		good = previous.whole()
	}
	next, faults := build(set, previous, read, how)
	left := faults
	for range patches {
		if len(left) == 0 {
			break
		}
		if previous == nil || structural(left) {
			return previous, faults
		}
		set = patch(set, left, good, how.naming)
		next, left = build(set, previous, nil, how)
	}
	if len(left) > 0 {
		return previous, faults
	}
	if previous != nil && set.GetRevision() == 0 && proto.Equal(set, good) {
		return previous, faults
	}
	return next, faults
}

func structural(faults Faults) bool {
	for _, f := range faults {
		if f.structural() {
			return true
		}
	}
	return false
}

// exceptionID is what makes two overrides versions of one: the rule and the
// key, however it is spelled.
type exceptionID struct{ rule, key string }

func (n Naming) exceptionIDOf(o *rulesv1.Override, rule *rulesv1.Rule) exceptionID {
	key, err := n.identityID(kinds[rule.GetIdentity()], o.GetKey())
	if err != nil {
		key = o.GetKey()
	}
	return exceptionID{o.GetRule(), key}
}

// patch returns set with its faulty rules and overrides replaced by those of
// good, or left out if good has none. The faults are not structural.
func patch(set *rulesv1.Ruleset, faults Faults, good *rulesv1.Ruleset, naming Naming) *rulesv1.Ruleset {
	bad := make(map[string]bool, len(faults))
	for _, f := range faults {
		bad[itemOf(f.Path)] = true
	}
	goodRules := make(map[string]*rulesv1.Rule, len(good.GetRules()))
	for _, r := range good.GetRules() {
		goodRules[r.GetId()] = r
	}
	out := &rulesv1.Ruleset{Domain: set.GetDomain(), Revision: set.GetRevision(), Plans: set.GetPlans(), Routes: set.GetRoutes()}
	rules := make(map[string]*rulesv1.Rule, len(set.GetRules()))
	for i, r := range set.GetRules() {
		if bad[fmt.Sprintf("rules[%d]", i)] {
			r = goodRules[r.GetId()]
		}
		if r != nil {
			out.Rules = append(out.Rules, r)
			rules[r.GetId()] = r
		}
	}
	for i, c := range set.GetCandidates() {
		if !bad[fmt.Sprintf("candidates[%d]", i)] {
			out.Candidates = append(out.Candidates, c)
		}
	}
	out.Overrides = naming.patchOverrides(set, bad, good, rules)
	return out
}

// patchOverrides is patch for overrides: those of one rule and key stand or
// fall together, since they share out time between them. rules are the patched
// ones; an override of a rule that was left out goes with it.
func (n Naming) patchOverrides(set *rulesv1.Ruleset, bad map[string]bool, good *rulesv1.Ruleset, rules map[string]*rulesv1.Rule) []*rulesv1.Override {
	replaced := map[exceptionID]bool{}
	for i, o := range set.GetOverrides() {
		if bad[fmt.Sprintf("overrides[%d]", i)] {
			replaced[n.exceptionIDOf(o, rules[o.GetRule()])] = true
		}
	}
	var out []*rulesv1.Override
	add := func(from []*rulesv1.Override, replacement bool) {
		for _, o := range from {
			rule := rules[o.GetRule()]
			if rule != nil && replaced[n.exceptionIDOf(o, rule)] == replacement {
				out = append(out, o)
			}
		}
	}
	add(set.GetOverrides(), false)
	add(good.GetOverrides(), true)
	return out
}
