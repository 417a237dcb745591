package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// paged reads all pages of a list and returns their ids.
func paged[T interface{ GetId() string }](b *bench, most int, wantRevision int64, page func(after string, most int) ([]T, int64, error)) (ids []string) {
	b.Helper()
	for after := ""; ; after = ids[len(ids)-1] {
		items, revision, err := page(after, most)
		if err != nil || len(items) > most || revision != wantRevision {
			b.Fatalf("a page of %d has %d items at revision %d (want %d): %v", most, len(items), revision, wantRevision, err)
		}
		if len(items) == 0 {
			return ids
		}
		for _, item := range items {
			ids = append(ids, item.GetId())
		}
	}
}

// Lists are sorted by the bytes of ids, come page by page, and hold what is asked for,
// of one domain, at that domain's revision.
func lists(b *bench) {
	shadow := func(r *rulesv1.Rule) { r.Mode = rulesv1.Mode_MODE_SHADOW }
	byIP := func(r *rulesv1.Rule) { r.Identity = rulesv1.Identity_IDENTITY_IP }
	b.put(plan("b"), plan("a"), route("z", 1), route("c-d", 1), route("c", 1), route("c.d", 1),
		rule("r-1", 1, ofPlan("a"), shadow), rule("r1", 1, ofPlan("a"), ofRouteC, byIP), rule("r.1", 1), rule("r_1", 1, ofRouteC))
	b.put(override("o2", "r1", "10.0.0.1"), override("o-2", "r1", "10.0.0.2"), override("o_2", "r.1", "10.0.0.1"))
	elsewhere := entry(plan("x"))
	elsewhere.Domain = "internal"
	b.write(elsewhere)
	const revision = 2
	for _, c := range []struct {
		name string
		q    ledger.RuleQuery
		want []string
	}{
		{"all", ledger.RuleQuery{}, []string{"r-1", "r.1", "r1", "r_1"}},
		{"plan", ledger.RuleQuery{Plan: "a"}, []string{"r-1", "r1"}},
		{"route", ledger.RuleQuery{Route: "c"}, []string{"r1", "r_1"}},
		{"identity", ledger.RuleQuery{Identity: rulesv1.Identity_IDENTITY_IP}, []string{"r1"}},
		{"shadow", ledger.RuleQuery{Mode: rulesv1.Mode_MODE_SHADOW}, []string{"r-1"}},
		{"enforce", ledger.RuleQuery{Mode: rulesv1.Mode_MODE_ENFORCE}, []string{"r.1", "r1", "r_1"}},
		{"several", ledger.RuleQuery{Plan: "a", Route: "c", Identity: rulesv1.Identity_IDENTITY_API_KEY}, nil},
	} {
		for _, most := range []int{1, 3, 100} {
			got := paged(b, most, revision, func(after string, most int) ([]*rulesv1.Rule, int64, error) {
				return b.Rules(b.ctx(), domain, c.q, after, most)
			})
			b.same("rules: "+c.name, got, c.want)
		}
	}
	for _, most := range []int{1, 3, 100} {
		b.same("routes", paged(b, most, revision, func(after string, most int) ([]*rulesv1.Route, int64, error) {
			return b.Routes(b.ctx(), domain, after, most)
		}), []string{"c", "c-d", "c.d", "z"})
		for q, want := range map[ledger.OverrideQuery][]string{
			{}: {"o-2", "o2", "o_2"}, {Rule: "r1"}: {"o-2", "o2"}, {Key: "10.0.0.1"}: {"o2", "o_2"}, {Rule: "r1", Key: "10.0.0.1"}: {"o2"}, {Key: "10.0.0"}: nil,
		} {
			b.same(fmt.Sprintf("overrides %v", q), paged(b, most, revision, func(after string, most int) ([]*rulesv1.Override, int64, error) {
				return b.Overrides(b.ctx(), domain, q, after, most)
			}), want)
		}
	}
	plans, at, err := b.Plans(b.ctx(), domain)
	b.same("plans", must(plans, err)(b), []*rulesv1.Plan{{Id: "a"}, {Id: "b"}})
	none, from, err := b.Plans(b.ctx(), "nowhere")
	if at != revision || err != nil || len(none) != 0 || from != 0 {
		b.Errorf("plans at revision %d; elsewhere %v at %d, %v", at, none, from, err)
	}
}

