package decide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
)

const rules = `
rules:
  - {id: by-account, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/h, burst: 10}
  - {id: also-by-account, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/h, burst: 3}
  - {id: by-address, scope: all, identity: ip, algorithm: token_bucket, rate: 1/h, burst: 2}
  - {id: in-shadow, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/h, burst: 1, mode: shadow}
overrides:
  - {rule: by-account, key: banned, deny: true}
`

// source is rules that stand still.
type source struct{ *ruleset.Live }

func (source) Now() time.Time { return time.Now() }

// late is a domain whose rules were not had yet.
type late struct{ source }

func (late) Current() *ruleset.Ruleset { return nil }

// nobody observes.
type nobody struct{}

func (nobody) Decided(context.Context, *limit.Decision, *limit.Rule, bool) {}
func (nobody) Failed(context.Context, error)                               {}

func newEngine(t *testing.T, text string) *decide.Engine {
	t.Helper()
	return newEngineIn(t, decide.Enforce, nobody{}, text)
}

func newEngineIn(t *testing.T, mode decide.Mode, observer decide.Observer, text string) *decide.Engine {
	t.Helper()
	return newEngineOver(t, newMemory(t), 0, mode, observer, text)
}

func newMemory(t *testing.T) *memory.Store {
	t.Helper()
	s, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newEngineOver(t *testing.T, s store.Store, budget time.Duration, mode decide.Mode, observer decide.Observer, text string) *decide.Engine {
	t.Helper()
	live, err := ruleset.OpenBytes("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	limits, err := limiter.New(limiter.Config{Store: s, Unpaced: true, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limits.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return decide.New(decide.Config{Domains: map[string]decide.Source{"public-api": source{live}, "late": late{}}, Limiter: limits, Mode: mode, Observer: observer})
}

// said is an answer as text: the verdict, who refused, and what each entry's rule
// has left.
func said(t *testing.T, e *decide.Engine, entries ...decide.Entry) string {
	t.Helper()
	a, err := e.Check(t.Context(), "public-api", entries)
	if err != nil {
		return err.Error()
	}
	defer a.Release()
	text := a.Decision.Verdict.String()
	if refused := a.Refused(); refused >= 0 {
		text += fmt.Sprint(" by ", refused)
	}
	for i := range entries {
		if o := a.Outcome(i); o == nil {
			text += " -"
		} else {
			text += fmt.Sprintf(" %s=%d", o.Rule.ID, o.Remaining)
		}
	}
	return text
}

// Entries of several subjects are asked in the limiter's order, whatever order they
// came in, and answered in theirs; what refuses charges nobody.
func TestEntriesAreAnsweredInTheirOrder(t *testing.T) {
	e := newEngine(t, rules)
	account := decide.Entry{Rule: "by-account", Key: "acct", Cost: 1}
	also := decide.Entry{Rule: "also-by-account", Key: "acct", Cost: 1}
	address := decide.Entry{Rule: "by-address", Key: "192.0.2.1", Cost: 1}
	for _, c := range []struct {
		entries []decide.Entry
		want    string
	}{
		{[]decide.Entry{account, address, also}, "allowed by-account=9 by-address=1 also-by-account=2"},
		{[]decide.Entry{also, account, address}, "allowed also-by-account=1 by-account=8 by-address=0"},
		{[]decide.Entry{account, address, also}, "denied by 1 - by-address=0 -"}, // the address is asked first
		{[]decide.Entry{account, also}, "allowed by-account=7 also-by-account=0"},
		{[]decide.Entry{account, also}, "denied by 1 by-account=7 also-by-account=0"},
	} {
		if got := said(t, e, c.entries...); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	shadow := decide.Entry{Rule: "in-shadow", Key: "acct", Cost: 5}
	if got := said(t, e, shadow); !strings.HasPrefix(got, "allowed") {
		t.Errorf("a rule in shadow refuses: %s", got)
	}
	if got := said(t, e, decide.Entry{Rule: "by-account", Key: "banned"}); !strings.HasPrefix(got, "denied by 0") {
		t.Errorf("a banned key: %s", got)
	}
	less := account
	less.Key, less.Override = "other", &limit.Limit{Rate: 1, Burst: 2}
	if got := said(t, e, less); got != "allowed by-account=1" {
		t.Errorf("a limit of the request's own: %s", got)
	}
}

// What cannot be read is refused with its field, and charges nobody.
func TestFaultsOfARequestAreNamed(t *testing.T) {
	e := newEngine(t, rules)
	good := decide.Entry{Rule: "by-account", Key: "acct", Cost: 1}
	with := func(change func(*decide.Entry)) []decide.Entry {
		bad := good
		change(&bad)
		return []decide.Entry{good, bad}
	}
	for _, c := range []struct {
		entries []decide.Entry
		want    string
	}{
		{nil, "entries is 0 of them: want 1 to 16"},
		{make([]decide.Entry, 17), "entries is 17 of them: want 1 to 16"},
		{with(func(e *decide.Entry) { e.Cost = -1 }), "entries[1].cost is -1: want 0 to 1000000"},
		{with(func(e *decide.Entry) { e.Key = "" }), "entries[1].key is 0 bytes: want 1 to 4096"},
		{with(func(e *decide.Entry) { e.Rule, e.Key = "by-address", "nowhere" }), `entries[1].key is "nowhere": `},
		{with(func(*decide.Entry) {}), "entries[1]: has the rule and key of entries[0]: want each once"},
		{with(func(e *decide.Entry) { e.Rule = "nonsense" }), `entries[1].rule "nonsense": not found`},
	} {
		if got := said(t, e, c.entries...); !strings.HasPrefix(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if _, err := e.Check(t.Context(), "nowhere", []decide.Entry{good}); !errors.Is(err, decide.ErrNotFound) {
		t.Errorf("an unknown domain: %v", err)
	}
	if got := said(t, e, good); got != "allowed by-account=9" {
		t.Errorf("a request that could not be read was charged: %s", got)
	}
}

// told notes what an observer is told.
type told struct{ text []string }

func (o *told) Decided(_ context.Context, d *limit.Decision, _ *limit.Rule, shadowed bool) {
	o.text = append(o.text, fmt.Sprintf("%v by %v, shadowed %v", d.Verdict, d.DecidedBy, shadowed))
}

func (o *told) Failed(_ context.Context, err error) { o.text = append(o.text, err.Error()) }

// In shadow a refusal refuses nothing and is seen by the observer alone; switched
// off, the limiter is not asked, and what cannot be read is still refused.
func TestModesOtherThanEnforceAdmitAll(t *testing.T) {
	banned := decide.Entry{Rule: "by-account", Key: "banned", Cost: 1}
	for mode, want := range map[decide.Mode][]string{
		decide.Enforce: {"denied by ban, shadowed false", "domain \"nowhere\": not found"},
		decide.Shadow:  {"denied by ban, shadowed true", "domain \"nowhere\": not found"},
		decide.Off:     {"allowed by no_rule, shadowed false", "domain \"nowhere\": not found"},
	} {
		o := &told{}
		e := newEngineIn(t, mode, o, rules)
		a, err := e.Check(t.Context(), "public-api", []decide.Entry{banned})
		if err != nil {
			t.Fatal(err)
		}
		refuses := mode == decide.Enforce
		if got := a.Decision.Verdict != limit.Allowed; got != refuses || (a.Refused() >= 0) != refuses {
			t.Errorf("%s: %+v", mode, a.Decision)
		}
		if outcome := a.Outcome(0); (outcome == nil) != (mode == decide.Off) || outcome != nil && a.Shadowed(outcome) != (mode == decide.Shadow) {
			t.Errorf("%s: outcome %+v", mode, outcome)
		}
		a.Release()
		if _, err := e.Check(t.Context(), "nowhere", []decide.Entry{banned}); !errors.Is(err, decide.ErrNotFound) {
			t.Errorf("%s: an unknown domain: %v", mode, err)
		}
		if diff := cmp.Diff(want, o.text); diff != "" {
			t.Errorf("%s (-want +told):\n%s", mode, diff)
		}
	}
}

// A call whose caller has gone, and one for a domain without rules, charge nobody
// and are not let through.
func TestNothingIsChargedForNobody(t *testing.T) {
	e := newEngine(t, rules)
	entries := []decide.Entry{{Rule: "by-account", Key: "acct", Cost: 1}}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := e.Check(gone, "public-api", entries); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	if _, err := e.Check(t.Context(), "late", entries); !errors.Is(err, decide.ErrNoRules) {
		t.Errorf("a domain without rules: %v", err)
	}
	if got := said(t, e, entries...); got != "allowed by-account=9" {
		t.Errorf("somebody was charged: %s", got)
	}
}
