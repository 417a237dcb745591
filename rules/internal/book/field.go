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

// fields says in a caller's words where a fault is. The paths of faults count the
// items of a ruleset ("rules[3].burst"), which a caller who has sent one rule has
// never seen: his own is "rule.burst", and another one "rules[free-global].burst".
type fields struct {
	own   map[ledger.Item]string // what the caller has sent, and what he calls it
	items map[string][]ledger.Item
}

// sections are the lists of a ruleset.
var sections = map[rulesv1.Kind]string{
	rulesv1.Kind_KIND_PLAN: "plans", rulesv1.Kind_KIND_ROUTE: "routes", rulesv1.Kind_KIND_RULE: "rules",
	rulesv1.Kind_KIND_OVERRIDE: "overrides", rulesv1.Kind_KIND_CANDIDATE: "candidates",
}

// fieldsOf is about rules with changes put to them, as Ruleset.Apply orders them.
func fieldsOf(rules *ruleset.Ruleset, changes []*rulesv1.Change, own map[ledger.Item]string) *fields {
	f := &fields{own: own, items: map[string][]ledger.Item{}}
	set := rules.Source()
	addAll(f, rulesv1.Kind_KIND_PLAN, set.GetPlans())
	addAll(f, rulesv1.Kind_KIND_ROUTE, set.GetRoutes())
	addAll(f, rulesv1.Kind_KIND_RULE, set.GetRules())
	addAll(f, rulesv1.Kind_KIND_OVERRIDE, set.GetOverrides())
	for _, c := range set.GetCandidates() {
		f.add(ledger.Item{Kind: rulesv1.Kind_KIND_CANDIDATE, ID: c.GetRule().GetId()})
	}
	for _, c := range changes {
		item := ledger.ItemOf(c)
		section := sections[item.Kind]
		if ledger.Deletes(c) {
			f.items[section] = slices.DeleteFunc(f.items[section], func(have ledger.Item) bool { return have == item })
		} else {
			f.add(item)
		}
	}
	return f
}

func addAll[T interface{ GetId() string }](f *fields, kind rulesv1.Kind, list []T) {
	for _, v := range list {
		f.add(ledger.Item{Kind: kind, ID: v.GetId()})
	}
}

// add notes an item at the end of its list, unless it is there.
func (f *fields) add(item ledger.Item) {
	section := sections[item.Kind]
	if !slices.Contains(f.items[section], item) {
		f.items[section] = append(f.items[section], item)
	}
}

// name returns what a caller calls the place of a fault.
func (f *fields) name(path string) string {
	section, rest, ok := strings.Cut(path, "[")
	if !ok {
		return path
	}
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(f.items[section]) {
		return path
	}
	item := f.items[section][i]
	if own, ok := f.own[item]; ok {
		return own + strings.TrimPrefix(rest, candidateRule(item))
	}
	return fmt.Sprintf("%s[%s]%s", section, item.ID, rest)
}

// candidateRule is the step from a candidate to its rule, which a caller who puts a
// rule does not know of.
func candidateRule(item ledger.Item) string {
	if item.Kind == rulesv1.Kind_KIND_CANDIDATE {
		return ".rule"
	}
	return ""
}
