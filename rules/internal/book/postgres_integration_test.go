package book

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/pgstore"
)

// patience bounds what waits for an event; nothing is timed.
const patience = 60 * time.Second

// What holds on the store in memory holds on PostgreSQL, with three instances that
// have a store each: of 64 writers one wins each version, every instance tells
// every revision in order and once, and a rollout takes its course.
func TestOnPostgres(t *testing.T) {
	server := envtest.Postgres(t, testenv.PostgresConfig{})
	const database = "postgres"
	var books []*Book
	var listeners []*listener
	for i := range 3 {
		store, err := pgstore.Open(pgstore.Config{URL: server.URL(database), ListenURL: server.URL(database), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		if i == 0 {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := store.Migrate(ctx); err != nil {
				t.Fatal(err)
			}
		}
		l := newListener(t)
		b := open(t, store, func(c *Config) { c.Listener = l })
		books, listeners = append(books, b), append(listeners, l)
	}
	if done, err := books[0].Import(t.Context(), "file", seed()); err != nil || !done {
		t.Fatalf("import: %v, %v", done, err)
	}
	for _, b := range books {
		run(t, b)
	}
	const rounds = 5
	oneWriterWins(t, books, rounds)

	began := beginRollout(t, books[0], daily(), rounds+1)
	for i, want := range []rulesv1.RolloutState{stateCanary, statePromoted} {
		got, err := books[1+i].AdvanceRollout(t.Context(), "bob", &rulesv1.AdvanceRolloutRequest{Rule: "free-global", Write: at(rounds + 2)})
		if err != nil || got.GetRollout().GetState() != want || !proto.Equal(got.GetRollout().GetStartedAt(), began.GetStartedAt()) {
			t.Fatalf("advanced to %v, %v; want %v", got, err, want)
		}
	}
	if got := inForce(t, books[0], "free-global"); got.GetRule().GetVersion() != rounds+2 || got.GetRollout() != nil {
		t.Errorf("after the promotion: %v", got)
	}
	back, err := books[2].RollbackRule(t.Context(), "bob", &rulesv1.RollbackRuleRequest{Id: "free-global", Write: at(rounds + 2)})
	if err != nil || back.GetRule().GetVersion() != rounds+3 || back.GetRule().GetAlgorithm() != rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET {
		t.Errorf("rolled back: %v, %v", back, err)
	}

	last := back.GetRevision()
	if last != 1+rounds+4 {
		t.Errorf("the last revision is %d, want %d", last, 1+rounds+4)
	}
	for i, l := range listeners {
		deadline := time.Now().Add(patience)
		revision, told, resets := l.seen(DomainDefault)
		for revision != last && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
			revision, told, resets = l.seen(DomainDefault)
		}
		if revision != last || told+resets < int(last-1) {
			t.Errorf("instance %d is at revision %d after %d changes and %d resets, want %d", i, revision, told, resets, last)
		}
	}
}
