package ruleset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Empty returns a ruleset without rules, at revision 0: what changes are applied
// to at first. Its domain must be valid.
func Empty(domain string, options ...Option) *Ruleset {
	set, _ := build(&rulesv1.Ruleset{Domain: domain}, nil, nil, settingsOf(options))
	set.revision = 0
	return set
}

// Source returns the whole that the ruleset was made of; it is the caller's. It
// costs a copy of everything.
func (s *Ruleset) Source() *rulesv1.Ruleset {
	set := proto.CloneOf(s.whole())
	set.Revision = s.revision
	return set
}

// whole is Source without the copy: its items must not be modified.
func (s *Ruleset) whole() *rulesv1.Ruleset {
	set := baseOf(s.base)
	all := make([]*override, 0, s.overrides.size)
	s.overrides.all(func(_ string, o *override) { all = append(all, o) })
	slices.SortFunc(all, func(x, y *override) int {
		return cmp.Or(cmp.Compare(x.source.GetId(), y.source.GetId()), cmp.Compare(x.order, y.order))
	})
	for _, o := range all {
		set.Overrides = append(set.Overrides, o.source)
	}
	return set
}

// Apply returns the ruleset as changes make it, at the given revision. Everything
// in it has an id, and the lists of its source are in the order of their ids.
//
// A change that has a fault is not made: what it is about stays as it was, and the
// others are made. What an unchanged item has against a change (a rule against the
// deletion of its plan) is held against all changes of plans, routes, rules and
// candidates, none of which is made then; an override that no longer fits its rule
// is dropped. Faults lead into changes[i], or into an item of the source.
//
// A change of overrides costs what it changes, however many there are; one of
// rules, routes, plans or candidates costs the number of them, and a look at each
// override. Applying changes one after another and Compile of what they add up to
// give the same ruleset where nothing has a fault.
func (s *Ruleset) Apply(changes []*rulesv1.Change, revision int64) (*Ruleset, Faults) {
	a := application{before: s, changes: changes, revision: revision, byItem: map[string]int{}}
	next := a.applyBase()
	a.applyOverrides(next)
	return next, a.faults
}

// application is changes being applied.
type application struct {
	before   *Ruleset
	changes  []*rulesv1.Change
	revision int64
	byItem   map[string]int // changes of the base by section and id
	faults   Faults
}

// reverts bounds how often faulty changes are taken back: the first time those
// with faults, the next times those that build on them.
const reverts = 4

// applyBase makes the changes of all but overrides, and returns a ruleset that has
// the overrides of before, not yet fitted to it.
func (a *application) applyBase() *Ruleset {
	set := cloneLists(a.before.base)
	set.Revision = a.revision
	for i, c := range a.changes {
		if section, id, ok := partOf(c); ok {
			a.byItem[section+"/"+id] = i
			edit(set, section, id, itemOfChange(c))
		}
	}
	next := *a.before
	if len(a.byItem) > 0 {
		next = *a.build(set)
	} else {
		next.base = set
	}
	next.revision = a.revision
	next.overrides, next.exceptions = a.before.overrides, a.before.exceptions
	return &next
}

// build compiles set, taking faulty changes back until there is no fault.
func (a *application) build(set *rulesv1.Ruleset) *Ruleset {
	for range reverts {
		next, faults := build(set, a.before, nil, a.before.how)
		if len(faults) == 0 {
			return next
		}
		if a.faults == nil {
			a.faults = a.placed(set, faults)
		}
		if !a.takeBack(set, faults) {
			break
		}
	}
	return a.before
}

// takeBack undoes the changes that have faults; false if others have them.
func (a *application) takeBack(set *rulesv1.Ruleset, faults Faults) bool {
	items := map[string]bool{}
	for _, f := range faults {
		section, id, ok := locate(set, f.Path)
		if _, changed := a.byItem[section+"/"+id]; !ok || !changed {
			return false
		}
		items[section+"/"+id] = true
	}
	for item := range items {
		section, id, _ := strings.Cut(item, "/")
		edit(set, section, id, existing(a.before.base, section, id))
	}
	return true
}

// placed returns faults with paths that lead into the changes where they can.
func (a *application) placed(set *rulesv1.Ruleset, faults Faults) Faults {
	placed := slices.Clone(faults)
	for n, f := range faults {
		section, id, ok := locate(set, f.Path)
		if i, changed := a.byItem[section+"/"+id]; ok && changed {
			_, rest, _ := strings.Cut(f.Path, "]")
			placed[n].Path = fmt.Sprintf("changes[%d].%s%s", i, strings.TrimSuffix(section, "s"), rest)
		}
	}
	return placed
}

