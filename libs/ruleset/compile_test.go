package ruleset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// before is what is in force when the edits below arrive.
const before = `
plans: [{id: free}, {id: growth}]
routes:
  - {id: labels, match: /v1/labels}
  - {id: bulk, match: /v1/bulk, cost: 10}
rules:
  - {id: free-global, plan: free, identity: api_key, algorithm: token_bucket, rate: 10/s, burst: 20}
  - {id: growth-global, plan: growth, identity: api_key, algorithm: token_bucket, rate: 100/s, burst: 200}
  - {id: labels-route, route: labels, identity: api_key, algorithm: token_bucket, rate: 5/s, burst: 5}
overrides:
  - {rule: growth-global, key: acct_1, rate: 500/s}
  - {rule: growth-global, key: acct_2, deny: true}
`

// shown is the limits of a ruleset, as lines of text.
func shown(s *Ruleset) []string {
	var lines []string
	for _, r := range s.Rules() {
		lines = append(lines, r.ID+" "+r.Limit.String())
	}
	s.exceptions.all(func(subject limit.Subject, exceptions []exception) {
		for _, e := range exceptions {
			line := e.rule.ID + " for " + subject.ID() + " " + e.limit.String()
			if e.banned {
				line = e.rule.ID + " for " + subject.ID() + " banned"
			}
			lines = append(lines, line)
		}
	})
	slices.Sort(lines)
	return lines
}

// A bad rule or override keeps its last good version, and all else takes effect.
func TestFaultyItemKeepsItsLastGoodVersion(t *testing.T) {
	previous := mustLoad(t, before)
	for _, test := range []struct {
		name       string
		edit       []string // old, new, old, new …
		gone, come []string // of shown
		fault      string
	}{
		{"bad rate, another rule mended", []string{"rate: 10/s", "rate: 0/s", "rate: 100/s", "rate: 120/s"},
			[]string{"growth-global 100/s burst 200"}, []string{"growth-global 120/s burst 200"}, "rules[0].rate"},
		{"unknown field", []string{"burst: 20}", "burst: 30, brust: 40}", "rate: 5/s", "rate: 6/s"},
			[]string{"labels-route 5/s burst 5"}, []string{"labels-route 6/s burst 5"}, `has an unknown field, "brust"`},
		{"bad new rule is left out, with its override", []string{"overrides:", "  - {id: new, plan: gold, identity: ip, algorithm: token_bucket, rate: 1/s, burst: 2}\noverrides:\n  - {rule: new, key: 192.0.2.1, burst: 3}", "rate: 5/s", "rate: 6/s"},
			[]string{"labels-route 5/s burst 5"}, []string{"labels-route 6/s burst 5"}, "rules[3].plan"},
		{"bad override, a ban beside it", []string{"rate: 500/s", "rate: 500", "acct_2", "acct_3"},
			[]string{"growth-global for acct_2 banned"}, []string{"growth-global for acct_3 banned"}, "overrides[0].rate"},
		{"second override overlaps", []string{"acct_2, deny: true", "acct_1, deny: true", "rate: 5/s", "rate: 6/s"},
			[]string{"labels-route 5/s burst 5", "growth-global for acct_2 banned"}, []string{"labels-route 6/s burst 5"}, "overrides[1]: overlaps"},
		{"rule turns into a bad window, an override of it with it", []string{"token_bucket, rate: 100/s, burst: 200", "fixed_window, limit: 0, window: 1h", "rate: 500/s", "limit: 5", "rate: 5/s", "rate: 6/s"},
			[]string{"labels-route 5/s burst 5"}, []string{"labels-route 6/s burst 5"}, "rules[1].limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			next, faults := load([]byte(strings.NewReplacer(test.edit...).Replace(before)), previous)
			if len(faults) == 0 || !strings.Contains(faults.Error(), test.fault) {
				t.Fatalf("faults %v, want %q", faults, test.fault)
			}
			want := slices.DeleteFunc(shown(previous), func(line string) bool { return slices.Contains(test.gone, line) })
			want = append(want, test.come...)
			slices.Sort(want)
			if got := shown(next); !slices.Equal(got, want) {
				t.Errorf("in force:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if next.Revision() != previous.Revision()+1 {
				t.Errorf("revision %d, want %d", next.Revision(), previous.Revision()+1)
			}
		})
	}
}