// A snapshot is what the changes since the beginning make, item by item, each domain
// at the revision that changed it last.
func snapshot(b *bench) {
	b.same("an empty one", must(b.Snapshot(b.ctx()))(b), &ledger.State{Domains: map[string]*rulesv1.Ruleset{}})
	b.write(full()...)
	elsewhere := entry(plan("x"))
	elsewhere.Domain = "internal"
	b.write(elsewhere)
	b.write(gone(kindOverride, "o-deny", 0))
	over := gone(kindPlan, "x", 0)
	over.Domain = "internal"
	b.write(over)
	want := &ledger.State{Revision: 4, Domains: map[string]*rulesv1.Ruleset{
		domain: {Domain: domain, Revision: 3}, "internal": {Domain: "internal", Revision: 4},
	}}
	set := want.Domains[domain]
	for _, e := range full() {
		switch of := e.Change.GetItem().(type) {
		case *rulesv1.Change_Plan:
			set.Plans = append(set.Plans, of.Plan)
		case *rulesv1.Change_Route:
			set.Routes = append(set.Routes, of.Route)
		case *rulesv1.Change_Rule:
			set.Rules = append(set.Rules, of.Rule)
		case *rulesv1.Change_Override:
			if of.Override.GetId() != "o-deny" {
				set.Overrides = append(set.Overrides, of.Override)
			}
		case *rulesv1.Change_Candidate:
			set.Candidates = append(set.Candidates, of.Candidate)
		}
	}
	slices.SortFunc(set.Rules, func(x, y *rulesv1.Rule) int { return strings.Compare(x.GetId(), y.GetId()) })
	b.same("the snapshot", must(b.Snapshot(b.ctx()))(b), want)
}

// Each item is found as it was put, until it is gone.
func items(b *bench) {
	b.write(full()...)
	for _, e := range full() {
		item := ledger.ItemOf(e.Change)
		b.same(item.ID, must(b.Item(b.ctx(), domain, item.Kind, item.ID))(b), e.Change)
	}
	b.write(gone(kindOverride, "o-deny", 0), gone(kindRule, "r-most", 2))
	for _, c := range []struct {
		domain string
		item   ledger.Item
	}{
		{domain, ledger.Item{Kind: kindOverride, ID: "o-deny"}}, {domain, ledger.Item{Kind: kindRule, ID: "r-most"}},
		{domain, ledger.Item{Kind: kindCandidate, ID: "r"}}, {domain, ledger.Item{Kind: kindRule, ID: "r-new"}},
		{"internal", ledger.Item{Kind: kindPlan, ID: "p"}}, {domain, ledger.Item{Kind: 99, ID: "p"}},
	} {
		if got, err := b.Item(b.ctx(), c.domain, c.item.Kind, c.item.ID); !errors.Is(err, ledger.ErrNotFound) || got != nil {
			b.Errorf("%v of %s: %v, %v, want %v", c.item, c.domain, got, err, ledger.ErrNotFound)
		}
	}
	for _, version := range []int64{3, 4} { // put again after it was gone, and edited
		edited := rule("r-most", version, func(r *rulesv1.Rule) { r.Burst = proto.Int64(version) })
		b.put(edited)
		b.same("an edit", must(b.Item(b.ctx(), domain, kindRule, "r-most"))(b), edited)
	}
}

// A text that is asked for is compared, never executed, and need not be one that could
// be kept.
func texts(b *bench) {
	b.write(full()...)
	for _, text := range []string{"'", `' OR '1'='1`, `"; DROP TABLE rules; --`, "%", "_", "a\x00b", "\x00", "\xff", "$1", `\`, strings.Repeat("x", 1024)} {
		if got, err := b.Item(b.ctx(), text, kindRule, text); !errors.Is(err, ledger.ErrNotFound) {
			b.Errorf("Item %q: %v, %v", text, got, err)
		}
		if got, _, err := b.Overrides(b.ctx(), domain, ledger.OverrideQuery{Rule: text, Key: text}, "", 10); err != nil || len(got) != 0 {
			b.Errorf("Overrides %q: %v, %v", text, got, err)
		}
		if got, _, err := b.Rules(b.ctx(), domain, ledger.RuleQuery{Plan: text, Route: text}, text, 10); err != nil || len(got) != 0 {
			b.Errorf("Rules %q: %v, %v", text, got, err)
		}
		if got, err := b.History(b.ctx(), ledger.HistoryQuery{Domain: text, ID: text, Author: text}, ledger.Position{}, 10); err != nil || len(got) != 0 {
			b.Errorf("History %q: %v, %v", text, got, err)
		}
		if got, err := b.Rollouts(b.ctx(), ledger.RolloutQuery{Domain: text, Rule: text}, ledger.Position{}, 10); err != nil || len(got) != 0 {
			b.Errorf("Rollouts %q: %v, %v", text, got, err)
		}
		if _, err := b.Counts(b.ctx(), text, text); !errors.Is(err, ledger.ErrNotFound) {
			b.Errorf("Counts %q: %v", text, err)
		}
	}
	if got := must(b.Snapshot(b.ctx()))(b).Domains[domain]; len(got.GetRules()) != 5 {
		b.Errorf("%d rules are left, want 5", len(got.GetRules()))
	}
}
