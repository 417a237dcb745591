package book

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/memstore"
)

// Whatever is wrong with a rule is refused before it can hurt: the violation names
// field, value and what is allowed, and nothing is written.
func TestBadRulesAreRefused(t *testing.T) {
	b, store := seeded(t)
	window := func(limit, seconds int64) *rulesv1.Rule {
		return &rulesv1.Rule{
			Id: "new", Plan: "free", Identity: rulesv1.Identity_IDENTITY_API_KEY, Algorithm: rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW,
			Limit: proto.Int64(limit), Window: &durationpb.Duration{Seconds: seconds},
		}
	}
	with := func(r *rulesv1.Rule, edit func(r *rulesv1.Rule)) *rulesv1.Rule { edit(r); return r }
	for _, test := range []struct {
		name               string
		rule               *rulesv1.Rule
		field, value, says string
	}{
		{"rate 0", bucket("new", "free", 0, 20), "rule.rate", "0", "want 1 a year to 10000000/s"},
		{"rate below 0", bucket("new", "free", -1, 20), "rule.rate", "-1", "want 1 a year to 10000000/s"},
		{"burst below the largest cost", bucket("new", "free", 10, 9), "rule.burst", "9", `want 10 or more, which one request of route "bulk" costs`},
		{"burst 0", bucket("new", "free", 10, 0), "rule.burst", "0", "want 1 to 1000000000"},
		{"everybody, unsaid", bucket("new", "", 10, 20), "rule.scope", "", "say scope: all"},
		{"unknown plan", bucket("new", "gold", 10, 20), "rule.plan", `"gold"`, "want the id of one of the plans"},
		{"unknown route", with(bucket("new", "free", 10, 20), func(r *rulesv1.Rule) { r.Route = "x" }), "rule.route", `"x"`, "want the id of one of the routes"},
		{"no identity", with(bucket("new", "free", 10, 20), func(r *rulesv1.Rule) { r.Identity = 0 }), "rule.identity", "", "is missing"},
		{"unknown algorithm", with(bucket("new", "free", 10, 20), func(r *rulesv1.Rule) { r.Algorithm = 99 }), "rule.algorithm", "99", "want token_bucket"},
		{"bad id", bucket("NEW;--", "free", 10, 20), "rule.id", `"NEW;--"`, "want 1 to 64 of a-z"},
		{"id of 1 KB", bucket(strings.Repeat("n", 1024), "free", 10, 20), "rule.id", `"` + strings.Repeat("n", 60) + `"…`, "want 1 to 64"},
		{"no id", bucket("", "free", 10, 20), "rule.id", `""`, "want 1 to 64"},
		{"limit of a bucket", with(bucket("new", "free", 10, 20), func(r *rulesv1.Rule) { r.Limit = proto.Int64(5) }), "rule.limit", "", "does not belong"},
		{"window of 0", window(10, 0), "rule.window", "0s", "want 1s to 744h0m0s"},
		{"count of 0", window(0, 60), "rule.limit", "0", "want 1 to 1000000000000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, mode := range []rulesv1.RolloutMode{immediate, guarded} {
				for _, dry := range []bool{true, false} {
					w := at(0)
					w.ValidateOnly = dry
					_, err := b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: test.rule, Write: w, Rollout: mode})
					mustSay(t, refusedWith(t, err, CodeInvalidRule), test.field, test.value, test.says)
				}
			}
		})
	}
	unchanged(t, store, 1)
}

// All faults of a rule are named at once.
func TestEveryFaultIsNamed(t *testing.T) {
	b, _ := seeded(t)
	rule := &rulesv1.Rule{Id: "new", Plan: "gold", Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: proto.Float64(-1), Burst: proto.Int64(0)}
	_, err := b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: rule, Write: at(0)})
	p := refusedWith(t, err, CodeInvalidRule)
	var fields []string
	for _, v := range p.Violations {
		fields = append(fields, v.GetField())
	}
	slices.Sort(fields)
	if want := []string{"rule.burst", "rule.identity", "rule.plan", "rule.rate"}; !slices.Equal(fields, want) {
		t.Errorf("faults of %v, want %v", fields, want)
	}
}

