package book

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Pages hold everything once, in order, whatever their size; a token is good for
// its own list only.
func TestPages(t *testing.T) {
	b, _ := seeded(t)
	edit(t, b, 1, 9)
	for _, size := range []int32{1, 3, 10, 1000} {
		var ids, versions []string
		rules := &rulesv1.ListRulesRequest{PageSize: size}
		for {
			page, err := b.ListRules(t.Context(), rules)
			if err != nil || len(page.GetRules()) > int(size) {
				t.Fatalf("%v, %v", page, err)
			}
			for _, r := range page.GetRules() {
				ids = append(ids, r.GetId())
			}
			if rules.PageToken = page.GetNextPageToken(); rules.PageToken == "" {
				break
			}
		}
		if want := []string{"free-global", "growth-global"}; !slices.Equal(ids, want) {
			t.Errorf("pages of %d hold %q, want %q", size, ids, want)
		}
		past := &rulesv1.ListRuleHistoryRequest{Id: "free-global", PageSize: size}
		for {
			page, err := b.ListRuleHistory(t.Context(), past)
			if err != nil || len(page.GetEntries()) > int(size) {
				t.Fatalf("%v, %v", page, err)
			}
			for _, e := range page.GetEntries() {
				versions = append(versions, fmt.Sprint(e.GetVersion()))
			}
			if past.PageToken = page.GetNextPageToken(); past.PageToken == "" {
				break
			}
		}
		if got := strings.Join(versions, " "); got != "10 9 8 7 6 5 4 3 2 1" {
			t.Errorf("pages of %d hold versions %s", size, got)
		}
	}
	for _, text := range []string{"x", "!", token(tokenByID, "free-global"), token(tokenByPosition, "1"), token(tokenByPosition, "-1.0")} {
		_, err := b.ListAudit(t.Context(), &rulesv1.ListAuditRequest{PageToken: text})
		refusedWith(t, err, CodeBadRequest)
	}
	for _, size := range []int32{-1, 1001} {
		_, err := b.ListOverrides(t.Context(), &rulesv1.ListOverridesRequest{PageSize: size})
		refusedWith(t, err, CodeBadRequest)
	}
	_, err := b.ListRules(t.Context(), &rulesv1.ListRulesRequest{Domain: "No Domain"})
	refusedWith(t, err, CodeBadRequest)
}

