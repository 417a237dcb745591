package ruleset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Empty returns a ruleset without rules, at revision 0: what changes are applied
// to at first. Its domain must be valid.
func Empty(domain string, options ...Option) *Ruleset {
	set, _ := build(&rulesv1.Ruleset{Domain: domain}, nil, nil, settingsOf(options))
	set.revision, set.order = 0, 0
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
// in it has an id; items that are new stand in the order of their ids.
//
// A change that has a fault is not made: what it is about stays as it was, and the
// others are made. What an item has against a change that is not its own (a rule
// against the deletion of its plan, an override against an edit of its rule) is held
// against all changes of plans, routes, rules and candidates, none of which is made
// then. So nothing is ever lost that no change is about. Faults lead into changes[i],
// or into an item of the source. Of several changes of one item the last counts.
//
// A change of overrides costs what it changes, however many there are; one of
// rules, routes, plans or candidates costs the number of them, and a look at each
// override. Applying changes one after another and Compile of what they add up to
// give the same ruleset.
func (s *Ruleset) Apply(changes []*rulesv1.Change, revision int64) (*Ruleset, Faults) {
	a := application{before: s, changes: changes, revision: revision, byItem: map[string]int{}}
	next := a.applyBase()
	if a.applyOverrides(next) {
		return next, append(a.faults, a.refused...)
	}
	a.byItem, a.refused = map[string]int{}, nil // none of these is made
	if next = a.unchanged(); !a.applyOverrides(next) {
		next = a.unchanged()
	}
	return next, append(a.faults, a.refused...)
}

// application is changes being applied.
type application struct {
	before   *Ruleset
	changes  []*rulesv1.Change
	revision int64
	byItem   map[string]int // changes of the base by section and id
	faults   Faults
	refused  Faults // of changes of overrides, as they were tried last
}

// reverts bounds how often faulty changes are taken back: the first time those
// with faults, the next times those that build on them.
const reverts = 4

// note adds faults, one for each path: what is tried again has them again.
func note(to *Faults, faults Faults) {
	for _, f := range faults {
		if !slices.ContainsFunc(*to, func(have Fault) bool { return have.Path == f.Path }) {
			*to = append(*to, f)
		}
	}
}

// unchanged returns what was there before, at the new revision.
func (a *application) unchanged() *Ruleset {
	next := *a.before
	next.revision, next.order = a.revision, max(a.revision, a.before.order+1)
	return &next
}

// applyBase makes the changes of all but overrides, and returns a ruleset that has
// the overrides of before, not yet fitted to it.
func (a *application) applyBase() *Ruleset {
	next := a.unchanged()
	for i, c := range a.changes {
		if section, id, ok := partOf(c); ok {
			a.byItem[section+"/"+id] = i
		}
	}
	if len(a.byItem) == 0 {
		return next
	}
	set := cloneLists(a.before.base)
	set.Revision = a.revision
	for _, i := range a.byItem {
		section, id, _ := partOf(a.changes[i])
		edit(set, section, id, itemOfChange(a.changes[i]))
	}
	if made := a.build(set); made != nil {
		made.overrides, made.exceptions = next.overrides, next.exceptions
		made.revision = a.revision
		next = made
	}
	return next
}

// build compiles set, taking faulty changes back until there is no fault; nil if
// what is left has faults.
func (a *application) build(set *rulesv1.Ruleset) *Ruleset {
	for range reverts {
		next, faults := build(set, a.before, nil, a.before.how)
		if len(faults) == 0 {
			return next
		}
		note(&a.faults, a.placed(set, faults))
		if !a.takeBack(set, faults) {
			break
		}
	}
	return nil
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
