package rollout

import (
	"strings"
	"testing"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// counts of a candidate and its base: refused and evaluated of each.
func counts(candidateRefused, candidate, baseRefused, base int64) (c ledger.Counts) {
	c.Candidate.Refused, c.Candidate.Evaluated = candidateRefused, candidate
	c.Base.Refused, c.Base.Evaluated = baseRefused, base
	return c
}

// Each rule of Decide, at its edges: what is done, and what the audit log will say.
func TestDecide(t *testing.T) {
	const shadow, canary = rulesv1.Stage_STAGE_SHADOW, rulesv1.Stage_STAGE_CANARY
	for _, test := range []struct {
		name string
		o    Observed
		do   Do
		why  string
	}{
		{"young, no traffic", Observed{Stage: shadow, For: 59 * time.Second, Canaries: 1}, Wait, ""},
		{"young, all is well", Observed{Stage: shadow, For: 59 * time.Second, Canaries: 1, Counts: counts(0, 5000, 0, 5000)}, Wait, ""},
		{"young, denies everything", Observed{Stage: shadow, Canaries: 1, Counts: counts(100, 100, 0, 100)}, RollBack,
			"refused 100 of 100 requests that the version in force has admitted: rolled back"},
		{"young, denies everything, on too little evidence", Observed{Stage: shadow, Canaries: 1, Counts: counts(99, 99, 0, 99)}, Wait, ""},
		{"young, on canary pods, denies everything", Observed{Stage: canary, Canaries: 1, Counts: counts(100, 100, 0, 100)}, RollBack,
			"refused 100 of 100 requests, the version in force 0 of 100 on other pods: rolled back"},
		{"nothing of the version in force to compare with", Observed{Stage: canary, For: time.Minute, Canaries: 1, Counts: counts(500, 1000, 50, 99)}, Wait, ""},
		{"at the margin in shadow", Observed{Stage: shadow, For: time.Minute, Canaries: 1, Counts: counts(5, 100, 10, 110)}, Canary,
			"after 1m0s of shadow: refused 5 of 100 requests that the version in force has admitted: on to canary pods"},
		{"over the margin in shadow, though the version in force refuses more", Observed{Stage: shadow, Canaries: 1, Counts: counts(6, 100, 900, 1000)}, RollBack,
			"refused 6 of 100 requests that the version in force has admitted: rolled back"},
		{"at the margin on canary pods", Observed{Stage: canary, For: time.Minute, Canaries: 1, Counts: counts(15, 100, 10, 100)}, Promote,
			"after 1m0s on canary pods: refused 15 of 100 requests, the version in force 10 of 100 on other pods: promoted"},
		{"over the margin on canary pods", Observed{Stage: canary, Canaries: 1, Counts: counts(16, 100, 10, 100)}, RollBack,
			"refused 16 of 100 requests, the version in force 10 of 100 on other pods: rolled back"},
		{"only canary pods", Observed{Stage: canary, For: 3 * time.Minute, Canaries: 1, Counts: counts(6, 100, 0, 0)}, RollBack,
			"after 3m0s of little traffic: refused 6 of 100 requests, the version in force 0 of 0 on other pods: rolled back"},
		{"refuses less", Observed{Stage: canary, For: time.Minute, Canaries: 1, Counts: counts(0, 100, 100, 100)}, Promote,
			"after 1m0s on canary pods: refused 0 of 100 requests, the version in force 100 of 100 on other pods: promoted"},
		{"no canary pods", Observed{Stage: shadow, For: time.Minute, Counts: counts(0, 100, 0, 100)}, Promote,
			"after 1m0s of shadow: refused 0 of 100 requests that the version in force has admitted: promoted without canary pods, of which none has reported within 1m0s"},
		{"no traffic, patient", Observed{Stage: shadow, For: 3*time.Minute - 1, Canaries: 1}, Wait, ""},
		{"no traffic, patience over", Observed{Stage: shadow, For: 3 * time.Minute, Canaries: 1}, Canary,
			"after 3m0s of shadow: no traffic was seen: on to canary pods"},
		{"no traffic on canary pods", Observed{Stage: canary, For: 3 * time.Minute, Canaries: 1}, Promote,
			"after 3m0s on canary pods: no traffic was seen: promoted"},
		{"little traffic, all refused", Observed{Stage: shadow, For: 3 * time.Minute, Canaries: 1, Counts: counts(7, 7, 0, 7)}, RollBack,
			"after 3m0s of little traffic: refused 7 of 7 requests that the version in force has admitted: rolled back"},
		{"little traffic, none refused", Observed{Stage: shadow, For: 3 * time.Minute, Canaries: 1, Counts: counts(0, 7, 0, 7)}, Canary,
			"after 3m0s of shadow: refused 0 of 7 requests that the version in force has admitted: on to canary pods"},
		{"canary pods are gone", Observed{Stage: canary, For: 3*time.Minute - 1, Counts: counts(0, 500, 0, 500)}, Wait, ""},
		{"canary pods stay away", Observed{Stage: canary, For: 3 * time.Minute, Counts: counts(0, 500, 0, 500)}, RollBack,
			"no canary pod has reported within 1m0s: rolled back"},
		{"a pod could not take it", Observed{Stage: canary, Canaries: 1, Refusals: []string{"pod p1 (burst)"}}, RollBack,
			"could not be taken by pod p1 (burst): rolled back"},
		{"a shadow rule that would refuse everything is enforced", Observed{Stage: shadow, Canaries: 1, Base: BaseShadow, Counts: counts(100, 100, 100, 100)}, RollBack,
			"refused 100 of 100 requests, the version in force none, being in shadow mode: rolled back"},
		{"a new rule that refuses too many", Observed{Stage: shadow, Canaries: 1, Base: BaseNone, Counts: counts(6, 100, 0, 0)}, RollBack,
			"refused 6 of 100 requests, where no rule is in force: rolled back"},
		{"a new rule that refuses few", Observed{Stage: shadow, For: time.Minute, Canaries: 1, Base: BaseNone, Counts: counts(5, 100, 0, 0)}, Canary,
			"after 1m0s of shadow: refused 5 of 100 requests, where no rule is in force: on to canary pods"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := DefaultPolicy().Decide(test.o)
			if got.Do != test.do || got.Why != test.why {
				t.Errorf("got %d %q\nwant %d %q", got.Do, got.Why, test.do, test.why)
			}
			if got.After > test.o.For {
				t.Errorf("rests on %v in the stage, has had %v", got.After, test.o.For)
			}
		})
	}
}

// A policy that could never roll back, or never go on, is refused.
func TestPolicyOutOfBounds(t *testing.T) {
	if err := DefaultPolicy().Validate(); err != nil {
		t.Error(err)
	}
	zero := 0.0
	for want, p := range map[string]Policy{
		"bake":     {BakeShadow: -1, Evidence: 1},
		"margin":   {Margin: zero / zero, Evidence: 1},
		"1.5":      {Margin: 1.5, Evidence: 1},
		"evidence": {},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want it to name %q", p, err, want)
		}
	}
}

// A fault is about a rule if it names the rule, and not if it names another one
// whose id has this one's in it.
func TestFaultNamesARule(t *testing.T) {
	for text, want := range map[string]bool{
		`rule "free" is bad`: true, "free.burst is 0": true, "free": true,
		"freefree": false, "free-global is bad": false, "my_free": false, "xfree free": true, "": false,
	} {
		if names(text, "free") != want {
			t.Errorf("%q names free: want %v", text, want)
		}
	}
	if names("aaab", "aa") {
		t.Error(`"aaab" names no "aa"`)
	}
}
