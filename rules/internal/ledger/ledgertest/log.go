package ledgertest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Since never tears a revision apart: it ends with the first one that reaches the
// number asked for.
func sinceWholeRevisions(b *bench) {
	b.put(plan("a"))
	b.put(plan("b"), plan("c"), plan("d"))
	b.put(plan("e"))
	for _, c := range []struct {
		after int64
		most  int
		want  string
	}{
		{0, 1, "a"}, {0, 2, "abcd"}, {0, 4, "abcd"}, {0, 5, "abcde"}, {0, 100, "abcde"},
		{1, 1, "bcd"}, {1, 0, "bcd"}, {2, 1, "e"}, {3, 1, ""},
	} {
		got := ""
		for _, e := range must(b.Since(b.ctx(), c.after, c.most))(b) {
			got += ledger.ItemOf(e.Change).ID
		}
		if got != c.want {
			b.Errorf("at most %d after %d: %q, want %q", c.most, c.after, got, c.want)
		}
	}
}

// Of what comes after a revision that does not exist nobody knows: an older backup was
// restored, and the reader has to begin anew.
func sinceBeyond(b *bench) {
	b.put(plan("a"))
	if _, err := b.Since(b.ctx(), 2, 10); !errors.Is(err, ledger.ErrCompacted) {
		b.Errorf("%v, want %v", err, ledger.ErrCompacted)
	}
}

// A write by one instance ends the Wait of another, a revision that is there already
// ends it at once, and the end of the context ends it with its error.
func waitIsWoken(b *bench) {
	other := b.open()
	ctx, cancel := context.WithTimeout(b.ctx(), patience)
	defer cancel()
	for after := range int64(3) {
		woken := make(chan error, 1)
		go func() { woken <- waitFor(ctx, other, after) }()
		b.put(plan("a"))
		if err := <-woken; err != nil {
			b.Fatalf("Wait after %d: %v", after, err)
		}
	}
	if err := waitFor(ctx, other, 0); err != nil {
		b.Errorf("Wait for what is there: %v", err)
	}
	cancel()
	if err := waitFor(ctx, other, 1_000_000); !errors.Is(err, context.Canceled) {
		b.Errorf("Wait until the context ends: %v, want %v", err, context.Canceled)
	}
}

// waitFor waits until there is a revision after one, by hints alone. While none come
// yet (the listener connects) it tries again.
func waitFor(ctx context.Context, s ledger.Store, after int64) error {
	for {
		err := s.Wait(ctx, after)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, ledger.ErrNoHints) {
			return err
		}
		if head, err := s.Head(ctx); err != nil || head > after {
			return err
		}
	}
}

// lastVersion is Tx.LastVersion.
func (b *bench) lastVersion(kind rulesv1.Kind, id string) (version int64) {
	b.Helper()
	_, err := b.Write(b.ctx(), func(ctx context.Context, tx ledger.Tx) (err error) {
		version, err = tx.LastVersion(ctx, domain, kind, id)
		return err
	})
	return must(version, err)(b)
}

