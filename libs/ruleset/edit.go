package ruleset

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

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
	at := slices.IndexFunc(list, func(have T) bool { return idOf(have) == id })
	put, ok := item.(T)
	switch {
	case at >= 0 && ok:
		list[at] = put
	case at >= 0:
		list = slices.Delete(list, at, at+1)
	case ok: // a list of a rule file may have another order, and keeps it
		at, _ = slices.BinarySearchFunc(list, id, func(have T, id string) int { return cmp.Compare(idOf(have), id) })
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
	if at := slices.IndexFunc(list, func(have T) bool { return idOf(have) == id }); at >= 0 {
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
