package ruleset

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// pending is an override that is to be looked at.
type pending struct {
	key, path string
	source    *rulesv1.Override // as it is to be; nil: deleted
	old       *override         // as it was; nil: new
	stays     bool              // it has no change, or one that is refused
}

// wanted is what of an override is to be in force, nil for nothing.
func (p *pending) wanted() *rulesv1.Override {
	switch {
	case !p.stays:
		return p.source
	case p.old != nil:
		return p.old.source
	}
	return nil
}

// applyOverrides makes the changes of overrides and fits those to next whose rules
// have changed. It is false if one that stays as it was cannot: next is not to be
// used then.
func (a *application) applyOverrides(next *Ruleset) bool {
	todo := a.changedOverrides()
	todo = append(todo, a.unfitted(next, todo)...)
	if len(todo) == 0 {
		return true
	}
	for range reverts {
		if refused, lost := a.place(next, todo); lost {
			return false
		} else if !refused {
			return true
		}
	}
	return false
}

// place puts overrides into next in place of what they were: first those that stay,
// then those that change. It reports whether a change was refused, so that all are to
// be placed again, and whether one that stays does not fit.
func (a *application) place(next *Ruleset, todo []pending) (refused, lost bool) {
	made, effects := a.before.overrides.edit(hashText), a.before.exceptions.edit(limit.Subject.Hash)
	for _, p := range todo {
		if p.old != nil {
			without(effects, p.old.subject, p.key)
			made.drop(p.key)
		}
	}
	slices.SortStableFunc(todo, func(x, y pending) int { return rank(x) - rank(y) })
	for i := range todo {
		p := &todo[i]
		source := p.wanted()
		if source == nil {
			continue
		}
		one, faults := a.fit(next, p, source, effects)
		if len(faults) == 0 && made.cow.size >= overridesMax {
			faults = Faults{{Path: p.path, Problem: fmt.Sprintf("would be one more than the %d overrides that are allowed", overridesMax)}}
		}
		switch {
		case len(faults) == 0:
			made.put(p.key, one)
			effects.put(one.subject, one.beside(slices.Clip(effects.get(one.subject))))
		case p.stays:
			note(&a.faults, faults)
			lost = true
		default:
			note(&a.refused, faults)
			p.stays, p.path, refused = true, pathOf(p.key), true
		}
	}
	next.overrides, next.exceptions = made.cow, effects.cow
	return refused, lost
}

func rank(p pending) int {
	if p.stays {
		return 0
	}
	return 1
}

// pathOf names an override that no change is to blame for.
func pathOf(key string) string { return fmt.Sprintf("overrides[%q]", key) }

// changedOverrides returns what the changes are about, of two of one override the
// last.
func (a *application) changedOverrides() (todo []pending) {
	at := map[string]int{}
	for i, c := range a.changes {
		id, source := c.GetOverride().GetId(), c.GetOverride()
		if d := c.GetDeletion(); d.GetKind() == rulesv1.Kind_KIND_OVERRIDE {
			id = d.GetId()
		} else if source == nil {
			continue
		}
		path := fmt.Sprintf("changes[%d].override", i)
		if id == "" {
			note(&a.refused, Faults{{Path: path + ".id", Problem: "is missing: want the override's id"}})
			continue
		}
		if source != nil {
			source = proto.CloneOf(source)
		}
		p := pending{key: id, path: path, source: source, old: a.before.overrides.get(id)}
		if first, twice := at[id]; twice {
			todo[first] = p
			continue
		}
		at[id] = len(todo)
		todo = append(todo, p)
	}
	return todo
}

// unfitted returns the overrides whose rules have changed, but for the changed ones.
func (a *application) unfitted(next *Ruleset, changed []pending) (todo []pending) {
	if len(a.byItem) == 0 {
		return nil
	}
	known := make(map[string]bool, len(changed))
	for _, p := range changed {
		known[p.key] = true
	}
	a.before.overrides.all(func(key string, o *override) {
		if !known[key] && next.byID[o.source.GetRule()] != o.counted {
			todo = append(todo, pending{key: key, path: pathOf(key), source: o.source, old: o, stays: true})
		}
	})
	slices.SortFunc(todo, func(x, y pending) int { return cmp.Compare(x.key, y.key) })
	return todo
}

// fit makes an override as the rules of next have it, beside those that are in
// effects.
func (a *application) fit(next *Ruleset, p *pending, source *rulesv1.Override, effects *cowEdit[limit.Subject, []exception]) (*override, Faults) {
	b := &builder{set: next.base, next: next, faulted: map[string]bool{}}
	one := b.override(p.path, p.key, source)
	if one == nil || len(b.faults) > 0 {
		return nil, b.faults
	}
	if p.old != nil {
		one.order = p.old.order
	}
	for _, other := range effects.get(one.subject) {
		if other.overlaps(&one.does[0]) {
			b.fault(p.path, nil, "overlaps in time with override %s, which has the same rule and key", other.override)
		}
	}
	return one, b.faults
}

// beside returns the exceptions of a subject with those of one more override; have
// may be written behind its end. Most subjects have one override: theirs are not
// copied.
func (o *override) beside(have []exception) []exception {
	if len(have) == 0 {
		return slices.Clip(o.does)
	}
	return append(have, o.does...)
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
