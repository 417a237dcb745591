package feed

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Bounds of what a report says of faults, as watch.proto has them.
const (
	faultsMax = 100
	faultMax  = 1024 // bytes
)

// refused is what the pod did not take, in words by item ("rule growth-global"). It is
// not modified once it is in force.
type refused map[string]string

// texts returns the words, in order, as many and as long as a report may hold.
func (r refused) texts() []string {
	texts := slices.Sorted(maps.Values(r))
	return texts[:min(len(texts), faultsMax)]
}

func (r refused) add(item, problem string) {
	if _, told := r[item]; told {
		return // the first fault says enough
	}
	text := strings.ToValidUTF8(item+": "+problem, "?")
	r[item] = text[:min(len(text), faultMax)]
}

// whole names what was refused where it cannot be told which item is to blame.
const whole = "the ruleset"

// takeWhole puts a snapshot in force, as far as it has no faults.
func (f *Feed) takeWhole(set *rulesv1.Ruleset) {
	sortByID(set)
	no := refused{}
	last := cmp.Or(f.Current(), f.empty)
	next, faults := ruleset.Compile(set, last, f.cfg.Options...)
	for _, fault := range faults {
		no.add(itemOfSet(set, fault.Path), textOf(fault))
	}
	f.take(next, next != last, no, set.GetRevision())
}

// sortByID brings a snapshot into the order that Apply asks for.
func sortByID(set *rulesv1.Ruleset) {
	slices.SortStableFunc(set.GetPlans(), func(a, b *rulesv1.Plan) int { return cmp.Compare(a.GetId(), b.GetId()) })
	slices.SortStableFunc(set.GetRoutes(), func(a, b *rulesv1.Route) int { return cmp.Compare(a.GetId(), b.GetId()) })
	slices.SortStableFunc(set.GetRules(), func(a, b *rulesv1.Rule) int { return cmp.Compare(a.GetId(), b.GetId()) })
	slices.SortStableFunc(set.GetCandidates(), func(a, b *rulesv1.Candidate) int { return cmp.Compare(a.GetRule().GetId(), b.GetRule().GetId()) })
}

// takeChanges puts changes in force, as far as they have no faults. What they bring
// anew is no longer refused.
func (f *Feed) takeChanges(c *rulesv1.Changes) {
	before := f.current.Load()
	next, faults := before.rules.Apply(c.GetChanges(), c.GetRevision())
	no := maps.Clone(before.refused)
	for _, change := range c.GetChanges() {
		delete(no, itemOf(change))
	}
	for _, fault := range faults {
		no.add(itemOfChanges(c.GetChanges(), fault.Path), textOf(fault))
	}
	f.take(next, true, no, c.GetRevision())
}

// take puts next in force, or leaves what is if none of a revision was taken.
func (f *Feed) take(next *ruleset.Ruleset, taken bool, no refused, revision int64) {
	before := f.current.Load()
	if !taken {
		next = before.rules
		no.add(whole, fmt.Sprintf("nothing of revision %d is in force", revision))
	}
	f.tellRefused(before, no, revision)
	f.adopt(state{next, no})
	if taken {
		f.log.Info("rules in force", "revision", revision, "rules", len(next.Rules()), "refused", len(no))
	}
}

// tellRefused logs what was not refused before.
func (f *Feed) tellRefused(before *state, no refused, revision int64) {
	var anew []any
	for item, text := range no {
		if before.refused[item] != text {
			anew = append(anew, slog.String(item, text))
		}
	}
	if len(anew) > 0 {
		f.log.Error("rules of the service have faults: what is faulty stays as it was, the rest is in force",
			"revision", revision, slog.Group("faults", anew[:min(len(anew), faultsMax)]...))
	}
}

// kinds are what Kind says in a fault.
var kinds = map[rulesv1.Kind]string{
	rulesv1.Kind_KIND_PLAN: "plan", rulesv1.Kind_KIND_ROUTE: "route", rulesv1.Kind_KIND_RULE: "rule",
	rulesv1.Kind_KIND_OVERRIDE: "override", rulesv1.Kind_KIND_CANDIDATE: "candidate of",
}

// itemOf names what a change is about.
func itemOf(change *rulesv1.Change) string {
	switch item := change.GetItem().(type) {
	case *rulesv1.Change_Plan:
		return "plan " + item.Plan.GetId()
	case *rulesv1.Change_Route:
		return "route " + item.Route.GetId()
	case *rulesv1.Change_Rule:
		return "rule " + item.Rule.GetId()
	case *rulesv1.Change_Override:
		return "override " + item.Override.GetId()
	case *rulesv1.Change_Candidate:
		return "candidate of " + item.Candidate.GetRule().GetId()
	case *rulesv1.Change_Deletion:
		return kinds[item.Deletion.GetKind()] + " " + item.Deletion.GetId()
	}
	return whole
}

// itemOfSet names the item of a ruleset that a path of a fault leads into.
func itemOfSet(set *rulesv1.Ruleset, path string) string {
	section, i, ok := place(path)
	switch {
	case ok && section == "plans" && i < len(set.GetPlans()):
		return "plan " + set.GetPlans()[i].GetId()
	case ok && section == "routes" && i < len(set.GetRoutes()):
		return "route " + set.GetRoutes()[i].GetId()
	case ok && section == "rules" && i < len(set.GetRules()):
		return "rule " + set.GetRules()[i].GetId()
	case ok && section == "overrides" && i < len(set.GetOverrides()):
		return "override " + set.GetOverrides()[i].GetId()
	case ok && section == "candidates" && i < len(set.GetCandidates()):
		return "candidate of " + set.GetCandidates()[i].GetRule().GetId()
	}
	return whole
}

// itemOfChanges names the item of changes that a path of a fault leads into.
func itemOfChanges(changes []*rulesv1.Change, path string) string {
	if section, i, ok := place(path); ok && section == "changes" && i < len(changes) {
		return itemOf(changes[i])
	}
	if id, ok := strings.CutPrefix(path, "overrides[\""); ok { // that no longer fits its rule
		return "override " + strings.TrimSuffix(id, "\"]")
	}
	return whole
}

// textOf says what is wrong with an item, in the same words whether the item came in
// a snapshot or in a change.
func textOf(fault ruleset.Fault) string {
	if section, _, ok := place(fault.Path); ok {
		_, fault.Path, _ = strings.Cut(fault.Path, "]")
		fault.Path = strings.TrimPrefix(fault.Path, ".")
		if section == "changes" {
			_, fault.Path, _ = strings.Cut(fault.Path, ".")
		}
		fault.Path = cmp.Or(fault.Path, "it")
	}
	return fault.String()
}

// place reads "rules[3].burst" as rules, 3.
func place(path string) (section string, i int, ok bool) {
	section, rest, ok := strings.Cut(path, "[")
	number, _, closed := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	return section, i, ok && closed && err == nil && i >= 0
}