// Filters choose what they say.
func TestFilters(t *testing.T) {
	b, _ := seeded(t)
	if _, err := b.ShadowRule(t.Context(), "ann", &rulesv1.ShadowRuleRequest{Id: "free-global", Write: at(1)}); err != nil {
		t.Fatal(err)
	}
	for want, q := range map[string]*rulesv1.ListRulesRequest{
		"free-global":               {Mode: rulesv1.Mode_MODE_SHADOW},
		"growth-global":             {Mode: rulesv1.Mode_MODE_ENFORCE},
		"free-global growth-global": {Identity: rulesv1.Identity_IDENTITY_API_KEY},
		"":                          {Identity: rulesv1.Identity_IDENTITY_IP},
		"free-global ":              {Plan: "free"},
	} {
		page, err := b.ListRules(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, r := range page.GetRules() {
			ids = append(ids, r.GetId())
		}
		if got := strings.Join(ids, " "); got != strings.TrimSpace(want) {
			t.Errorf("%v: %q, want %q", q, got, want)
		}
	}
	audit, err := b.ListAudit(t.Context(), &rulesv1.ListAuditRequest{Author: "ann"})
	if err != nil || len(audit.GetEntries()) != 1 || audit.GetEntries()[0].GetBefore().GetRule().GetVersion() != 1 {
		t.Errorf("what ann did: %v, %v", audit, err)
	}
	routes, err := b.ListAudit(t.Context(), &rulesv1.ListAuditRequest{Kind: rulesv1.Kind_KIND_ROUTE})
	if err != nil || len(routes.GetEntries()) != 2 {
		t.Errorf("what became of routes: %v, %v", routes, err)
	}
}

// What is there is found, and what is not is said not to be there.
func TestReads(t *testing.T) {
	b, store := seeded(t)
	ctx := t.Context()
	plans, err := b.ListPlans(ctx, &rulesv1.ListPlansRequest{})
	if err != nil || len(plans.GetPlans()) != 2 || plans.GetRevision() != 1 {
		t.Errorf("plans: %v, %v", plans, err)
	}
	routes, err := b.ListRoutes(ctx, &rulesv1.ListRoutesRequest{PageSize: 1})
	if err != nil || len(routes.GetRoutes()) != 1 || routes.GetRoutes()[0].GetId() != "bulk" || routes.GetNextPageToken() == "" {
		t.Errorf("routes: %v, %v", routes, err)
	}
	route, err := b.GetRoute(ctx, &rulesv1.GetRouteRequest{Id: "bulk"})
	if err != nil || route.GetRoute().GetCost() != 10 || route.GetRoute().GetVersion() != 1 {
		t.Errorf("route: %v, %v", route, err)
	}
	overrides, err := b.ListOverrides(ctx, &rulesv1.ListOverridesRequest{Key: "acct_1"})
	if err != nil || len(overrides.GetOverrides()) != 1 {
		t.Fatalf("overrides: %v, %v", overrides, err)
	}
	override, err := b.GetOverride(ctx, &rulesv1.GetOverrideRequest{Id: overrides.GetOverrides()[0].GetId()})
	if err != nil || override.GetOverride().GetReason() != "from the start" || override.GetOverride().GetAuthor() != "file" {
		t.Errorf("override: %v, %v", override, err)
	}
	_, err = b.GetRule(ctx, &rulesv1.GetRuleRequest{Id: "x"})
	refusedWith(t, err, CodeNotFound)
	_, err = b.GetRoute(ctx, &rulesv1.GetRouteRequest{Id: "x"})
	refusedWith(t, err, CodeNotFound)
	_, err = b.GetOverride(ctx, &rulesv1.GetOverrideRequest{Id: "x"})
	refusedWith(t, err, CodeNotFound)
	_, err = b.ListRuleHistory(ctx, &rulesv1.ListRuleHistoryRequest{Id: "x"})
	refusedWith(t, err, CodeNotFound)

	pod := ledger.Report{
		Domain: DomainDefault, Pod: &rulesv1.Pod{Id: "p1", Canary: true}, Incarnation: "i", Revision: 1, At: time.Now(),
		Faults: []string{"rule free-global: refused"},
	}
	gone := pod
	gone.Pod, gone.At = &rulesv1.Pod{Id: "p2"}, time.Now().Add(-podsSeen-time.Minute)
	if err := store.Report(ctx, []ledger.Report{pod, gone}); err != nil {
		t.Fatal(err)
	}
	pods, err := b.ListPods(ctx, &rulesv1.ListPodsRequest{})
	if err != nil || len(pods.GetPods()) != 1 || pods.GetPods()[0].GetId() != "p1" || !slices.Equal(pods.GetPods()[0].GetFaults(), pod.Faults) {
		t.Errorf("pods: %v, %v", pods, err)
	}
}

// A rollout under way is told with what its candidate and the version in force have
// decided in this stage, and the book knows that there is one.
func TestRolloutIsShownWithItsCounts(t *testing.T) {
	b, store := seeded(t)
	beginRollout(t, b, bucket("free-global", "free", 50, 20), 1)
	for _, n := range []int64{5, 15} { // the first report of a stage is where counting begins
		report := ledger.Report{
			Domain: DomainDefault, Pod: &rulesv1.Pod{Id: "p1"}, Incarnation: "i", Revision: 2, At: time.Now(),
			Counts: []*rulesv1.RuleCounts{{Rule: "free-global", Version: 1, Evaluated: n, Refused: 1}, {Rule: "free-global", Version: 2, Evaluated: n, Refused: n}},
		}
		if err := store.Report(t.Context(), []ledger.Report{report}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.ListRollouts(t.Context(), &rulesv1.ListRolloutsRequest{Active: true})
	if err != nil || len(list.GetRollouts()) != 1 {
		t.Fatalf("rollouts: %v, %v", list, err)
	}
	for _, r := range []*rulesv1.Rollout{list.GetRollouts()[0], inForce(t, b, "free-global").GetRollout()} {
		if c, base := r.GetCandidate(), r.GetBase(); c.GetEvaluated() != 10 || c.GetRefused() != 10 || base.GetEvaluated() != 10 || base.GetRefused() != 0 {
			t.Errorf("counts: %v, %v", c, base)
		}
	}
	after := open(t, store)
	if b.RollingOut(DomainDefault) || !after.RollingOut(DomainDefault) || !after.RollingOutAny() || after.RollingOut("other") {
		t.Error("which domains have a rollout, as each book has last seen it, is told wrong")
	}
}
