package ruleset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

func putOf(item proto.Message) *rulesv1.Change {
	switch v := item.(type) {
	case *rulesv1.Plan:
		return &rulesv1.Change{Item: &rulesv1.Change_Plan{Plan: v}}
	case *rulesv1.Route:
		return &rulesv1.Change{Item: &rulesv1.Change_Route{Route: v}}
	case *rulesv1.Rule:
		return &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: v}}
	case *rulesv1.Candidate:
		return &rulesv1.Change{Item: &rulesv1.Change_Candidate{Candidate: v}}
	case *rulesv1.Override:
		return &rulesv1.Change{Item: &rulesv1.Change_Override{Override: v}}
	}
	return nil
}

func deletionOf(kind rulesv1.Kind, id string) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Deletion{Deletion: &rulesv1.Deletion{Kind: kind, Id: id}}}
}

func bucketRule(id string, rate float64, burst int64) *rulesv1.Rule {
	return &rulesv1.Rule{
		Id: id, Version: 1, Scope: rulesv1.Scope_SCOPE_ALL, Identity: rulesv1.Identity_IDENTITY_API_KEY,
		Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: &rate, Burst: &burst,
	}
}

// drawChange draws a change that often fits what was drawn before, and sometimes
// does not.
func drawChange(t *rapid.T) *rulesv1.Change {
	id := func(letter string) string { return letter + rapid.StringMatching("[0-3]").Draw(t, "id") }
	kind := rapid.SampledFrom([]rulesv1.Kind{1, 2, 3, 3, 4, 4, 4, 5}).Draw(t, "kind")
	ids := map[rulesv1.Kind]string{1: "p", 2: "c", 3: "r", 4: "o", 5: "r"}
	if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
		return deletionOf(kind, id(ids[kind]))
	}
	switch kind {
	case rulesv1.Kind_KIND_PLAN:
		return putOf(&rulesv1.Plan{Id: id("p")})
	case rulesv1.Kind_KIND_ROUTE:
		name := id("c")
		return putOf(&rulesv1.Route{Id: name, Match: []string{"/" + rapid.SampledFrom([]string{name, "shared"}).Draw(t, "path")}, Cost: proto.Int64(rapid.Int64Range(0, 30).Draw(t, "cost"))})
	case rulesv1.Kind_KIND_OVERRIDE:
		o := &rulesv1.Override{Id: id("o"), Rule: id("r"), Key: id("acct"), Burst: proto.Int64(rapid.Int64Range(1, 60).Draw(t, "burst"))}
		if rapid.Bool().Draw(t, "later") {
			o.StartsAt, o.ExpiresAt = &timestamppb.Timestamp{Seconds: 100}, &timestamppb.Timestamp{Seconds: rapid.Int64Range(90, 200).Draw(t, "end")}
		}
		return putOf(o)
	}
	rule := bucketRule(id("r"), float64(rapid.IntRange(-1, 3).Draw(t, "rate")), rapid.Int64Range(5, 60).Draw(t, "burst"))
	if rapid.Bool().Draw(t, "planned") {
		rule.Scope, rule.Plan = 0, id("p")
	}
	if rapid.Bool().Draw(t, "routed") {
		rule.Scope, rule.Route = 0, id("c")
	}
	if kind == rulesv1.Kind_KIND_CANDIDATE {
		rule.Version = 2
		return putOf(&rulesv1.Candidate{Rule: rule, Stage: rapid.SampledFrom([]rulesv1.Stage{1, 2}).Draw(t, "stage")})
	}
	return putOf(rule)
}

// behaviour is what a ruleset does to every request that tests can make.
func behaviour(s *Ruleset) []string {
	lines := append(shown(s), fmt.Sprint("revision ", s.Revision()))
	for _, plan := range []string{"p0", "p1", "p2", "p3", ""} {
		for _, route := range append(slices.Clone(s.Routes()), nil) {
			for _, account := range []string{"acct0", "acct1", "acct2", "acct3"} {
				for _, at := range []int64{0, 100, 150} {
					subject, err := limit.NewSubject(s.Domain(), limit.Account, account)
					if err != nil {
						return []string{err.Error()}
					}
					var request limit.Request
					s.Match(time.Unix(at, 0), route, &Caller{Plan: plan, Account: subject}, &request)
					for _, c := range request.Charges {
						lines = append(lines, fmt.Sprint(plan, account, at, *c.Rule, c.Limit, c.Cost, c.Banned))
					}
				}
			}
		}
	}
	return lines
}

