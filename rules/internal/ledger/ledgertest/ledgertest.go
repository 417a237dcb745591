// Package ledgertest says the contract of a ledger.Store as tests, for every
// implementation.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// domain is where tests write that need only one.
const domain = "public-api"

// Kinds, in short.
const (
	kindPlan      = rulesv1.Kind_KIND_PLAN
	kindRoute     = rulesv1.Kind_KIND_ROUTE
	kindRule      = rulesv1.Kind_KIND_RULE
	kindOverride  = rulesv1.Kind_KIND_OVERRIDE
	kindCandidate = rulesv1.Kind_KIND_CANDIDATE
)

// patience bounds what waits for an event; nothing is timed.
const patience = 60 * time.Second

// Run runs the suite. database makes an empty ledger for one test and returns what
// opens an instance on it, each time another one if the store knows instances; all is
// cleaned up by t.Cleanup.
func Run(t *testing.T, database func(t *testing.T) (open func() ledger.Store)) {
	for _, c := range []struct {
		name string
		test func(*bench)
	}{
		{"OrderHasNoGaps", orderHasNoGaps},
		{"SlowWriterIsNeverSkipped", slowWriter},
		{"FailedWriteLeavesNothing", failedWrite},
		{"EmptyWriteMakesNoRevision", emptyWrite},
		{"WriteShowsTheLedgerBeforeIt", writeShowsBefore},
		{"WriteAnswersWhoeverGivesUp", writeGivesUp},
		{"SinceReturnsWholeRevisions", sinceWholeRevisions},
		{"SinceBeyondTheHeadIsCompacted", sinceBeyond},
		{"WaitIsWokenByAnotherInstance", waitIsWoken},
		{"VersionsGoOnAfterDeletion", versionsGoOn},
		{"UsedVersionsAreRefused", usedVersions},
		{"WhatIsNotThereIsRefused", references},
		{"MalformedEntriesAreRefused", malformed},
		{"EntriesComeBackAsWritten", entriesComeBack},
		{"MessagesAreTheCallers", messagesAreTheCallers},
		{"HistoryFiltersAndPages", history},
		{"ListsFilterAndPage", lists},
		{"SnapshotIsWhatTheChangesAddUpTo", snapshot},
		{"ItemsAreFound", items},
		{"TextsAreOnlyTexts", texts},
		{"RolloutLives", rolloutLives},
		{"RolloutsFilterAndPage", rolloutPages},
		{"OneRolloutARule", oneRollout},
		{"CountsBeginWithTheStage", countsBegin},
		{"CanaryStageCountsCanaryPods", canaryCounts},
		{"RestartsOfAPodAddUp", restartsAddUp},
		{"ReportsReplaceEachOther", reportsReplace},
		{"PodsAreListed", pods},
		{"TokensAreKept", tokens},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := database(t)
			c.test(&bench{T: t, Store: open(), open: open})
		})
	}
}

// bench is a test's hands on a store.
type bench struct {
	*testing.T
	ledger.Store
	open func() ledger.Store
}

func (b *bench) ctx() context.Context { return b.Context() }

// put writes entries of domain in one write.
func (b *bench) put(changes ...*rulesv1.Change) int64 {
	b.Helper()
	var entries []*ledger.Entry
	for _, c := range changes {
		entries = append(entries, entry(c))
	}
	return b.write(entries...)
}

// write writes entries in one write.
func (b *bench) write(entries ...*ledger.Entry) int64 {
	b.Helper()
	revision, err := write(b.ctx(), b.Store, entries...)
	if err != nil {
		b.Fatal(err)
	}
	return revision
}

