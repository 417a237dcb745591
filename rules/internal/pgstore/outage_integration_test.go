package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/pgstore"
)

func planEntry(id string) *ledger.Entry {
	return &ledger.Entry{Domain: "public-api", Change: &rulesv1.Change{Item: &rulesv1.Change_Plan{Plan: &rulesv1.Plan{Id: id}}}, Action: ledger.ActionPut}
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

// crowd is writers that note what was acknowledged and what they do not know of,
// and readers that note what they saw.
type crowd struct {
	acked atomic.Int64
	mu    sync.Mutex
	known map[string]int64 // revision, by the id of a plan
	other map[string]bool  // may have been written or not
}

// write writes plans, one a write, until told to stop.
func (c *crowd) write(ctx context.Context, t *testing.T, s ledger.Store, name string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		id := fmt.Sprintf("%s-%d", name, i)
		revision, err := write(ctx, s, planEntry(id))
		c.mu.Lock()
		switch {
		case err == nil:
			c.known[id] = revision
			c.acked.Add(1)
		case errors.Is(err, ledger.ErrUnavailable):
			c.other[id] = true
		default:
			t.Errorf("writing %s: %v", id, err)
		}
		c.mu.Unlock()
		if err != nil {
			pause(ctx)
		}
	}
}

// read follows the log to the revision that end is told, through whatever outages.
func read(ctx context.Context, t *testing.T, s ledger.Store, end *atomic.Int64) (seen []ledger.Entry) {
	for at := int64(0); ; {
		last := end.Load()
		entries, err := s.Since(ctx, at, 7)
		if err != nil && !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("reading after %d: %v", at, err)
			return seen
		}
		for _, e := range entries {
			if e.Revision != at+1 { // each has one entry
				t.Errorf("revision %d came after %d", e.Revision, at)
				return seen
			}
			at = e.Revision
		}
		seen = append(seen, entries...)
		if last > 0 && at >= last {
			return seen
		}
		if len(entries) == 0 {
			if err := s.Wait(ctx, at); err != nil {
				pause(ctx)
			}
		}
		if ctx.Err() != nil {
			t.Errorf("at revision %d of %d: %v", at, last, ctx.Err())
			return seen
		}
	}
}

// pause is that of a caller between two tries.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}

// more waits until n more writes were acknowledged.
func (c *crowd) more(ctx context.Context, t *testing.T, n int64) {
	t.Helper()
	for from := c.acked.Load(); c.acked.Load() < from+n; {
		pause(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d writes were acknowledged, want %d more than %d", c.acked.Load(), n, from)
		}
	}
}

// The database is killed, stopped and cut off in the middle of writes by three
// instances. Afterwards every write that was acknowledged is there once, under its
// revision, without gaps, and readers go on where they were, without a restart.
func TestAcknowledgedWritesOutliveCrashes(t *testing.T) {
	d := start(t, testenv.PostgresConfig{Proxied: true})
	url := d.fresh(t)
	ctx := limited(t)
	c := &crowd{known: map[string]int64{}, other: map[string]bool{}}
	stop, end := make(chan struct{}), atomic.Int64{}
	var writers, readers sync.WaitGroup
	seen := make([][]ledger.Entry, 3)
	var last ledger.Store
	for i := range 3 {
		s := open(t, pgstore.Config{URL: url, ListenURL: url})
		last = s
		for w := range 2 {
			writers.Go(func() { c.write(ctx, t, s, fmt.Sprintf("w%d-%d", i, w), stop) })
		}
		readers.Go(func() { seen[i] = read(ctx, t, s, &end) })
	}
	for range 2 {
		c.more(ctx, t, 20)
		d.server.Kill()
		if err := d.server.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		c.more(ctx, t, 20)
		if err := errors.Join(d.server.Stop(ctx), d.server.Restart(ctx)); err != nil {
			t.Fatal(err)
		}
		c.more(ctx, t, 20)
		if err := d.server.Proxy().Set(tcpproxy.Faults{Cut: 0.1}); err != nil { // also replies to COMMIT
			t.Fatal(err)
		}
		c.more(ctx, t, 20)
		if err := d.server.Proxy().Set(tcpproxy.Faults{}); err != nil {
			t.Fatal(err)
		}
	}
	c.more(ctx, t, 20)
	close(stop)
	writers.Wait()
	head, err := last.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	end.Store(head)
	if _, err := write(ctx, last, planEntry("the-end")); err != nil { // wakes who waits
		t.Fatal(err)
	}
	readers.Wait()
	c.check(t, seen)
}