// An id that is used again goes on with the version after its last one, that of its
// tombstone and of a candidate that was given up included.
func versionsGoOn(b *bench) {
	want := func(kind rulesv1.Kind, id string, version int64) {
		b.Helper()
		if got := b.lastVersion(kind, id); got != version {
			b.Errorf("the last version of %s %s is %d, want %d", kind, id, got, version)
		}
	}
	want(kindRule, "r", 0)
	b.put(rule("r", 1), route("r", 7))
	want(kindRule, "r", 1)
	want(kindRoute, "r", 7)
	b.write(gone(kindRule, "r", 2), gone(kindRoute, "r", 8))
	want(kindRule, "r", 2)
	want(kindRoute, "r", 8)
	b.put(rule("r", 3))
	b.put(candidate("r", 4, rulesv1.Stage_STAGE_SHADOW))
	b.write(gone(kindCandidate, "r", 4))
	want(kindRule, "r", 4)
	want(kindRule, "other", 0)
	_, err := b.Write(b.ctx(), func(ctx context.Context, tx ledger.Tx) error {
		b.same("version 1", must(tx.Version(ctx, domain, "r", 1))(b), ruleOf("r", 1))
		b.same("version 3", must(tx.Version(ctx, domain, "r", 3))(b), ruleOf("r", 3))
		for _, version := range []int64{0, 2, 4, 5} { // a tombstone, a candidate, none
			if r, err := tx.Version(ctx, domain, "r", version); !errors.Is(err, ledger.ErrNotFound) {
				b.Errorf("version %d: %v, %v, want %v", version, r, err, ledger.ErrNotFound)
			}
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
}

// A version is one content for ever.
func usedVersions(b *bench) {
	b.put(rule("r", 1), route("r", 1))
	b.put(rule("r", 2))
	b.refused("the version in force again", entry(rule("r", 2)))
	b.refused("an earlier version", entry(rule("r", 1)))
	b.refused("of a route", entry(route("r", 1)))
	b.refused("a tombstone's", gone(kindRule, "r", 2))
	b.write(gone(kindRule, "r", 3))
	b.refused("that of the tombstone", entry(rule("r", 3)))
}

// No item names one that will not be there after the write, in whatever order its
// entries stand.
func references(b *bench) {
	b.refused("a rule of an unknown plan", entry(rule("r", 1, ofPlan("p"))))
	b.refused("a rule of an unknown route", entry(rule("r", 1, ofRouteC)))
	b.refused("a candidate of an unknown plan", entry(&rulesv1.Change{Item: &rulesv1.Change_Candidate{Candidate: &rulesv1.Candidate{
		Rule: ruleOf("r", 1, ofPlan("p")), Stage: rulesv1.Stage_STAGE_SHADOW,
	}}}))
	b.refused("an override of an unknown rule", entry(override("o", "r", "acct")))
	b.refused("deletes what is not there", gone(kindOverride, "o", 0))
	b.refused("deletes a plan that is not there", gone(kindPlan, "p", 0))
	b.refused("deletes a candidate that is not there", gone(kindCandidate, "r", 1))
	b.put(override("o", "r", "acct"), rule("r", 1, ofPlan("p"), ofRouteC), plan("p"), route("c", 1),
		rule("stranger", 1, ofPlan("anonymous"), func(r *rulesv1.Rule) { r.Identity = rulesv1.Identity_IDENTITY_IP }))
	b.refused("deletes a plan in use", gone(kindPlan, "p", 0))
	b.refused("deletes a route in use", gone(kindRoute, "c", 2))
	b.refused("deletes a rule with an override", gone(kindRule, "r", 2))
	b.write(gone(kindPlan, "p", 0), gone(kindRoute, "c", 2), gone(kindRule, "r", 2), gone(kindOverride, "o", 0))
	state := must(b.Snapshot(b.ctx()))(b)
	if d := state.Domains[domain]; len(d.GetPlans())+len(d.GetRoutes())+len(d.GetOverrides()) != 0 || len(d.GetRules()) != 1 || d.GetRevision() != 2 {
		b.Errorf("left is %v", d)
	}
}

// What no store can keep is refused before it is tried, with the field's name.
func malformed(b *bench) {
	long := strings.Repeat("x", 1024)
	for _, c := range []struct {
		name, field string
		entry       *ledger.Entry
	}{
		{"nothing", "change", &ledger.Entry{Domain: domain}},
		{"an empty id", "id", entry(plan(""))},
		{"an id of 1 KB", "id", entry(plan(long))},
		{"SQL in an id", "id", entry(plan("a'; DROP TABLE rules; --"))},
		{"no such domain", "domain", &ledger.Entry{Domain: "Public API", Change: plan("a")}},
		{"NUL in a text", "change.override.reason", edited("o", func(o *rulesv1.Override) { o.Reason = "a\x00b" })},
		{"NUL in a key", "change.override.key", edited("o", func(o *rulesv1.Override) { o.Key = "a\x00b" })},
		{"no UTF-8", "change.override.key", edited("o", func(o *rulesv1.Override) { o.Key = "a\xffb" })},
		{"a rate that is no number", "change.override.rate", edited("o", func(o *rulesv1.Override) { o.Rate = new(math.NaN()) })},
		{"an infinite rate", "change.rule.rate", entry(rule("r", 1, func(r *rulesv1.Rule) { r.Rate = new(math.Inf(1)) }))},
		{"an unknown algorithm", "change.rule.algorithm", entry(rule("r", 1, func(r *rulesv1.Rule) { r.Algorithm = 99 }))},
		{"a time after year 9999", "change.override.expires_at", edited("o", func(o *rulesv1.Override) { o.ExpiresAt = &timestamppb.Timestamp{Seconds: 1 << 60} })},
		{"a window of 100,000 years", "change.override.window", edited("o", func(o *rulesv1.Override) { o.Window = &durationpb.Duration{Seconds: 1 << 60} })},
		{"NUL in a list", "change.route.match[1]", entry(&rulesv1.Change{Item: &rulesv1.Change_Route{Route: &rulesv1.Route{Id: "c", Version: 1, Match: []string{"/a", "/\x00"}}}})},
		{"a why of more than 1 KB", "why", &ledger.Entry{Domain: domain, Change: plan("a"), Why: long + "x"}},
		{"an author of more than 128 bytes", "author", &ledger.Entry{Domain: domain, Change: plan("a"), Author: long}},
		{"no version", "version", entry(rule("r", 0))},
		{"another version than the item's", "version", &ledger.Entry{Domain: domain, Change: rule("r", 1), Version: 2}},
		{"a version of a plan", "version", &ledger.Entry{Domain: domain, Change: plan("a"), Version: 1}},
		{"no stage", "stage", entry(candidate("r", 1, rulesv1.Stage_STAGE_UNSPECIFIED))},
		{"before is another item", "before", &ledger.Entry{Domain: domain, Change: plan("a"), Before: plan("b")}},
	} {
		_, err := write(b.ctx(), b.Store, entry(plan("fine")), c.entry)
		if !errors.Is(err, ledger.ErrRefused) || !strings.Contains(err.Error(), c.field) {
			b.Errorf("%s: %v, want %v and %q", c.name, err, ledger.ErrRefused, c.field)
		}
	}
	b.refused("two entries for an item", entry(plan("a")), entry(plan("a")))
	if head := b.head(); head != 0 {
		b.Errorf("the head is %d", head)
	}
}

func edited(id string, edit func(*rulesv1.Override)) *ledger.Entry {
	o := override(id, "r", "acct")
	edit(o.GetOverride())
	return entry(o)
}

// full are entries that use all fields, at their edges.
func full() []*ledger.Entry {
	text := "Ünï©ödé \u2028 '\"\\; DROP TABLE rules; -- %s $1 \t\r\n{}"
	awkward := override("o-awkward", "r-log", strings.Repeat("'", 1000))
	awkward.GetOverride().Author, awkward.GetOverride().Reason, awkward.GetOverride().Deny = text, text, false
	awkward.GetOverride().Limit, awkward.GetOverride().Window = new(int64(1000)), durationpb.New(31*24*time.Hour)
	awkward.GetOverride().StartsAt = timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC))
	awkward.GetOverride().ExpiresAt = timestamppb.New(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
	fast := edited("o-fast", func(o *rulesv1.Override) {
		o.Rule, o.Deny, o.Rate, o.Burst = "r", false, new(0.1+0.2), new(int64(1_000_000_000))
	})
	entries := []*ledger.Entry{
		entry(plan("p")), entry(route("c", 9007199254740993)), entry(rule("r", 9007199254740993, ofPlan("p"), ofRouteC)),
		entry(rule("r-least", 1, func(r *rulesv1.Rule) {
			r.Rate, r.Burst, r.Mode, r.FailMode = new(1.0/86400/366), new(int64(1)), rulesv1.Mode_MODE_SHADOW, rulesv1.FailMode_FAIL_MODE_CLOSED
		})),
		entry(rule("r-most", 1, func(r *rulesv1.Rule) {
			r.Rate, r.Mode, r.FailMode, r.Check = new(1e7), rulesv1.Mode_MODE_ENFORCE, rulesv1.FailMode_FAIL_MODE_OPEN, rulesv1.Check_CHECK_BEFORE
		})),
		entry(rule("r-window", 1, window, func(r *rulesv1.Rule) { r.Counts, r.Check = rulesv1.Counts_COUNTS_COST, rulesv1.Check_CHECK_AFTER })),
		entry(rule("r-log", 1, window, func(r *rulesv1.Rule) {
			r.Algorithm, r.Limit, r.Window = rulesv1.Algorithm_ALGORITHM_SLIDING_LOG, new(int64(1000)), durationpb.New(time.Second)
			r.Identity, r.Counts = rulesv1.Identity_IDENTITY_USER, rulesv1.Counts_COUNTS_REQUESTS
		})),
		entry(awkward), fast, entry(override("o-deny", "r", "acct")),
		entry(candidate("r-new", 3, rulesv1.Stage_STAGE_CANARY)),
	}
	entries[2].Before = rule("r", 5, ofPlan("p"))
	entries[2].Why, entries[2].Author = text, text
	return entries
}

// Everything that an entry says comes back, to the last bit.
func entriesComeBack(b *bench) {
	var want []ledger.Entry
	for _, e := range full() {
		want = append(want, *e)
	}
	revision := b.write(full()...)
	got := must(b.Since(b.ctx(), 0, 100))(b)
	b.same("the entries", rest(got), want)
	for i, e := range got {
		if e.Revision != revision || e.Ordinal != i || !e.At.Equal(got[0].At) || e.At.Location() != time.UTC || e.At.IsZero() {
			b.Errorf("entry %d is %d.%d of %v", i, e.Revision, e.Ordinal, e.At)
		}
	}
	latest := must(b.History(b.ctx(), ledger.HistoryQuery{}, ledger.Position{}, 100))(b)
	slices.Reverse(latest)
	b.same("the history", latest, got)
	fine := edited("o-fine", func(o *rulesv1.Override) {
		o.ExpiresAt = timestamppb.New(time.Date(2030, 1, 1, 0, 0, 0, 123456789, time.UTC))
	})
	fine.Change.GetOverride().Rule = "r"
	b.write(fine)
	if nanos := fine.Change.GetOverride().GetExpiresAt().GetNanos(); nanos != 123456000 {
		b.Errorf("Append left %d ns, want them cut to 123456000", nanos)
	}
	b.same("a fine time", must(b.Item(b.ctx(), domain, kindOverride, "o-fine"))(b), fine.Change)
}

// What a caller does with its messages, before or after, changes nothing that is kept.
func messagesAreTheCallers(b *bench) {
	e := entry(rule("r", 1))
	_, err := b.Write(b.ctx(), func(ctx context.Context, tx ledger.Tx) error {
		err := tx.Append(ctx, e)
		e.Change.GetRule().Burst = new(int64(666))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	want := rule("r", 1)
	spoil := func(what string, got *rulesv1.Change) {
		b.Helper()
		b.same(what, got, want)
		proto.Reset(got)
	}
	for range 2 {
		spoil("Since", must(b.Since(b.ctx(), 0, 1))(b)[0].Change)
		spoil("Item", must(b.Item(b.ctx(), domain, kindRule, "r"))(b))
		rules, _, err := b.Rules(b.ctx(), domain, ledger.RuleQuery{}, "", 1)
		b.same("Rules", must(rules, err)(b)[0], want.GetRule())
		proto.Reset(rules[0])
		whole := must(b.Snapshot(b.ctx()))(b).Domains[domain]
		b.same("Snapshot", whole.GetRules()[0], want.GetRule())
		proto.Reset(whole.GetRules()[0])
	}
}

// The history goes from the last entry to the first, page by page, of what is asked
// for; a rule's has its candidates.
func history(b *bench) {
	other := entry(plan("p"))
	other.Domain, other.Author = "internal", "bob"
	b.write(entry(plan("p")), entry(rule("r", 1)))
	b.write(other)
	b.put(candidate("r", 2, rulesv1.Stage_STAGE_SHADOW), route("r", 1))
	b.write(gone(kindCandidate, "r", 2), entry(rule("r", 2)))
	for _, c := range []struct {
		name string
		q    ledger.HistoryQuery
		want []string
	}{
		{"all", ledger.HistoryQuery{}, []string{"4.1 KIND_RULE r", "4.0 KIND_CANDIDATE r", "3.1 KIND_ROUTE r", "3.0 KIND_CANDIDATE r", "2.0 KIND_PLAN p", "1.1 KIND_RULE r", "1.0 KIND_PLAN p"}},
		{"a rule", ledger.HistoryQuery{Domain: domain, Kind: kindRule, ID: "r"}, []string{"4.1 KIND_RULE r", "4.0 KIND_CANDIDATE r", "3.0 KIND_CANDIDATE r", "1.1 KIND_RULE r"}},
		{"candidates", ledger.HistoryQuery{Kind: kindCandidate}, []string{"4.0 KIND_CANDIDATE r", "3.0 KIND_CANDIDATE r"}},
		{"a route", ledger.HistoryQuery{Kind: kindRoute, ID: "r"}, []string{"3.1 KIND_ROUTE r"}},
		{"a domain", ledger.HistoryQuery{Domain: "internal"}, []string{"2.0 KIND_PLAN p"}},
		{"an author", ledger.HistoryQuery{Author: "bob"}, []string{"2.0 KIND_PLAN p"}},
		{"nobody", ledger.HistoryQuery{Author: "bo"}, nil},
	} {
		for _, most := range []int{1, 2, 3, 100} {
			var got []ledger.Entry
			for before := (ledger.Position{}); ; {
				page := must(b.History(b.ctx(), c.q, before, most))(b)
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
				if len(page) > most || len(got) > len(c.want) {
					b.Fatalf("%s: a page of %d has %d; so far %q", c.name, most, len(page), ids(got))
				}
				last := page[len(page)-1]
				before = ledger.Position{Revision: last.Revision, Ordinal: last.Ordinal}
			}
			b.same(c.name, ids(got), c.want)
		}
	}
}