// A write that breaks something else is refused, and what it would break is named.
func TestWritesThatBreakOthersAreRefused(t *testing.T) {
	b, store := seeded(t)
	ctx := t.Context()

	bulk := &rulesv1.Route{Id: "bulk", Match: []string{"POST /v1/bulk"}, Cost: proto.Int64(60)}
	_, err := b.PutRoute(ctx, "ann", &rulesv1.PutRouteRequest{Route: bulk, Write: at(1)})
	mustSay(t, refusedWith(t, err, CodeInvalidRule), `rules["free-global"].burst`, "20", `want 60 or more, which one request of route "bulk" costs`)

	_, err = b.DeleteRule(ctx, "ann", &rulesv1.DeleteRuleRequest{Id: "growth-global", Write: at(1)})
	if p := refusedWith(t, err, CodeInvalidRule); !strings.Contains(p.Error(), "growth-global") {
		t.Errorf("a rule with an override is deleted: %v", p)
	}
	_, err = b.DeletePlan(ctx, "ann", &rulesv1.DeletePlanRequest{Id: "free"})
	if p := refusedWith(t, err, CodeInvalidRule); !strings.Contains(p.Error(), "free-global") {
		t.Errorf("a plan with a rule is deleted: %v", p)
	}
	unchanged(t, store, 1)

	labels := bucket("labels-route", "", 5, 5)
	labels.Route = "labels"
	put(t, b, labels, 0)
	_, err = b.DeleteRoute(ctx, "ann", &rulesv1.DeleteRouteRequest{Id: "labels", Write: at(1)})
	if p := refusedWith(t, err, CodeInvalidRule); !strings.Contains(p.Error(), "labels-route") {
		t.Errorf("a route with a rule is deleted: %v", p)
	}
	_, err = b.PutRoute(ctx, "ann", &rulesv1.PutRouteRequest{Route: &rulesv1.Route{Id: "other", Match: []string{"GET /v1/labels"}}, Write: at(0)})
	mustSay(t, refusedWith(t, err, CodeInvalidRule), "route.match[0]", `"GET /v1/labels"`, "conflicts")
	unchanged(t, store, 2)

	put(t, b, bucket("free-global", "free", 10, 60), 1)
	overrides, err := b.ListOverrides(ctx, &rulesv1.ListOverridesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	labels.Burst = proto.Int64(60)
	put(t, b, labels, 1)
	_, err = b.PutRoute(ctx, "ann", &rulesv1.PutRouteRequest{Route: bulk, Write: at(1)})
	field := `overrides["` + overrides.GetOverrides()[0].GetId() + `"].burst`
	mustSay(t, refusedWith(t, err, CodeInvalidRule), field, "50", "want 60 or more")
	unchanged(t, store, 4)
}

// A write has to say which version it was made for, and another version is a
// conflict that names the current one.
func TestExpectedVersion(t *testing.T) {
	b, store := seeded(t)
	ctx := t.Context()
	rule := bucket("free-global", "free", 11, 20)
	route := &rulesv1.Route{Id: "labels", Match: []string{"GET /v1/labels"}}
	calls := map[string]func(id string, w *rulesv1.Write) error{
		"put": func(id string, w *rulesv1.Write) error {
			rule := proto.CloneOf(rule)
			rule.Id = id
			_, err := b.PutRule(ctx, "ann", &rulesv1.PutRuleRequest{Rule: rule, Write: w})
			return err
		},
		"delete": func(id string, w *rulesv1.Write) error {
			_, err := b.DeleteRule(ctx, "ann", &rulesv1.DeleteRuleRequest{Id: id, Write: w})
			return err
		},
		"shadow": func(id string, w *rulesv1.Write) error {
			_, err := b.ShadowRule(ctx, "ann", &rulesv1.ShadowRuleRequest{Id: id, Write: w})
			return err
		},
		"enforce": func(id string, w *rulesv1.Write) error {
			_, err := b.EnforceRule(ctx, "ann", &rulesv1.EnforceRuleRequest{Id: id, Write: w})
			return err
		},
		"rollback": func(id string, w *rulesv1.Write) error {
			_, err := b.RollbackRule(ctx, "ann", &rulesv1.RollbackRuleRequest{Id: id, Write: w})
			return err
		},
		"put route": func(id string, w *rulesv1.Write) error {
			route := proto.CloneOf(route)
			if id == "nobody" {
				route.Id = id
			}
			_, err := b.PutRoute(ctx, "ann", &rulesv1.PutRouteRequest{Route: route, Write: w})
			return err
		},
		"delete route": func(id string, w *rulesv1.Write) error {
			if id != "nobody" {
				id = "labels"
			}
			_, err := b.DeleteRoute(ctx, "ann", &rulesv1.DeleteRouteRequest{Id: id, Write: w})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			for _, w := range []*rulesv1.Write{nil, {}} {
				refusedWith(t, call("free-global", w), CodePreconditionRequired)
			}
			for _, version := range []int64{0, 2, -1} {
				if p := refusedWith(t, call("free-global", at(version)), CodeVersionConflict); p.Current != 1 {
					t.Errorf("current version is %d, want 1", p.Current)
				}
			}
			want := CodeNotFound
			if strings.HasPrefix(name, "put") || name == "rollback" {
				want = CodeVersionConflict
			}
			if p := refusedWith(t, call("nobody", at(3)), want); p.Current != 0 {
				t.Errorf("current version is %d, want none", p.Current)
			}
		})
	}
	_, err := b.AdvanceRollout(ctx, "ann", &rulesv1.AdvanceRolloutRequest{Rule: "free-global"})
	refusedWith(t, err, CodePreconditionRequired)
	unchanged(t, store, 1)
}

