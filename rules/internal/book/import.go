package book

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// importWhy is what the audit log says of each thing that came from a rule file.
const importWhy = "the first rules of the domain, from a rule file"

// Import fills a domain with the content of a rule file, in one write, at once. A
// domain that was ever written to stays as it is, also if it has nothing any more:
// done is then false, and no error. set's faults are a *Problem with paths as
// those of the file.
func (b *Book) Import(ctx context.Context, author string, set *rulesv1.Ruleset) (done bool, err error) {
	o, err := b.order(set.GetDomain(), author, nil, "ruleset")
	if err != nil {
		return false, err
	}
	set = proto.CloneOf(set)
	set.Domain, set.Revision = o.domain, 0
	_, err = b.write(ctx, o, func(ctx context.Context, d *draft) error {
		if done = d.revision == 0; !done {
			return nil
		}
		if _, faults := ruleset.Compile(set, nil); len(faults) > 0 {
			return invalid("the rule file has faults", faults, &fields{})
		}
		return d.take(ctx, set)
	})
	return done && err == nil, err
}

// take adds everything of a ruleset.
func (d *draft) take(ctx context.Context, set *rulesv1.Ruleset) error {
	for _, p := range set.GetPlans() {
		d.add(ledger.ActionImport, importWhy, 0, putPlan(p), nil)
	}
	var err error
	for _, r := range set.GetRoutes() {
		if r.Version, err = d.nextVersion(ctx, rulesv1.Kind_KIND_ROUTE, r.GetId()); err != nil {
			return err
		}
		d.add(ledger.ActionImport, importWhy, r.GetVersion(), putRoute(r), nil)
	}
	for _, r := range set.GetRules() {
		if r.Version, err = d.nextVersion(ctx, rulesv1.Kind_KIND_RULE, r.GetId()); err != nil {
			return err
		}
		d.add(ledger.ActionImport, importWhy, r.GetVersion(), putRule(r), nil)
	}
	drawn := map[string]bool{}
	for _, o := range set.GetOverrides() {
		for o.Id = d.newOverrideID(); drawn[o.GetId()]; o.Id = d.newOverrideID() {
		}
		drawn[o.GetId()] = true
		o.Author = cmp.Or(o.GetAuthor(), d.author)
		d.add(ledger.ActionImport, importWhy, 0, putOverride(o), nil)
	}
	return nil
}
