package book

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/memstore"
)

// faulty is a store that can be away, hint at nothing, and forget its log.
type faulty struct {
	ledger.Store
	away, mute atomic.Bool
	restored   atomic.Pointer[memstore.Store] // what the store is now; nil for Store
	compacted  atomic.Int64                   // Since of less than this is ErrCompacted
	reads      atomic.Int64                   // calls of Since and Snapshot
}

func (f *faulty) ask() error {
	if f.away.Load() {
		return fmt.Errorf("a test: %w", ledger.ErrUnavailable)
	}
	return nil
}

func (f *faulty) now() ledger.Store {
	if older := f.restored.Load(); older != nil {
		return older
	}
	return f.Store
}

func (f *faulty) Snapshot(ctx context.Context) (*ledger.State, error) {
	f.reads.Add(1)
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.now().Snapshot(ctx)
}

func (f *faulty) Since(ctx context.Context, after int64, most int) ([]ledger.Entry, error) {
	f.reads.Add(1)
	if err := f.ask(); err != nil {
		return nil, err
	}
	if after < f.compacted.Load() {
		return nil, ledger.ErrCompacted
	}
	return f.now().Since(ctx, after, most)
}

func (f *faulty) Wait(ctx context.Context, after int64) error {
	if f.mute.Load() || f.away.Load() {
		return ledger.ErrNoHints
	}
	return f.now().Wait(ctx, after)
}

func (f *faulty) Item(ctx context.Context, domain string, kind rulesv1.Kind, id string) (*rulesv1.Change, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.Store.Item(ctx, domain, kind, id)
}

func (f *faulty) Rules(ctx context.Context, domain string, q ledger.RuleQuery, after string, most int) ([]*rulesv1.Rule, int64, error) {
	if err := f.ask(); err != nil {
		return nil, 0, err
	}
	return f.Store.Rules(ctx, domain, q, after, most)
}

func (f *faulty) Write(ctx context.Context, w func(context.Context, ledger.Tx) error) (int64, error) {
	if err := f.ask(); err != nil {
		return 0, err
	}
	return f.Store.Write(ctx, w)
}

// listener notes what it is told, and fails the test if it does not follow from
// what it was told before.
type listener struct {
	t *testing.T

	mu     sync.Mutex
	at     map[string]int64 // domain to revision
	told   int              // changes
	resets []string
	rules  map[string]*ruleset.Ruleset
}

func newListener(t *testing.T) *listener {
	return &listener{t: t, at: map[string]int64{}, rules: map[string]*ruleset.Ruleset{}}
}

func (l *listener) Changed(domain string, from, to int64, changes []*rulesv1.Change, rules *ruleset.Ruleset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from != l.at[domain] || to <= from || len(changes) == 0 || rules.Revision() != to {
		l.t.Errorf("%s: told %d to %d with %d changes and rules of %d, after %d", domain, from, to, len(changes), rules.Revision(), l.at[domain])
	}
	l.at[domain], l.rules[domain] = to, rules
	l.told++
}

func (l *listener) Reset(domain string, rules *ruleset.Ruleset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[domain], l.rules[domain] = rules.Revision(), rules
	l.resets = append(l.resets, domain)
}

func (l *listener) seen(domain string) (revision int64, told, resets int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[domain], l.told, len(l.resets)
}

// edit puts free-global n times, from a version on.
func edit(t *testing.T, b *Book, version, n int64) {
	t.Helper()
	for v := version; v < version+n; v++ {
		put(t, b, bucket("free-global", "free", float64(v), 20), v)
	}
}

// Every instance tells its listener every revision, in order and once, whichever
// instance made it, also without hints; the rules then are the same everywhere.
func TestEveryInstanceTellsEveryRevision(t *testing.T) {
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprintf("hints=%v", !mute), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, mem := seeded(t)
				var books []*Book
				var listeners []*listener
				for range 3 {
					store := &faulty{Store: mem}
					store.mute.Store(mute)
					l := newListener(t)
					b := open(t, store, func(c *Config) { c.Listener = l })
					defer run(t, b)()
					books, listeners = append(books, b), append(listeners, l)
				}
				for i := range int64(5) {
					edit(t, books[i%3], 1+10*i, 10)
					if _, err := books[i%3].CreatePlan(t.Context(), "ann", &rulesv1.CreatePlanRequest{Domain: "other", Plan: &rulesv1.Plan{Id: fmt.Sprintf("p%d", i)}}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(pollEvery)
				synctest.Wait()
				for i, l := range listeners {
					revision, told, resets := l.seen(DomainDefault)
					if revision != 55 || told != 55 || resets != 1 {
						t.Errorf("instance %d is at revision %d after %d changes and %d resets; want 55, 55, 1", i, revision, told, resets)
					}
					if rate := l.rules[DomainDefault].Rules()[0].Limit.Rate; rate != 50 {
						t.Errorf("instance %d has a rate of %v, want the last one, 50", i, rate)
					}
					if other, _, _ := l.seen("other"); other != 56 {
						t.Errorf("instance %d has the other domain at revision %d, want 56", i, other)
					}
				}
			})
		})
	}
}

