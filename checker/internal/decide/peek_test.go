package decide_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/store"
)

const peekRules = `
rules:
  - {id: bucket, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/h, burst: 10, fail_mode: closed}
  - {id: window, scope: all, identity: api_key, algorithm: fixed_window, limit: 3, window: 1d}
overrides:
  - {rule: bucket, key: banned, deny: true}
`

// charge is what a rule takes from a key.
func charge(t *testing.T, e *decide.Engine, rule, key string, cost int64, peek bool) decide.Charge {
	t.Helper()
	set, now, err := e.Rules("public-api")
	if err != nil {
		t.Fatal(err)
	}
	charges, ok, err := set.AppendCharges(nil, now, rule, key, cost)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return decide.Charge{Charge: charges[0], Peek: peek}
}

// decided is said for charges.
func decided(t *testing.T, e *decide.Engine, charges ...decide.Charge) string {
	t.Helper()
	a, err := e.Decide(t.Context(), charges)
	if err != nil {
		return err.Error()
	}
	defer a.Release()
	text := a.Decision.Verdict.String()
	if refused := a.Refused(); refused >= 0 {
		text += fmt.Sprint(" by ", refused)
	}
	for i := range charges {
		switch o := a.Outcome(i); {
		case o == nil:
			text += " -"
		case !o.Known:
			text += fmt.Sprintf(" %s=?", o.Rule.ID)
		default:
			text += fmt.Sprintf(" %s=%d", o.Rule.ID, o.Remaining)
		}
	}
	return text
}

// slow is a store that takes its time.
type slow struct{ store.Store }

func (s slow) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	time.Sleep(9 * time.Millisecond)
	return s.Store.Take(ctx, ask, result)
}

// A request waits no longer for having peeks: what they took is gone from its budget.
func TestPeeksAndChargesShareOneBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngineOver(t, slow{newMemory(t)}, 8*time.Millisecond, decide.Enforce, nobody{}, peekRules)
		if got, want := decided(t, e, charge(t, e, "window", "acct", 1, false)), "allowed window=2"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		begin := time.Now()
		if got, want := decided(t, e, charge(t, e, "bucket", "acct", 1, false), charge(t, e, "window", "other", 1, true)), "unavailable by 0 bucket=? window=3"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if took := time.Since(begin); took > 9*time.Millisecond {
			t.Errorf("waited %v, longer than one answer", took)
		}
	})
}

// What a peek finds empty refuses the request with all that it charges, and charges
// nothing; what it finds there lets the rest be charged.
func TestPeekIsAConditionOfTheCharges(t *testing.T) {
	e := newEngine(t, peekRules)
	empty := func(peek bool) decide.Charge { return charge(t, e, "window", "acct", 1, peek) }
	pays := charge(t, e, "bucket", "acct", 1, false)
	if got, want := decided(t, e, pays, empty(true)), "allowed bucket=9 window=3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for range 3 {
		decided(t, e, empty(false))
	}
	for range 2 {
		if got, want := decided(t, e, pays, empty(true)), "denied by 1 - window=0"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := decided(t, e, pays), "allowed bucket=8"; got != want {
		t.Errorf("a refused request was charged: got %s, want %s", got, want)
	}
	if got, want := decided(t, e, pays, pays), "entries[1]: has the rule and key of entries[0]: want each once"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An observer is told a request that peeks refused, and nothing of their rules:
// nobody was counted.
func TestPeeksAreNoDecisionsOfTheirRules(t *testing.T) {
	for mode, want := range map[decide.Mode][]string{
		decide.Enforce: {"allowed by no_rule, shadowed false", "denied by ban, shadowed false"},
		decide.Shadow:  {"allowed by no_rule, shadowed true", "denied by ban, shadowed true"},
		decide.Off:     {"allowed by no_rule, shadowed false", "allowed by no_rule, shadowed false"},
	} {
		o := &told{}
		e := newEngineIn(t, mode, o, peekRules)
		refused := mode == decide.Enforce
		if got := decided(t, e, charge(t, e, "bucket", "acct", 1, true)); got[:7] != "allowed" {
			t.Errorf("%s: %s", mode, got)
		}
		if got := decided(t, e, charge(t, e, "bucket", "banned", 1, true)); (got[:6] == "denied") != refused {
			t.Errorf("%s: %s", mode, got)
		}
		if diff := cmp.Diff(want, o.text); diff != "" {
			t.Errorf("%s (-want +told):\n%s", mode, diff)
		}
	}
}
