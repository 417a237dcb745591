package feed

import (
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
	before, no := f.current.Load(), refused{}
	last := f.empty
	if before != nil {
		last = before.rules
	}
	next, faults := ruleset.Compile(set, last, f.cfg.Options...)
	for _, fault := range faults {
		no.add(itemOfSet(set, fault.Path), fault.String())
	}
	f.take(before, next, last, no, set.GetRevision())
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
		no.add(itemOfChanges(c.GetChanges(), fault.Path), fault.String())
	}
	f.take(before, next, before.rules, no, c.GetRevision())
}

// take puts next in force, or last with what was refused of a revision if all of it
// was. before is what is in force, nil if nothing is.
func (f *Feed) take(before *state, next, last *ruleset.Ruleset, no refused, revision int64) {
	tookNone := next == last
	if tookNone {
		no.add(whole, fmt.Sprintf("nothing of revision %d is in force", revision))
	}
	f.tellRefused(before, no, revision)
	if tookNone && before == nil {
		return // as before: there are no rules
	}
	f.adopt(state{next, no})
	if !tookNone {
		f.log.Info("rules in force", "revision", revision, "rules", len(next.Rules()), "refused", len(no))
	}
}

// tellRefused logs what was not refused before.
func (f *Feed) tellRefused(before *state, no refused, revision int64) {
	var anew []any
	for item, text := range no {
		if before == nil || before.refused[item] != text {
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
	if len(changes) == 1 {
		return itemOf(changes[0])
	}
	if section, i, ok := place(path); ok && section == "changes" && i < len(changes) {
		return itemOf(changes[i])
	}
	return whole
}

// place reads "rules[3].burst" as rules, 3.
func place(path string) (section string, i int, ok bool) {
	section, rest, ok := strings.Cut(path, "[")
	number, _, closed := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	return section, i, ok && closed && err == nil && i >= 0
}