// pending is an override that is to be looked at.
type pending struct {
	key, path string
	source    *rulesv1.Override // nil: deleted
	old       *override         // nil: new
	changed   bool              // else only its rule has changed
}

// applyOverrides makes the changes of overrides and fits those to next whose rules
// have changed.
func (a *application) applyOverrides(next *Ruleset) {
	todo := append(a.changedOverrides(), a.unfitted(next)...)
	if len(todo) == 0 {
		return
	}
	made, effects := next.overrides.edit(hashText), next.exceptions.edit(limit.Subject.Hash)
	for _, p := range todo {
		if p.old != nil {
			without(effects, p.old.subject, p.key)
			made.drop(p.key)
		}
	}
	for _, p := range todo {
		if p.source == nil {
			continue
		}
		one, faults := a.fit(next, p.path, p.key, p.source, effects)
		if len(faults) == 0 && made.cow.size >= overridesMax {
			faults = Faults{{Path: p.path, Problem: fmt.Sprintf("would be one more than the %d overrides that are allowed", overridesMax)}}
		}
		a.faults = append(a.faults, faults...)
		if len(faults) > 0 && p.changed && p.old != nil {
			one, faults = a.fit(next, p.path, p.key, p.old.source, effects)
		}
		if len(faults) > 0 {
			continue
		}
		made.put(p.key, one)
		effects.put(one.subject, append(slices.Clip(effects.get(one.subject)), one.does...))
	}
	next.overrides, next.exceptions = made.cow, effects.cow
}

func (a *application) changedOverrides() (todo []pending) {
	for i, c := range a.changes {
		id, source := c.GetOverride().GetId(), c.GetOverride()
		if d := c.GetDeletion(); d.GetKind() == rulesv1.Kind_KIND_OVERRIDE {
			id = d.GetId()
		} else if source == nil {
			continue
		}
		path := fmt.Sprintf("changes[%d].override", i)
		if id == "" {
			a.faults = append(a.faults, Fault{Path: path + ".id", Problem: "is missing: want the override's id"})
			continue
		}
		if source != nil {
			source = proto.CloneOf(source)
		}
		todo = append(todo, pending{key: id, path: path, source: source, old: a.before.overrides.get(id), changed: true})
	}
	return todo
}

// unfitted returns the unchanged overrides whose rules have changed.
func (a *application) unfitted(next *Ruleset) (todo []pending) {
	if len(a.byItem) == 0 {
		return nil
	}
	changed := map[string]bool{}
	for _, p := range a.changedOverrides() {
		changed[p.key] = true
	}
	a.before.overrides.all(func(key string, o *override) {
		if !changed[key] && next.byID[o.source.GetRule()] != o.counted {
			todo = append(todo, pending{key: key, path: fmt.Sprintf("overrides[%q]", key), source: o.source, old: o})
		}
	})
	slices.SortFunc(todo, func(x, y pending) int { return cmp.Compare(x.key, y.key) })
	return todo
}

// fit makes an override as the rules of next have it, beside those that are in
// effects.
func (a *application) fit(next *Ruleset, path, key string, source *rulesv1.Override, effects *cowEdit[limit.Subject, []exception]) (*override, Faults) {
	b := &builder{set: next.base, next: next, faulted: map[string]bool{}}
	one := b.override(path, key, source)
	if one == nil || len(b.faults) > 0 {
		return nil, b.faults
	}
	for _, other := range effects.get(one.subject) {
		if other.overlaps(&one.does[0]) {
			b.fault(path, nil, "overlaps in time with override %s, which has the same rule and key", other.override)
		}
	}
	return one, b.faults
}

// without takes what an override does from the exceptions of a subject.
func without(effects *cowEdit[limit.Subject, []exception], subject limit.Subject, key string) {
	var left []exception
	for _, e := range effects.get(subject) {
		if e.override != key {
			left = append(left, e)
		}
	}
	if left == nil {
		effects.drop(subject)
	} else {
		effects.put(subject, left)
	}
}

