package book

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// fields says in a caller's words where a fault is. The paths of faults count
// changes ("changes[0].rule.burst") and the items of a ruleset ("rules[3].burst"),
// and name its overrides by their ids.
// A caller who has sent one rule has seen neither list: that rule's burst is
// "rule.burst", and another one's rules["free-global"].burst.
type fields struct {
	own     map[ledger.Item]string // what the caller has sent, and what it is called there
	changes []*rulesv1.Change
	items   map[string][]string // ids by section, in the order of the paths
}

// sections are the lists of a ruleset by what they hold.
var sections = map[rulesv1.Kind]string{
	rulesv1.Kind_KIND_PLAN: "plans", rulesv1.Kind_KIND_ROUTE: "routes", rulesv1.Kind_KIND_RULE: "rules",
	rulesv1.Kind_KIND_OVERRIDE: "overrides", rulesv1.Kind_KIND_CANDIDATE: "candidates",
}

// fieldsOf is for the faults of changes that are applied to a ruleset, or without
// changes for those of the ruleset.
func fieldsOf(set *rulesv1.Ruleset, changes []*rulesv1.Change, own map[ledger.Item]string) *fields {
	f := &fields{own: own, changes: changes, items: map[string][]string{
		"plans": ids(set.GetPlans()), "routes": ids(set.GetRoutes()), "rules": ids(set.GetRules()), "overrides": ids(set.GetOverrides()),
	}}
	for _, c := range set.GetCandidates() {
		f.items["candidates"] = append(f.items["candidates"], c.GetRule().GetId())
	}
	for _, c := range changes {
		item := ledger.ItemOf(c)
		section := sections[item.Kind]
		list := slices.DeleteFunc(f.items[section], func(id string) bool { return id == item.ID })
		if !ledger.Deletes(c) {
			at, _ := slices.BinarySearch(list, item.ID)
			list = slices.Insert(list, at, item.ID)
		}
		f.items[section] = list
	}
	return f
}

func ids[T interface{ GetId() string }](list []T) []string {
	all := make([]string, len(list))
	for i, v := range list {
		all[i] = v.GetId()
	}
	return all
}

// named returns faults with the names of their places.
func (f *fields) named(faults ruleset.Faults) ruleset.Faults {
	named := slices.Clone(faults)
	for i := range named {
		named[i].Path = f.name(named[i].Path)
	}
	return named
}

// name returns what a caller calls the place of a fault.
func (f *fields) name(path string) string {
	section, rest, ok := strings.Cut(path, "[")
	number, rest, closed := strings.Cut(rest, "]")
	if id, err := strconv.Unquote(number); err == nil && section == sections[rulesv1.Kind_KIND_OVERRIDE] {
		if own, ok := f.own[ledger.Item{Kind: rulesv1.Kind_KIND_OVERRIDE, ID: id}]; ok {
			return own + rest
		}
		return path
	}
	i, err := strconv.Atoi(number)
	switch {
	case !ok || !closed || err != nil || i < 0:
	case section == "changes" && i < len(f.changes):
		item := ledger.ItemOf(f.changes[i])
		rest = strings.TrimPrefix(rest, "."+strings.TrimSuffix(sections[item.Kind], "s"))
		if item.Kind == rulesv1.Kind_KIND_CANDIDATE {
			rest = strings.TrimPrefix(rest, ".rule") // the caller has put a rule
		}
		if own, ok := f.own[item]; ok {
			return own + rest
		}
		return fmt.Sprintf("%s[%q]%s", sections[item.Kind], item.ID, rest)
	case i < len(f.items[section]):
		return fmt.Sprintf("%s[%q]%s", section, f.items[section][i], rest)
	}
	return path
}
