package book

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/memstore"
)

const (
	immediate = rulesv1.RolloutMode_ROLLOUT_MODE_IMMEDIATE
	guarded   = rulesv1.RolloutMode_ROLLOUT_MODE_GUARDED
)

// quiet is a log that nobody reads.
var quiet = slog.New(slog.DiscardHandler)

// open makes a book of a store that can be reached.
func open(t *testing.T, store ledger.Store, set ...func(*Config)) *Book {
	t.Helper()
	c := Config{Store: store, Logger: quiet}
	for _, f := range set {
		f(&c)
	}
	b, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// seed is what most tests begin with: at revision 1.
func seed() *rulesv1.Ruleset {
	return &rulesv1.Ruleset{
		Plans:  []*rulesv1.Plan{{Id: "free"}, {Id: "growth"}},
		Routes: []*rulesv1.Route{{Id: "bulk", Match: []string{"POST /v1/bulk"}, Cost: proto.Int64(10)}, {Id: "labels", Match: []string{"GET /v1/labels"}}},
		Rules:  []*rulesv1.Rule{bucket("free-global", "free", 10, 20), bucket("growth-global", "growth", 100, 200)},
		Overrides: []*rulesv1.Override{
			{Rule: "growth-global", Key: "acct_1", Burst: proto.Int64(50), Reason: "from the start"},
		},
	}
}

func bucket(id, plan string, rate float64, burst int64) *rulesv1.Rule {
	return &rulesv1.Rule{
		Id: id, Plan: plan, Identity: rulesv1.Identity_IDENTITY_API_KEY, Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET,
		Rate: proto.Float64(rate), Burst: proto.Int64(burst),
	}
}

// seeded makes a book of a memory store with seed in it.
func seeded(t *testing.T) (*Book, *memstore.Store) {
	t.Helper()
	store := memstore.New()
	b := open(t, store)
	if done, err := b.Import(t.Context(), "file", seed()); err != nil || !done {
		t.Fatalf("import: %v, %v", done, err)
	}
	return b, store
}

// at is a Write for a version.
func at(version int64) *rulesv1.Write {
	return &rulesv1.Write{ExpectedVersion: proto.Int64(version), Why: "a test"}
}

// put puts a rule at once.
func put(t *testing.T, b *Book, rule *rulesv1.Rule, version int64) *rulesv1.PutRuleResponse {
	t.Helper()
	response, err := b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: rule, Write: at(version), Rollout: immediate})
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// refusedWith fails unless err is a Problem with a code; it is returned.
func refusedWith(t *testing.T, err error, code string) *Problem {
	t.Helper()
	var p *Problem
	if !errors.As(err, &p) || p.Code != code {
		t.Fatalf("error is %v, want a problem %s", err, code)
	}
	return p
}

// mustSay fails unless a problem has a violation of a field that says something.
func mustSay(t *testing.T, p *Problem, field, value, says string) {
	t.Helper()
	for _, v := range p.Violations {
		if v.GetField() == field && v.GetValue() == value && strings.Contains(v.GetProblem(), says) {
			return
		}
	}
	t.Errorf("no violation of %s (%s) says %q: %v", field, value, says, p)
}

// unchanged fails if the store has another revision than before.
func unchanged(t *testing.T, store ledger.Store, revision int64) {
	t.Helper()
	if head, err := store.Head(t.Context()); err != nil || head != revision {
		t.Errorf("the store is at revision %d (%v), want %d as before", head, err, revision)
	}
}

// run runs a book until the test ends, or stop is called.
func run(t *testing.T, b *Book) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// history is a rule's audit entries, the latest first, as "version action by author".
func history(t *testing.T, b *Book, rule string) (lines []string) {
	t.Helper()
	response, err := b.ListRuleHistory(t.Context(), &rulesv1.ListRuleHistoryRequest{Id: rule})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range response.GetEntries() {
		lines = append(lines, fmt.Sprintf("%d %s by %s", e.GetVersion(), e.GetAction(), e.GetAuthor()))
	}
	return lines
}