// Of 64 writers that have read one version exactly one wins it, whichever instance
// they reach; every other learns which version there is now.
func TestOneWriterWinsEachVersion(t *testing.T) {
	_, store := seeded(t)
	oneWriterWins(t, []*Book{open(t, store), open(t, store), open(t, store)}, 10) // none of them follows: a write catches up by itself
}

// oneWriterWins is about the books of a store that has seed in it, and nothing else.
func oneWriterWins(t *testing.T, books []*Book, rounds int64) {
	t.Helper()
	for version := int64(1); version <= rounds; version++ {
		var mu sync.Mutex
		var won []float64
		var writers sync.WaitGroup
		for i := range 64 {
			writers.Go(func() {
				rate := float64(100*version) + float64(i)
				response, err := books[i%len(books)].PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{
					Rule: bucket("free-global", "free", rate, 20), Write: at(version), Rollout: immediate,
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					if response.GetRule().GetVersion() != version+1 || response.GetRevision() != version+1 {
						t.Errorf("the winner of version %d got %v", version, response)
					}
					won = append(won, rate)
				} else if p := refusedWith(t, err, CodeVersionConflict); p.Current != version+1 {
					t.Errorf("a loser is told version %d, want %d", p.Current, version+1)
				}
			})
		}
		writers.Wait()
		got, err := books[0].GetRule(t.Context(), &rulesv1.GetRuleRequest{Id: "free-global"})
		if err != nil || len(won) != 1 || got.GetRule().GetRate() != won[0] {
			t.Fatalf("version %d was won by %v, in force is %v (%v)", version+1, won, got.GetRule(), err)
		}
	}
}

// A dry run answers as the write would, and writes nothing.
func TestValidateOnlyWritesNothing(t *testing.T) {
	b, store := seeded(t)
	dry := at(1)
	dry.ValidateOnly = true
	response, err := b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: bucket("free-global", "free", 50, 20), Write: dry})
	if err != nil || response.GetRule().GetVersion() != 2 || response.GetRollout().GetState() != rulesv1.RolloutState_ROLLOUT_STATE_SHADOW || response.GetRevision() != 2 {
		t.Errorf("dry run: %v, %v", response, err)
	}
	dry = proto.CloneOf(dry)
	dry.ExpectedVersion = proto.Int64(7)
	_, err = b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: bucket("free-global", "free", 50, 20), Write: dry})
	refusedWith(t, err, CodeVersionConflict)
	override := &rulesv1.Override{Rule: "free-global", Key: "acct_2", Rate: proto.Float64(5), Reason: "r"}
	created, err := b.CreateOverride(t.Context(), "ann", &rulesv1.CreateOverrideRequest{Override: override, Write: &rulesv1.Write{ValidateOnly: true}})
	if err != nil || created.GetRevision() != 2 {
		t.Errorf("dry run of an override: %v, %v", created, err)
	}
	unchanged(t, store, 1)
}

