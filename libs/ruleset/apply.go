package ruleset

import (
	"slices"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Empty returns a ruleset without rules, at revision 0: what changes are applied
// to at first. Its domain must be valid.
func Empty(domain string, options ...Option) *Ruleset {
	set, _ := build(&rulesv1.Ruleset{Domain: domain}, nil, nil, namingOf(options))
	set.revision = 0
	return set
}

// Source returns the whole that the ruleset was made of; it is the caller's.
func (s *Ruleset) Source() *rulesv1.Ruleset {
	set := proto.CloneOf(s.source)
	set.Revision = s.revision
	return set
}

// Apply returns the ruleset as changes make it, at a revision of the server's;
// faults are as of Compile.
func (s *Ruleset) Apply(changes []*rulesv1.Change, revision int64) (*Ruleset, Faults) {
	set := s.Source()
	set.Revision = revision
	for _, c := range changes {
		switch item := c.GetItem().(type) {
		case *rulesv1.Change_Plan:
			set.Plans = put(set.Plans, item.Plan, item.Plan.GetId())
		case *rulesv1.Change_Route:
			set.Routes = put(set.Routes, item.Route, item.Route.GetId())
		case *rulesv1.Change_Rule:
			set.Rules = put(set.Rules, item.Rule, item.Rule.GetId())
		case *rulesv1.Change_Override:
			set.Overrides = put(set.Overrides, item.Override, item.Override.GetId())
		case *rulesv1.Change_Deletion:
			drop(set, item.Deletion)
		}
	}
	return compile(set, s, nil, s.naming)
}

type named interface{ GetId() string }

func put[T named](list []T, item T, id string) []T {
	at := slices.IndexFunc(list, func(have T) bool { return have.GetId() == id })
	if at < 0 {
		return append(list, item)
	}
	list[at] = item
	return list
}

func drop(set *rulesv1.Ruleset, d *rulesv1.Deletion) {
	switch d.GetKind() {
	case rulesv1.Kind_KIND_PLAN:
		set.Plans = without(set.Plans, d.GetId())
	case rulesv1.Kind_KIND_ROUTE:
		set.Routes = without(set.Routes, d.GetId())
	case rulesv1.Kind_KIND_RULE:
		set.Rules = without(set.Rules, d.GetId())
	case rulesv1.Kind_KIND_OVERRIDE:
		set.Overrides = without(set.Overrides, d.GetId())
	}
}

func without[T named](list []T, id string) []T {
	return slices.DeleteFunc(list, func(have T) bool { return have.GetId() == id })
}