// Where it cannot be told which last good version is meant, or it would not be
// valid beside the rest, nothing changes.
func TestStructuralFaultKeepsTheWholePrevious(t *testing.T) {
	previous := mustLoad(t, before)
	for _, test := range []struct {
		name string
		edit []string
	}{
		{"domain", []string{"plans:", "domain: other\nplans:"}},
		{"plan", []string{"{id: growth}", "{id: Growth}"}},
		{"route pattern", []string{"/v1/labels", "/v1/{"}},
		{"rule renamed badly", []string{"id: free-global", "id: free global"}},
		{"rule twice", []string{"id: free-global", "id: growth-global"}},
		{"override of an unknown rule", []string{"rule: growth-global, key: acct_2", "rule: growth, key: acct_2"}},
		{"override without key", []string{"key: acct_2, ", ""}},
		{"route of a rule gone", []string{"  - {id: labels, match: /v1/labels}\n", ""}},
		{"cost above a burst", []string{"cost: 10", "cost: 21"}},
		{"no rules", []string{before[strings.Index(before, "rules:"):], ""}},
		{"cut short", []string{before[len(before)-60:], ""}},
		{"only faulty rule changed", []string{"rate: 10/s", "rate: 0/s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.NewReplacer(append(test.edit, "rate: 5/s", "rate: 5/s")...).Replace(before)
			if text == before {
				t.Fatal("the edit changes nothing")
			}
			next, faults := load([]byte(text), previous)
			if len(faults) == 0 || next != previous {
				t.Errorf("another ruleset, faults %v; want faults and the previous", faults)
			}
		})
	}
}

// A rule that an edit leaves as it was is the same rule, pointer and all: what
// is known about its counters stays valid.
func TestUnchangedRuleIsTheSameRule(t *testing.T) {
	previous := mustLoad(t, before)
	next, faults := load([]byte(strings.Replace(before, "rate: 10/s", "rate: 11/s", 1)), previous)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	for i, rule := range next.Rules() {
		if same := rule == previous.Rules()[i]; same != (i != 0) {
			t.Errorf("%s: same is %v", rule.ID, same)
		}
	}
}

// Comments, spelling and key order are no change; a server's revision is one.
func TestRevisionCountsChanges(t *testing.T) {
	previous := mustLoad(t, before)
	if next, faults := load([]byte("# said in passing\n"+strings.ReplaceAll(before, "plan: free, identity: api_key", "identity: \"api_key\", plan: free")), previous); next != previous {
		t.Errorf("another ruleset, faults %v; want the previous", faults)
	}
	set := proto.CloneOf(previous.whole())
	set.Revision = 7
	next, faults := Compile(set, previous)
	if len(faults) > 0 || next == previous || next.Revision() != 7 {
		t.Errorf("faults %v, revision %d; want the server's, 7", faults, next.Revision())
	}
}

// Compile keeps nothing of the message: its owner may change it afterwards.
func TestSnapshotIsImmutable(t *testing.T) {
	set := proto.CloneOf(mustLoad(t, before).whole())
	snapshot, faults := Compile(set, nil)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	set.Rules[0].Rate = proto.Float64(1)
	set.Routes[0].Match[0] = "/elsewhere"
	if again, faults := Compile(snapshot.whole(), nil); len(faults) > 0 || snapshot.Rules()[0].Limit.Rate != 10 || again.Routes()[0].Match[0] != "/v1/labels" {
		t.Errorf("the snapshot changed with the message; faults %v", faults)
	}
}

// An edit, whatever is wrong with it, leaves a valid ruleset in force, in which
// each rule is as the edit has it or as it was, and none is missing that the
// edit still holds.
func TestAnyEditLeavesAValidRuleset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		previous, faults := Compile(drawRuleset(t, false), nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		edit := drawRuleset(t, true)
		next, faults := Compile(edit, previous)
		if again, still := Compile(next.whole(), nil); len(still) > 0 || !slices.Equal(shown(again), shown(next)) {
			t.Fatalf("in force is what Compile refuses: %v", still)
		}
		if len(faults) == 0 && len(next.Rules()) != len(edit.GetRules()) {
			t.Fatalf("%d rules of %d without a fault", len(next.Rules()), len(edit.GetRules()))
		}
		for _, rule := range next.Rules() {
			was, is := find(previous.whole(), rule.ID), find(edit, rule.ID)
			if now := find(next.whole(), rule.ID); !proto.Equal(now, was) && !proto.Equal(now, is) {
				t.Fatalf("rule %v is neither %v nor %v", now, was, is)
			}
		}
		for _, was := range previous.Rules() {
			if find(edit, was.ID) != nil && find(next.whole(), was.ID) == nil {
				t.Fatalf("rule %s is gone, though the edit holds it; faults %v", was.ID, faults)
			}
		}
	})
}