// An id that was deleted and is used again goes on with the next version: no
// version ever stands for two contents.
func TestVersionsGoOnAfterADeletion(t *testing.T) {
	b, _ := seeded(t)
	_, err := b.DeleteRule(t.Context(), "ann", &rulesv1.DeleteRuleRequest{Id: "free-global", Write: at(1)})
	if err != nil {
		t.Fatal(err)
	}
	if again := put(t, b, bucket("free-global", "free", 1, 20), 0); again.GetRule().GetVersion() != 3 {
		t.Errorf("put again: version %d, want 3 after 1 and its deletion", again.GetRule().GetVersion())
	}
	want := []string{"3 put by ann", "2 delete by ann", "1 import by file"}
	if got := history(t, b, "free-global"); !slices.Equal(got, want) {
		t.Errorf("history %q, want %q", got, want)
	}
}

// An override is the server's to name and to sign, needs a reason, and may not
// contradict another one.
func TestOverrides(t *testing.T) {
	b, store := seeded(t)
	ctx := t.Context()
	create := func(o *rulesv1.Override) (*rulesv1.CreateOverrideResponse, error) {
		return b.CreateOverride(ctx, "ann", &rulesv1.CreateOverrideRequest{Override: o})
	}
	got, err := create(&rulesv1.Override{Id: "mine", Author: "bob", Rule: "free-global", Key: "acct_2", Rate: proto.Float64(50), Reason: "launch week"})
	if err != nil {
		t.Fatal(err)
	}
	o := got.GetOverride()
	if len(o.GetId()) != 12 || !strings.HasPrefix(o.GetId(), "o-") || o.GetAuthor() != "ann" {
		t.Errorf("created %v", o)
	}
	for _, test := range []struct {
		name               string
		o                  *rulesv1.Override
		field, value, says string
	}{
		{"no reason", &rulesv1.Override{Rule: "free-global", Key: "acct_3", Rate: proto.Float64(50)}, "override.reason", "", "is missing"},
		{"no such rule", &rulesv1.Override{Rule: "x", Key: "acct_3", Rate: proto.Float64(50), Reason: "r"}, "override.rule", `"x"`, "want the id of one of the rules"},
		{"burst below the largest cost", &rulesv1.Override{Rule: "free-global", Key: "acct_3", Burst: proto.Int64(9), Reason: "r"}, "override.burst", "9", "want 10 or more"},
		{"changes nothing", &rulesv1.Override{Rule: "free-global", Key: "acct_3", Reason: "r"}, "override", "", "changes nothing"},
		{"overlaps", &rulesv1.Override{Rule: "free-global", Key: "acct_2", Deny: true, Reason: "r"}, "override", "", "overlaps in time"},
		{"is over", &rulesv1.Override{Rule: "free-global", Key: "acct_3", Deny: true, Reason: "r", ExpiresAt: &timestamppb.Timestamp{Seconds: 1}}, "override.expires_at", `"1970-01-01T00:00:01Z"`, "is over already"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := create(test.o)
			mustSay(t, refusedWith(t, err, CodeInvalidRule), test.field, test.value, test.says)
		})
	}
	unchanged(t, store, 2)
	if _, err := b.DeleteOverride(ctx, "ann", &rulesv1.DeleteOverrideRequest{Id: o.GetId()}); err != nil {
		t.Error(err)
	}
	_, err = b.DeleteOverride(ctx, "ann", &rulesv1.DeleteOverrideRequest{Id: o.GetId()})
	refusedWith(t, err, CodeNotFound)
	if _, err := create(&rulesv1.Override{Rule: "free-global", Key: "acct_2", Deny: true, Reason: "r"}); err != nil {
		t.Errorf("after the deletion of what it overlapped: %v", err)
	}
}

// A rule file fills a domain that was never written to, whole or not at all.
func TestImport(t *testing.T) {
	store := memstore.New()
	b := open(t, store)
	bad := seed()
	bad.Rules[1].Burst = proto.Int64(1)
	_, err := b.Import(t.Context(), "file", bad)
	mustSay(t, refusedWith(t, err, CodeInvalidRule), "rules[1].burst", "1", "want 10 or more")
	unchanged(t, store, 0)
	for _, want := range []bool{true, false} {
		if done, err := b.Import(t.Context(), "file", seed()); done != want || err != nil {
			t.Errorf("imported: %v, %v; want %v", done, err, want)
		}
		unchanged(t, store, 1)
	}
	if got := history(t, b, "free-global"); !slices.Equal(got, []string{"1 import by file"}) {
		t.Errorf("history %q", got)
	}
}