// A store that is away at the start keeps the book not ready, and one that goes away
// later takes nothing from it; each outage is logged once, and when it is over the
// book has what was missed within 5 s.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writer, mem := seeded(t)
		store := &faulty{Store: mem}
		store.away.Store(true)
		var log bytes.Buffer
		l := newListener(t)
		b := open(t, store, func(c *Config) { c.Listener, c.Logger = l, slog.New(slog.NewTextHandler(&log, nil)) })
		stop := run(t, b)
		time.Sleep(10 * time.Minute)
		if err := b.Ready(); !errors.Is(err, ErrNotReady) {
			t.Errorf("ready without ever having read the rules: %v", err)
		}
		_, err := b.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: bucket("free-global", "free", 1, 20), Write: at(1)})
		refusedWith(t, err, CodeUnavailable)
		if reads := store.reads.Load(); reads > 700 {
			t.Errorf("%d reads in 10 minutes of outage", reads)
		}

		store.away.Store(false)
		time.Sleep(5 * time.Second)
		if _, _, resets := l.seen(DomainDefault); b.Ready() != nil || resets != 1 {
			t.Errorf("5 s after the store came: %v, %d resets", b.Ready(), resets)
		}

		store.away.Store(true)
		edit(t, writer, 1, 10)
		time.Sleep(time.Minute)
		if rules, ok := b.Rules(""); b.Ready() != nil || !ok || rules.Revision() != 1 {
			t.Errorf("the rules as last seen are gone: %v %v", b.Ready(), ok)
		}
		_, err = b.GetRule(t.Context(), &rulesv1.GetRuleRequest{Id: "free-global"})
		refusedWith(t, err, CodeUnavailable)
		_, err = b.ListRules(t.Context(), &rulesv1.ListRulesRequest{})
		refusedWith(t, err, CodeUnavailable)

		store.away.Store(false)
		time.Sleep(5 * time.Second)
		if revision, told, resets := l.seen(DomainDefault); revision != 11 || told != 10 || resets != 1 {
			t.Errorf("5 s after the outage: revision %d, %d changes, %d resets; want 11, 10, 1", revision, told, resets)
		}
		stop()
		if n := strings.Count(log.String(), "cannot be read: the rules as last seen stay"); n != 2 {
			t.Errorf("two outages are logged %d times:\n%s", n, &log)
		}
	})
}

// A store that could not be read when the book was opened can be filled as soon as it
// can, before the book is run: a new database has no tables until its first service
// has made them.
func TestStoreIsFilledOnceItCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		t.Cleanup(mem.Close)
		store := &faulty{Store: mem}
		store.away.Store(true)
		b := open(t, store)
		if err := b.Load(t.Context()); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("got %v, want %v", err, ledger.ErrUnavailable)
		}
		store.away.Store(false)
		if err := b.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if done, err := b.Import(t.Context(), "file", seed()); err != nil || !done {
			t.Errorf("the file was imported: %v, %v", done, err)
		}
	})
}

// A log that no longer reaches back, or ends before what was read (a database put
// back from a backup), is answered by the whole.
func TestLostLogResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, mem := seeded(t)
		store := &faulty{Store: mem}
		l := newListener(t)
		b := open(t, store, func(c *Config) { c.Listener = l })
		defer run(t, b)()
		synctest.Wait()

		store.compacted.Store(6)
		edit(t, open(t, mem), 1, 5)
		time.Sleep(pollEvery)
		if revision, told, resets := l.seen(DomainDefault); revision != 6 || told != 0 || resets != 2 {
			t.Errorf("after a gap: revision %d, %d changes, %d resets; want 6, 0, 2", revision, told, resets)
		}

		older := memstore.New()
		if _, err := open(t, older).Import(t.Context(), "file", seed()); err != nil {
			t.Fatal(err)
		}
		store.compacted.Store(0)
		store.restored.Store(older)
		time.Sleep(5 * time.Second)
		if revision, _, resets := l.seen(DomainDefault); revision != 1 || resets != 3 {
			t.Errorf("after a restore: revision %d, %d resets; want 1, 3", revision, resets)
		}
	})
}