// check compares what readers saw with what writers know.
func (c *crowd) check(t *testing.T, seen [][]ledger.Entry) {
	t.Helper()
	found := map[string]int64{}
	for _, e := range seen[0] {
		id := e.Change.GetPlan().GetId()
		if found[id] > 0 {
			t.Errorf("%s was written twice: revisions %d and %d", id, found[id], e.Revision)
		}
		found[id] = e.Revision
		if c.known[id] == 0 && !c.other[id] && id != "the-end" {
			t.Errorf("%s of revision %d was written by nobody", id, e.Revision)
		}
	}
	for id, revision := range c.known {
		if found[id] != revision {
			t.Errorf("%s was acknowledged as revision %d, and is %d", id, revision, found[id])
		}
	}
	for i := range seen {
		for n, e := range seen[i] {
			if n < len(seen[0]) && e.Change.GetPlan().GetId() != seen[0][n].Change.GetPlan().GetId() {
				t.Fatalf("reader %d saw %s as revision %d, reader 0 %s", i, e.Change, e.Revision, seen[0][n].Change)
			}
		}
	}
	t.Logf("%d writes acknowledged, %d unknown, %d revisions", len(c.known), len(c.other), len(seen[0]))
}

// A store opens while its database is away and answers so; when it comes, the tables
// are made, by several instances at once, and the store works.
func TestDatabaseMayComeLater(t *testing.T) {
	d := start(t, testenv.PostgresConfig{Proxied: true})
	d.exec(t, "postgres", "CREATE DATABASE later")
	cfg := pgstore.Config{URL: d.server.URL("later"), ListenURL: d.server.URL("later")}
	d.server.Kill()
	ctx := limited(t)
	var stores []*pgstore.Store
	for range 3 {
		stores = append(stores, open(t, cfg))
	}
	s := stores[0]
	if _, err := s.Head(ctx); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("Head while the database is away: %v, want %v", err, ledger.ErrUnavailable)
	}
	if _, err := write(ctx, s, planEntry("a")); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("Write while the database is away: %v, want %v", err, ledger.ErrUnavailable)
	}
	if err := s.Wait(ctx, 0); !errors.Is(err, ledger.ErrNoHints) {
		t.Errorf("Wait while the database is away: %v, want %v", err, ledger.ErrNoHints)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Migrate(ended); err == nil {
		t.Error("Migrate succeeded while the database is away")
	}
	migrated := make(chan error, len(stores))
	for _, s := range stores {
		go func() { migrated <- s.Migrate(ctx) }()
	}
	if err := d.server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	for range stores {
		if err := <-migrated; err != nil {
			t.Errorf("Migrate: %v", err)
		}
	}
	if revision, err := write(ctx, s, planEntry("a")); err != nil || revision != 1 {
		t.Errorf("the first write: %d, %v", revision, err)
	}
	if err := s.Migrate(ctx); err != nil {
		t.Errorf("Migrate once more: %v", err)
	}
}

// Before its tables are there a store is unavailable, not broken.
func TestNoTablesYet(t *testing.T) {
	d := start(t, testenv.PostgresConfig{})
	d.exec(t, "postgres", "CREATE DATABASE bare")
	s := open(t, pgstore.Config{URL: d.server.URL("bare")})
	if _, err := s.Snapshot(t.Context()); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("%v, want %v", err, ledger.ErrUnavailable)
	}
}

// A writer that hangs, or whose machine is gone, does not keep others from writing
// for ever: the database takes its lock away, and nothing of its write remains.
func TestHangingWriterLosesTheLock(t *testing.T) {
	d := start(t, testenv.PostgresConfig{})
	url := d.fresh(t)
	hanging, other := open(t, pgstore.Config{URL: url}), open(t, pgstore.Config{URL: url})
	ctx := limited(t)
	overtaken := false
	_, err := hanging.Write(ctx, func(ctx context.Context, tx ledger.Tx) error {
		if err := tx.Append(ctx, planEntry("hanging")); err != nil {
			return err
		}
		revision, err := write(ctx, other, planEntry("other"))
		if err != nil || revision != 1 {
			t.Errorf("the other write: %d, %v, want 1", revision, err)
		}
		overtaken = true
		return nil
	})
	if !overtaken || !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("the hanging write: %v, want %v", err, ledger.ErrUnavailable)
	}
	if head, err := other.Head(ctx); err != nil || head != 1 {
		t.Errorf("head %d, %v, want 1", head, err)
	}
}

// Before each connection the password is asked for, so that it may change while the
// service runs.
func TestPasswordIsAskedEachTime(t *testing.T) {
	d := start(t, testenv.PostgresConfig{})
	cfg, err := pgx.ParseConfig(d.fresh(t))
	if err != nil {
		t.Fatal(err)
	}
	var password atomic.Pointer[string]
	password.Store(&cfg.Password)
	url := fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", d.server.Address(), cfg.Database)
	s := open(t, pgstore.Config{URL: url, ListenURL: url, Password: func(context.Context) (string, error) { return *password.Load(), nil }})
	ctx := limited(t)
	if _, err := s.Head(ctx); err != nil {
		t.Fatal(err)
	}
	changed := "another one"
	d.exec(t, "postgres", "ALTER ROLE postgres PASSWORD '"+changed+"'")
	d.server.Kill()
	if err := d.server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Head(ctx); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("with the old password: %v, want %v", err, ledger.ErrUnavailable)
	}
	password.Store(&changed)
	if _, err := s.Head(ctx); err != nil {
		t.Errorf("with the new password: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for ctx.Err() == nil && errors.Is(s.Wait(ended, 0), ledger.ErrNoHints) {
		pause(ctx)
	}
	if ctx.Err() != nil {
		t.Error("hints never came")
	}
}