// partOf returns which part of a ruleset other than the overrides a change is
// about.
func partOf(c *rulesv1.Change) (section, id string, ok bool) {
	switch item := c.GetItem().(type) {
	case *rulesv1.Change_Plan:
		return "plans", item.Plan.GetId(), true
	case *rulesv1.Change_Route:
		return "routes", item.Route.GetId(), true
	case *rulesv1.Change_Rule:
		return "rules", item.Rule.GetId(), true
	case *rulesv1.Change_Candidate:
		return "candidates", item.Candidate.GetRule().GetId(), true
	case *rulesv1.Change_Deletion:
		section, ok = map[rulesv1.Kind]string{
			rulesv1.Kind_KIND_PLAN: "plans", rulesv1.Kind_KIND_ROUTE: "routes", rulesv1.Kind_KIND_RULE: "rules", rulesv1.Kind_KIND_CANDIDATE: "candidates",
		}[item.Deletion.GetKind()]
		return section, item.Deletion.GetId(), ok
	}
	return "", "", false
}

// itemOfChange returns a copy of what a change puts, nil for a deletion.
func itemOfChange(c *rulesv1.Change) proto.Message {
	switch item := c.GetItem().(type) {
	case *rulesv1.Change_Plan:
		return proto.CloneOf(item.Plan)
	case *rulesv1.Change_Route:
		return proto.CloneOf(item.Route)
	case *rulesv1.Change_Rule:
		return proto.CloneOf(item.Rule)
	case *rulesv1.Change_Candidate:
		return proto.CloneOf(item.Candidate)
	}
	return nil
}

// cloneLists returns a set whose lists can be changed, and whose items are shared.
func cloneLists(set *rulesv1.Ruleset) *rulesv1.Ruleset {
	return &rulesv1.Ruleset{
		Domain: set.GetDomain(), Plans: slices.Clone(set.GetPlans()), Routes: slices.Clone(set.GetRoutes()),
		Rules: slices.Clone(set.GetRules()), Candidates: slices.Clone(set.GetCandidates()),
	}
}

// edit puts an item into its list, or takes it out if it is nil.
func edit(set *rulesv1.Ruleset, section, id string, item proto.Message) {
	switch section {
	case "plans":
		set.Plans = edited(set.Plans, (*rulesv1.Plan).GetId, id, item)
	case "routes":
		set.Routes = edited(set.Routes, (*rulesv1.Route).GetId, id, item)
	case "rules":
		set.Rules = edited(set.Rules, (*rulesv1.Rule).GetId, id, item)
	case "candidates":
		set.Candidates = edited(set.Candidates, ruleOf, id, item)
	}
}

func ruleOf(c *rulesv1.Candidate) string { return c.GetRule().GetId() }

func edited[T proto.Message](list []T, idOf func(T) string, id string, item proto.Message) []T {
	at, found := slices.BinarySearchFunc(list, id, func(have T, id string) int { return cmp.Compare(idOf(have), id) })
	put, ok := item.(T)
	switch {
	case found && ok:
		list[at] = put
	case found:
		list = slices.Delete(list, at, at+1)
	case ok:
		list = slices.Insert(list, at, put)
	}
	return list
}

// existing returns an item, nil if there is none.
func existing(set *rulesv1.Ruleset, section, id string) proto.Message {
	switch section {
	case "plans":
		return lookUp(set.GetPlans(), (*rulesv1.Plan).GetId, id)
	case "routes":
		return lookUp(set.GetRoutes(), (*rulesv1.Route).GetId, id)
	case "rules":
		return lookUp(set.GetRules(), (*rulesv1.Rule).GetId, id)
	case "candidates":
		return lookUp(set.GetCandidates(), ruleOf, id)
	}
	return nil
}

func lookUp[T proto.Message](list []T, idOf func(T) string, id string) proto.Message {
	if at, ok := slices.BinarySearchFunc(list, id, func(have T, id string) int { return cmp.Compare(idOf(have), id) }); ok {
		return list[at]
	}
	return nil
}

// locate returns the item that a path of the set leads into.
func locate(set *rulesv1.Ruleset, path string) (section, id string, ok bool) {
	section, rest, ok := strings.Cut(path, "[")
	number, _, closed := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if !ok || !closed || err != nil {
		return "", "", false
	}
	switch section {
	case "plans":
		return section, set.GetPlans()[i].GetId(), true
	case "routes":
		return section, set.GetRoutes()[i].GetId(), true
	case "rules":
		return section, set.GetRules()[i].GetId(), true
	case "candidates":
		return section, ruleOf(set.GetCandidates()[i]), true
	}
	return "", "", false
}