// What the store should never have had, and has (written by hand, or by another
// release), is named in the log and keeps its last good version, or is left out at a
// start; all else goes on, and when it is mended nothing is missing.
func TestFaultInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, mem := seeded(t)
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil)) // one for both books: its handler locks the buffer
		withLog := func(c *Config) { c.Logger = logger }
		follower := open(t, mem, withLog)
		stop := run(t, follower)
		bad := withVersion(bucket("growth-global", "growth", 100, 1), 2)
		if _, err := mem.Write(t.Context(), func(ctx context.Context, tx ledger.Tx) error {
			return tx.Append(ctx, &ledger.Entry{Domain: DomainDefault, Change: putRule(bad), Version: 2, Action: ledger.ActionPut, Author: "by hand"})
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pollEvery)
		starter := open(t, mem, withLog)
		stopStarter := run(t, starter)
		for b, want := range map[*Book]int{follower: 2, starter: 1} {
			if rules, _ := b.Rules(""); len(rules.Rules()) != want || rules.Revision() != 2 {
				t.Errorf("%d rules at revision %d, want %d at 2", len(rules.Rules()), rules.Revision(), want)
			}
			put(t, b, bucket(fmt.Sprintf("new-%d", want), "free", 1, 20), 0)
		}
		put(t, starter, bucket("growth-global", "growth", 100, 300), 2)
		time.Sleep(pollEvery)
		for _, b := range []*Book{follower, starter} {
			rules, _ := b.Rules("")
			if set := rules.Source(); len(set.GetRules()) != 4 || len(set.GetOverrides()) != 1 || rules.Revision() != 5 {
				t.Errorf("mended: %v", set)
			}
		}
		stop()
		stopStarter()
		if !strings.Contains(log.String(), "growth-global") || strings.Count(log.String(), "have faults") < 2 {
			t.Errorf("the log does not name the fault:\n%s", &log)
		}
	})
}

// Domains are bounded, since each costs every instance an index; those that are
// there can be written to at the bound.
func TestDomainsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := seeded(t)
		defer run(t, b)()
		create := func(i int, plan string) error {
			synctest.Wait()
			_, err := b.CreatePlan(t.Context(), "ann", &rulesv1.CreatePlanRequest{Domain: fmt.Sprintf("d%d", i), Plan: &rulesv1.Plan{Id: plan}})
			return err
		}
		for i := range domainsMax - 1 {
			if err := create(i, "free"); err != nil {
				t.Fatal(err)
			}
		}
		refusedWith(t, create(domainsMax, "free"), CodeBadRequest)
		if err := create(0, "growth"); err != nil {
			t.Error(err)
		}
	})
}

// An idle book asks the store about once a second, and hints for nothing cause no
// busy loop.
func TestIdleBookIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, mem := seeded(t)
		store := &faulty{Store: mem}
		defer run(t, open(t, store))()
		synctest.Wait()
		before := store.reads.Load()
		time.Sleep(time.Minute)
		if reads := store.reads.Load() - before; reads < 59 || reads > 61 {
			t.Errorf("%d reads in a minute without changes, want 60", reads)
		}
	})
}

// What a write is checked against is what is committed, though this instance has
// not seen it: here it never follows at all.
func TestWriteCatchesUp(t *testing.T) {
	behind, store := seeded(t)
	ahead := open(t, store)
	if _, err := ahead.CreatePlan(t.Context(), "ann", &rulesv1.CreatePlanRequest{Plan: &rulesv1.Plan{Id: "gold"}}); err != nil {
		t.Fatal(err)
	}
	put(t, behind, bucket("gold-global", "gold", 1, 20), 0)
	if _, err := ahead.DeleteRule(t.Context(), "ann", &rulesv1.DeleteRuleRequest{Id: "gold-global", Write: at(1)}); err != nil {
		t.Fatal(err)
	}
	if _, err := behind.DeletePlan(t.Context(), "ann", &rulesv1.DeletePlanRequest{Id: "gold"}); err != nil {
		t.Error(err)
	}
	_, err := ahead.PutRule(t.Context(), "ann", &rulesv1.PutRuleRequest{Rule: bucket("gold-global", "gold", 1, 20), Write: at(0)})
	mustSay(t, refusedWith(t, err, CodeInvalidRule), "rule.plan", `"gold"`, "want the id of one of the plans")
}