// fromFile is a ruleset as a rule file may have it: in no order, and overrides
// without ids.
func fromFile(t *rapid.T, canary Option) *Ruleset {
	set, faults := Compile(&rulesv1.Ruleset{
		Domain: "public-api", Plans: []*rulesv1.Plan{{Id: "p2"}, {Id: "p0"}, {Id: "p1"}},
		Rules:     []*rulesv1.Rule{bucketRule("r3", 1, 60), bucketRule("r1", 1, 60), bucketRule("r0", 1, 60)},
		Overrides: []*rulesv1.Override{{Rule: "r1", Key: "acct1", Deny: true}, {Rule: "r1", Key: "acct2", Burst: proto.Int64(30)}},
	}, nil, canary)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return set
}

// items are all things of a source by kind and id; overrides without one by their text.
func items(set *rulesv1.Ruleset) map[string]proto.Message {
	all := map[string]proto.Message{}
	for _, p := range set.GetPlans() {
		all["plans/"+p.GetId()] = p
	}
	for _, r := range set.GetRoutes() {
		all["routes/"+r.GetId()] = r
	}
	for _, r := range set.GetRules() {
		all["rules/"+r.GetId()] = r
	}
	for _, c := range set.GetCandidates() {
		all["candidates/"+ruleOf(c)] = c
	}
	for _, o := range set.GetOverrides() {
		all["overrides/"+o.GetId()+nameless(o)] = o
	}
	return all
}

func nameless(o *rulesv1.Override) string {
	if o.GetId() != "" {
		return ""
	}
	return o.GetRule() + " " + o.GetKey()
}

// checkItems checks that each thing is as it was or as the changes have it, with no
// fault as they have it, and that none is there twice.
func checkItems(t *rapid.T, before, after *rulesv1.Ruleset, changes []*rulesv1.Change, faults Faults) {
	was, is := items(before), items(after)
	if n := len(after.GetPlans()) + len(after.GetRoutes()) + len(after.GetRules()) + len(after.GetCandidates()) + len(after.GetOverrides()); n != len(is) {
		t.Fatalf("%d things of %d names: %v", n, len(is), after)
	}
	asked := map[string]proto.Message{}
	for _, c := range changes {
		section, id, ok := partOf(c)
		item := itemOfChange(c)
		if o := c.GetOverride(); !ok && o != nil {
			section, id, item = "overrides", o.GetId(), o
		} else if !ok {
			section, id = "overrides", c.GetDeletion().GetId()
		}
		asked[section+"/"+id] = item
	}
	same := func(a, b proto.Message) bool {
		return a == nil && b == nil || a != nil && b != nil && proto.Equal(a, b)
	}
	for name := range asked {
		if made := same(is[name], asked[name]); !made && (len(faults) == 0 || !same(is[name], was[name])) {
			t.Fatalf("%s is %v, it was %v and is asked to be %v; faults %v", name, is[name], was[name], asked[name], faults)
		}
	}
	for name := range was {
		if _, changed := asked[name]; !changed && !same(is[name], was[name]) {
			t.Fatalf("%s is %v, it was %v and no change is about it; faults %v", name, is[name], was[name], faults)
		}
	}
}

// Changes applied one after another make the ruleset that Compile makes of what
// they add up to; and whatever is wrong with some of them, what is in force has no
// fault, and everything is as it was or as it is asked to be.
func TestAppliedChangesAddUpToCompile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		canary := WithCanary(rapid.Bool().Draw(t, "canary"))
		set := Empty("public-api", canary)
		if rapid.Bool().Draw(t, "from a file") {
			set = fromFile(t, canary)
		}
		for revision := range int64(rapid.IntRange(1, 12).Draw(t, "revisions")) {
			var changes []*rulesv1.Change
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				changes = append(changes, drawChange(t))
			}
			before := behaviour(set)
			next, faults := set.Apply(changes, revision+1)
			checkItems(t, set.Source(), next.Source(), changes, faults)
			whole, wholeFaults := Compile(next.Source(), nil, canary)
			if len(wholeFaults) > 0 {
				t.Fatalf("after %v (%v) the source has faults: %v", changes, faults, wholeFaults)
			}
			if diff := cmp.Diff(behaviour(whole), behaviour(next)); diff != "" {
				t.Fatalf("after %v (-compiled +applied):\n%s", changes, diff)
			}
			if diff := cmp.Diff(before, behaviour(set)); diff != "" {
				t.Fatalf("the ruleset before has changed:\n%s", diff)
			}
			set = next
		}
	})
}