func write(ctx context.Context, s ledger.Store, entries ...*ledger.Entry) (int64, error) {
	return s.Write(ctx, func(ctx context.Context, tx ledger.Tx) error {
		for _, e := range entries {
			if err := tx.Append(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// refused writes entries that the store must refuse whole.
func (b *bench) refused(why string, entries ...*ledger.Entry) {
	b.Helper()
	before := b.head()
	if _, err := write(b.ctx(), b.Store, entries...); !errors.Is(err, ledger.ErrRefused) {
		b.Errorf("%s: %v, want %v", why, err, ledger.ErrRefused)
	}
	if after := b.head(); after != before {
		b.Errorf("%s: the head went from %d to %d", why, before, after)
	}
}

func (b *bench) head() int64 {
	b.Helper()
	head, err := b.Head(b.ctx())
	if err != nil {
		b.Fatal(err)
	}
	return head
}

// same compares what came with what is wanted.
func (b *bench) same(what string, got, want any) {
	b.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// must takes a call's results and fails the test on an error.
func must[T any](value T, err error) func(*bench) T {
	return func(b *bench) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return value
	}
}

// entry is a change by "ada", with the version that its item says.
func entry(c *rulesv1.Change) *ledger.Entry {
	e := &ledger.Entry{Domain: domain, Change: c, Action: ledger.ActionPut, Author: "ada", Why: "because"}
	switch of := c.GetItem().(type) {
	case *rulesv1.Change_Rule:
		e.Version = of.Rule.GetVersion()
	case *rulesv1.Change_Route:
		e.Version = of.Route.GetVersion()
	case *rulesv1.Change_Candidate:
		e.Version, e.Action = of.Candidate.GetRule().GetVersion(), ledger.ActionRollout
	case *rulesv1.Change_Deletion:
		e.Action = ledger.ActionDelete
	}
	return e
}

// gone is an entry that deletes; version 0 for what has none.
func gone(kind rulesv1.Kind, id string, version int64) *ledger.Entry {
	e := entry(&rulesv1.Change{Item: &rulesv1.Change_Deletion{Deletion: &rulesv1.Deletion{Kind: kind, Id: id}}})
	e.Version = version
	return e
}

func plan(id string) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Plan{Plan: &rulesv1.Plan{Id: id}}}
}

func route(id string, version int64) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Route{Route: &rulesv1.Route{
		Id: id, Match: []string{"GET /v1/" + id, "POST /v1/" + id}, Cost: new(int64(0)), UserField: "user\"'\\name", Version: version,
	}}}
}

// rule is a rule for everybody; edits make it another one.
func rule(id string, version int64, edits ...func(*rulesv1.Rule)) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: ruleOf(id, version, edits...)}}
}

func ruleOf(id string, version int64, edits ...func(*rulesv1.Rule)) *rulesv1.Rule {
	r := &rulesv1.Rule{
		Id: id, Version: version, Scope: rulesv1.Scope_SCOPE_ALL, Identity: rulesv1.Identity_IDENTITY_API_KEY,
		Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: new(1.0 / 3), Burst: new(int64(20)),
	}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func ofPlan(id string) func(*rulesv1.Rule) {
	return func(r *rulesv1.Rule) { r.Plan, r.Scope = id, rulesv1.Scope_SCOPE_UNSPECIFIED }
}

func ofRouteC(r *rulesv1.Rule) { r.Route, r.Scope = "c", rulesv1.Scope_SCOPE_UNSPECIFIED }

func window(r *rulesv1.Rule) {
	r.Algorithm, r.Rate, r.Burst = rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW, nil, nil
	r.Limit, r.Window = new(int64(1_000_000_000_000)), durationpb.New(time.Hour+time.Microsecond)
}

func candidate(id string, version int64, stage rulesv1.Stage) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Candidate{Candidate: &rulesv1.Candidate{Rule: ruleOf(id, version), Stage: stage}}}
}

func override(id, rule, key string) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Override{Override: &rulesv1.Override{Id: id, Rule: rule, Key: key, Deny: true}}}
}

// rest returns copies of entries without what the store fills in.
func rest(entries []ledger.Entry) (without []ledger.Entry) {
	for _, e := range entries {
		e.Revision, e.Ordinal, e.At = 0, 0, time.Time{}
		without = append(without, e)
	}
	return without
}

// ids names what entries are about, as in "3.0 KIND_RULE r1".
func ids(entries []ledger.Entry) (names []string) {
	for _, e := range entries {
		item := ledger.ItemOf(e.Change)
		names = append(names, fmt.Sprintf("%d.%d %s %s", e.Revision, e.Ordinal, item.Kind, item.ID))
	}
	return names
}