func find(set *rulesv1.Ruleset, id string) *rulesv1.Rule {
	for _, r := range set.GetRules() {
		if r.GetId() == id {
			return r
		}
	}
	return nil
}

// drawRuleset draws a small ruleset, with faults if it may have some.
func drawRuleset(t *rapid.T, faulty bool) *rulesv1.Ruleset {
	pick := func(label string, good []int64, bad ...int64) int64 {
		if faulty {
			good = append(slices.Clone(good), bad...)
		}
		return rapid.SampledFrom(good).Draw(t, label)
	}
	set := &rulesv1.Ruleset{Domain: "d", Plans: []*rulesv1.Plan{{Id: "free"}, {Id: "growth"}}}
	for i := range 2 {
		set.Routes = append(set.Routes, &rulesv1.Route{Id: fmt.Sprint("r", i), Match: []string{fmt.Sprint("/", i)}, Cost: proto.Int64(pick("cost", []int64{0, 1, 10}, -1, 50))})
	}
	ids := rapid.SliceOfNDistinct(rapid.IntRange(0, 4), 0, 4, rapid.ID).Draw(t, "ids")
	for _, id := range ids {
		rule := &rulesv1.Rule{
			Id: fmt.Sprint("rule-", id), Plan: []string{"free", "growth", "gold"}[pick("plan", []int64{0, 1}, 2)],
			Route: []string{"", "r0", "r1", "r2"}[pick("route", []int64{0, 1, 2}, 3)], Identity: rulesv1.Identity_IDENTITY_API_KEY,
			Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: proto.Float64(float64(pick("rate", []int64{1, 100}, 0))), Burst: proto.Int64(pick("burst", []int64{10, 20}, 0, 5)),
		}
		if pick("log", []int64{0, 1}) == 1 {
			rule.Algorithm, rule.Rate, rule.Limit, rule.Burst = rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW, nil, proto.Int64(pick("limit", []int64{1, 2}, 0)), nil
			rule.Window = &durationpb.Duration{Seconds: pick("window", []int64{1, 60}, 0)}
		}
		set.Rules = append(set.Rules, rule)
		for key := range pick("overrides", []int64{0, 1, 2}) {
			o := &rulesv1.Override{Rule: rule.Id, Key: fmt.Sprint("k", key), Deny: true}
			if rule.Burst != nil && pick("raise", []int64{0, 1}) == 1 {
				o.Deny, o.Burst = false, proto.Int64(pick("raised", []int64{10, 50}, 0, 5))
			}
			set.Overrides = append(set.Overrides, o)
		}
	}
	return set
}

// A rule meets exactly the requests that its plan, route and identity say, on
// any ruleset: Match agrees with looking at every rule in turn.
func TestMatchAgreesWithLookingAtEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, faults := Compile(drawRuleset(t, false), nil)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		account, err := limit.NewSubject("d", limit.Account, rapid.SampledFrom([]string{"k0", "k1", "k2"}).Draw(t, "account"))
		if err != nil {
			t.Fatal(err)
		}
		c := &Caller{Plan: rapid.SampledFrom([]string{"free", "growth", "gold", PlanAnonymous, ""}).Draw(t, "plan"), Account: account}
		route := rapid.SampledFrom(append([]*Route{nil, {ID: "gone", Cost: 3}}, set.Routes()...)).Draw(t, "route")
		at := Route{Cost: 1}
		if route != nil {
			at = *route
		}
		var want []limit.Charge
		for _, rule := range set.Rules() {
			if rule.Plan != "" && rule.Plan != c.Plan || rule.Route != "" && rule.Route != at.ID {
				continue
			}
			charge := limit.Charge{Subject: account, Rule: rule, Limit: rule.Limit, Cost: rule.Charge(at.Cost), Revision: set.Revision()}
			for _, o := range set.whole().GetOverrides() {
				if o.GetRule() == rule.ID && o.GetKey() == account.ID() {
					charge.Banned = o.GetDeny()
					if o.Burst != nil {
						charge.Limit.Burst = o.GetBurst()
					}
				}
			}
			want = append(want, charge)
		}
		req := limit.Request{Charges: make([]limit.Charge, 3)}
		set.Match(launch, route, c, &req)
		if !slices.Equal(req.Charges, want) {
			t.Fatalf("charges %v, want %v", req.Charges, want)
		}
	})
}