// A change with a fault is not made, the others are; its fault leads into it.
func TestFaultyChangeIsLeftOut(t *testing.T) {
	set := apply(t, Empty("public-api"), &rulesv1.Plan{Id: "free"}, bucketRule("a", 1, 10), bucketRule("b", 1, 10),
		&rulesv1.Override{Id: "o-1", Rule: "a", Key: "acct", Burst: proto.Int64(50)})
	planned := bucketRule("c", 1, 10)
	planned.Scope, planned.Plan = 0, "free"
	routed := bucketRule("c", 1, 10)
	routed.Scope, routed.Route = 0, "c"
	for name, c := range map[string]struct {
		changes []*rulesv1.Change
		faults  string   // in each of which this stands
		want    []string // of shown
	}{
		"a rule": {
			[]*rulesv1.Change{putOf(bucketRule("a", -1, 10)), putOf(bucketRule("b", 2, 10))}, "changes[0].rule.rate is -1",
			[]string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 2/s burst 10"},
		},
		"an override": {
			[]*rulesv1.Change{putOf(&rulesv1.Override{Id: "o-1", Rule: "a", Key: "acct", Burst: proto.Int64(0)}), putOf(bucketRule("b", 2, 10))},
			"changes[0].override.burst is 0", []string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 2/s burst 10"},
		},
		"an override that overlaps": {
			[]*rulesv1.Change{putOf(&rulesv1.Override{Id: "o-2", Rule: "a", Key: "acct", Deny: true})},
			"changes[0].override: overlaps in time with override o-1", []string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10"},
		},
		"an override that takes the place of another": {
			[]*rulesv1.Change{deletionOf(rulesv1.Kind_KIND_OVERRIDE, "o-1"), putOf(&rulesv1.Override{Id: "o-2", Rule: "a", Key: "acct", Deny: true})},
			"", []string{"a 1/s burst 10", "a for acct banned", "b 1/s burst 10"},
		},
		"an override of a rule that goes": {
			[]*rulesv1.Change{deletionOf(rulesv1.Kind_KIND_RULE, "a"), putOf(&rulesv1.Override{Id: "o-2", Rule: "b", Key: "acct", Deny: true})},
			`overrides["o-1"].rule is "a": want the id of one of the rules`, []string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10", "b for acct banned"},
		},
		"an override that goes with its rule": {
			[]*rulesv1.Change{deletionOf(rulesv1.Kind_KIND_RULE, "a"), deletionOf(rulesv1.Kind_KIND_OVERRIDE, "o-1")}, "", []string{"b 1/s burst 10"},
		},
		"a cost above an override's burst": {
			[]*rulesv1.Change{putOf(bucketRule("a", 1, 60)), putOf(&rulesv1.Route{Id: "c", Match: []string{"/c"}, Cost: proto.Int64(55)}), putOf(bucketRule("b", 1, 60))},
			`overrides["o-1"].burst is 50: want 55 or more`, []string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10"},
		},
		"overrides that change places, one of them badly": {
			[]*rulesv1.Change{putOf(&rulesv1.Override{Id: "o-2", Rule: "a", Key: "acct", Deny: true}), putOf(&rulesv1.Override{Id: "o-1", Rule: "a", Key: "other"})},
			"changes[1].override: changes nothing", []string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10"},
		},
		"a route that is none, and a rule of it": {
			[]*rulesv1.Change{putOf(&rulesv1.Route{Id: "c", Match: []string{"/{"}}), putOf(routed)},
			"changes[1].rule.route is \"c\": want the id", []string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10"},
		},
		"one override twice: the last counts": {
			[]*rulesv1.Change{putOf(&rulesv1.Override{Id: "o-2", Rule: "b", Key: "acct", Deny: true}), putOf(&rulesv1.Override{Id: "o-2", Rule: "b", Key: "other", Deny: true}), deletionOf(rulesv1.Kind_KIND_OVERRIDE, "o-1")},
			"", []string{"a 1/s burst 10", "b 1/s burst 10", "b for other banned"},
		},
		"a rule of a plan that comes with it": {
			[]*rulesv1.Change{putOf(&rulesv1.Plan{Id: "gold"}), putOf(planned)}, "",
			[]string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10", "c 1/s burst 10"},
		},
		"text that no file can hold": {
			[]*rulesv1.Change{putOf(&rulesv1.Override{Id: "o-2", Rule: "b", Key: "acct", Deny: true, Reason: "a\x00b"}), putOf(&rulesv1.Route{Id: "c", Match: []string{"/c"}, UserField: "\x7f"})},
			`changes[0].override.reason is "a\x00b": has a control character`, []string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10"},
		},
		"an override without an id": {
			[]*rulesv1.Change{putOf(&rulesv1.Override{Rule: "b", Key: "acct", Deny: true})}, "changes[0].override.id: is missing",
			[]string{"a 1/s burst 10", "a for acct 1/s burst 50", "b 1/s burst 10"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			next, faults := set.Apply(c.changes, 7)
			if (len(faults) > 0) != (c.faults != "") || !strings.Contains(faults.Error(), c.faults) || next.Revision() != 7 {
				t.Errorf("faults %v at revision %d, want %q", faults, next.Revision(), c.faults)
			}
			if diff := cmp.Diff(c.want, shown(next)); diff != "" {
				t.Errorf("in force (-want +got):\n%s", diff)
			}
		})
	}
	used := apply(t, set, planned)
	next, faults := used.Apply([]*rulesv1.Change{deletionOf(rulesv1.Kind_KIND_PLAN, "free")}, 9)
	if len(faults) != 1 || faults[0].Path != "rules[2].plan" || !slices.Equal(next.Plans(), []string{"free"}) || next.Revision() != 9 {
		t.Errorf("a plan in use was deleted: %v, %v at %d", next.Plans(), faults, next.Revision())
	}
}

