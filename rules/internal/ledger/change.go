package ledger

import rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"

// Item is what a change is about: KIND_UNSPECIFIED and "" of an empty one.
type Item struct {
	Kind rulesv1.Kind
	ID   string
}

// ItemOf returns what a change puts or deletes.
func ItemOf(c *rulesv1.Change) Item {
	switch of := c.GetItem().(type) {
	case *rulesv1.Change_Plan:
		return Item{rulesv1.Kind_KIND_PLAN, of.Plan.GetId()}
	case *rulesv1.Change_Route:
		return Item{rulesv1.Kind_KIND_ROUTE, of.Route.GetId()}
	case *rulesv1.Change_Rule:
		return Item{rulesv1.Kind_KIND_RULE, of.Rule.GetId()}
	case *rulesv1.Change_Override:
		return Item{rulesv1.Kind_KIND_OVERRIDE, of.Override.GetId()}
	case *rulesv1.Change_Candidate:
		return Item{rulesv1.Kind_KIND_CANDIDATE, of.Candidate.GetRule().GetId()}
	case *rulesv1.Change_Deletion:
		return Item{of.Deletion.GetKind(), of.Deletion.GetId()}
	}
	return Item{}
}

// Deletes reports whether a change deletes something.
func Deletes(c *rulesv1.Change) bool { return c.GetDeletion() != nil }

// versionOf returns the version that the item of a change says, and whether its
// kind has versions.
func versionOf(c *rulesv1.Change) (version int64, versioned bool) {
	switch of := c.GetItem().(type) {
	case *rulesv1.Change_Route:
		return of.Route.GetVersion(), true
	case *rulesv1.Change_Rule:
		return of.Rule.GetVersion(), true
	case *rulesv1.Change_Candidate:
		return of.Candidate.GetRule().GetVersion(), true
	}
	return 0, false
}