func apply(t *testing.T, set *Ruleset, items ...proto.Message) *Ruleset {
	t.Helper()
	var changes []*rulesv1.Change
	for _, item := range items {
		changes = append(changes, putOf(item))
	}
	next, faults := set.Apply(changes, set.Revision()+1)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return next
}

// A candidate is counted beside its rule. A pod that is no canary enforces the
// rule, a canary the candidate once the rollout has come so far; the other of the
// two is in shadow. The rule keeps its counter throughout.
func TestCandidateIsComparedWithItsRule(t *testing.T) {
	base, edit := bucketRule("a", 10, 20), bucketRule("a", 1, 5)
	base.Version, edit.Version = 6, 7
	override := &rulesv1.Override{Id: "o-1", Rule: "a", Key: "acct", Burst: proto.Int64(50)}
	for _, c := range []struct {
		canary bool
		stage  rulesv1.Stage
		want   string
	}{
		{false, rulesv1.Stage_STAGE_SHADOW, "a enforce, a@7 shadow"}, {false, rulesv1.Stage_STAGE_CANARY, "a enforce, a@7 shadow"},
		{true, rulesv1.Stage_STAGE_SHADOW, "a enforce, a@7 shadow"}, {true, rulesv1.Stage_STAGE_CANARY, "a shadow, a@7 enforce"},
	} {
		set := apply(t, Empty("public-api", WithCanary(c.canary)), base, override, &rulesv1.Candidate{Rule: edit, Stage: c.stage})
		var got []string
		tags := map[uint32]bool{}
		for _, r := range set.Rules() {
			got = append(got, r.ID+" "+r.Mode.String())
			tags[r.Tag] = true
			if r.Name() != "a" {
				t.Errorf("%s is known as %s", r.ID, r.Name())
			}
		}
		if text := strings.Join(got, ", "); text != c.want || len(tags) != 2 || !tags[limit.TagOf("public-api", "a", limit.TokenBucket)] {
			t.Errorf("canary %v, %v: got %s with %d tags, want %s", c.canary, c.stage, text, len(tags), c.want)
		}
		subject, err := limit.NewSubject("public-api", limit.Account, "acct")
		if err != nil {
			t.Fatal(err)
		}
		var request limit.Request
		set.Match(time.Now(), nil, &Caller{Account: subject}, &request)
		if len(request.Charges) != 2 || request.Charges[0].Limit.String() != "10/s burst 50" || request.Charges[1].Limit.String() != "1/s burst 50" {
			t.Errorf("the override is not in force for both: %v", request.Charges)
		}
	}
	promoted, faults := apply(t, Empty("public-api"), base, &rulesv1.Candidate{Rule: edit, Stage: 1}).Apply(
		[]*rulesv1.Change{putOf(edit), deletionOf(rulesv1.Kind_KIND_CANDIDATE, "a")}, 9)
	if len(faults) > 0 || len(promoted.Rules()) != 1 || promoted.Rules()[0].Limit.Burst != 5 || promoted.Rules()[0].Tag != limit.TagOf("public-api", "a", limit.TokenBucket) {
		t.Errorf("promoted: %v, %v", promoted.Rules(), faults)
	}
}

// The source of a ruleset is what was applied, sorted, and is the caller's.
func TestSourceIsWhatWasApplied(t *testing.T) {
	b, a := bucketRule("b", 1, 10), bucketRule("a", 1, 10)
	set := apply(t, Empty("public-api"), b, &rulesv1.Override{Id: "o-2", Rule: "b", Key: "y", Deny: true}, &rulesv1.Override{Id: "o-1", Rule: "b", Key: "x", Deny: true}, a)
	want := &rulesv1.Ruleset{
		Domain: "public-api", Revision: 1, Rules: []*rulesv1.Rule{a, b},
		Overrides: []*rulesv1.Override{{Id: "o-1", Rule: "b", Key: "x", Deny: true}, {Id: "o-2", Rule: "b", Key: "y", Deny: true}},
	}
	source := set.Source()
	if diff := cmp.Diff(want, source, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	source.Rules[0].Burst = proto.Int64(99)
	if set.Source().GetRules()[0].GetBurst() != 10 {
		t.Error("a caller has changed the ruleset through its source")
	}
}
