package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// An edit of rate, burst, count or share neither refills a counter nor makes
// tokens, and a rollback restores service at once.
func edits(b *bench) {
	at := func(e store.Entry, l limit.Limit) store.Entry { e.Limit = l; return e }
	r := Bucket("r", 1000, 2000)
	b.take(need(r, 2000))
	slow := limit.Limit{Rate: 10, Burst: 2000}
	b.expect("drained, then edited to 10/s", b.take(at(need(r, 1), slow)), false,
		store.Outcome{Short: true, Retry: 100 * time.Millisecond, Reset: 200 * time.Second})
	b.advance(time.Second)
	b.expect("a second later", b.take(at(need(r, 10), slow)), true, store.Outcome{Granted: 10, Reset: 200 * time.Second})
	b.advance(time.Millisecond)
	b.expect("rolled back", b.take(need(r, 1)), true, store.Outcome{Granted: 1, Reset: 2 * time.Second})

	s := Bucket("s", 10, 100)
	b.take(need(s, 40))
	half := limit.Share(500_000).Of(s.Limit, 1)
	b.expect("the share halves: clamped", b.take(at(need(s, 1), half)), true, store.Outcome{Granted: 1, Remaining: 49, Reset: 200 * time.Millisecond})
	b.expectLeft("and back: not refilled", []*limit.Rule{s}, 49)

	w := Window("w", 10, time.Hour)
	b.take(need(w, 8))
	less := limit.Limit{Count: 5, Window: time.Hour}
	b.expect("counted above the new count", b.take(at(need(w, 1), less)), false,
		store.Outcome{Short: true, Retry: b.rest(time.Hour), Reset: b.rest(time.Hour)})
	b.expectLeft("rolled back", []*limit.Rule{w}, 2)
}

func (b *bench) rest(length time.Duration) time.Duration { return length - b.now%length }

// A clock that steps back refuses nobody who has tokens, makes none, and
// refilling goes on at once, from an empty bucket too.
func clockStepsBack(b *bench) {
	r, w, log := Bucket("r", 10, 20), Window("w", 10, 24*time.Hour), Log("log", 2, time.Minute)
	rules := []*limit.Rule{r, w, log}
	b.take(need(r, 20), need(w, 4), need(log, 1))
	b.advance(-10 * time.Second)
	if got := b.take(need(r, 1)); got.Allowed || got.Outcomes[0].Retry != 100*time.Millisecond {
		b.Fatalf("an empty bucket right after the step: %+v", got)
	}
	b.expectLeft("right after the step", rules, 0, 6, 1)
	b.advance(time.Second)
	b.expectLeft("one second after the step", rules, 10, 6, 1)
	b.take(need(r, 1)) // writes what has been refilled
	b.advance(-24 * time.Hour)
	b.expectLeft("a step into the day before", rules, 9, 6, 1)
	b.advance(time.Minute)
	b.expectLeft("a minute later the log is empty", rules, 20, 6, 2)
	b.advance(24 * time.Hour)
	b.expectLeft("and forth again", rules, 20, 10, 2)
}

// Years of idleness leave a full counter, no more.
func idleness(b *bench) {
	r, w := Bucket("r", 1e6, 2e6), Window("w", 10, time.Second)
	b.take(need(r, 2e6), need(w, 10))
	b.advance(30 * 365 * 24 * time.Hour)
	b.expectLeft("30 years later", []*limit.Rule{r, w}, 2e6, 10)
}

// Subjects of other kinds and domains, and ids that look alike, share nothing.
func apart(b *bench) {
	r := Bucket("r", 0.001, 1)
	foreign, err := limit.NewSubject("other", limit.Account, "a_b")
	if err != nil {
		b.Fatal(err)
	}
	long := fmt.Sprintf("%01000000d", 7)
	seen := map[string]bool{}
	for _, s := range []limit.Subject{
		Subject(b, limit.Account, "a_b"), Subject(b, limit.User, "a_b"), Subject(b, limit.IP, "a_b"), foreign,
		Subject(b, limit.User, "{a_b}"), Subject(b, limit.User, "a_b\x00"), Subject(b, limit.User, "a b"), Subject(b, limit.User, "a%5Fb"),
		Subject(b, limit.User, "\xff"), Subject(b, limit.User, "\xfe"), Subject(b, limit.User, "\ufffd"), Subject(b, limit.User, "}{"),
		Subject(b, limit.User, long), Subject(b, limit.User, long+"x"), Subject(b, limit.User, long[:64]),
		Subject(b, limit.User, Subject(b, limit.User, long).ID()), // the bytes of a long id's hash, as an id
	} {
		b.subject = s
		if got := b.take(need(r, 1)); !got.Allowed {
			b.Errorf("%.80s shares a counter with one of %v", s, seen)
		}
		seen[s.String()] = true
		if got := b.take(need(r, 1)); got.Allowed {
			b.Errorf("%.80s was admitted twice", s)
		}
	}
}

// A subject with more rules than an ask holds keeps each of them apart, and
// short-lived ones do not push long-lived ones out.
func manyRules(b *bench) {
	quota := Window("quota", 100, 24*time.Hour)
	b.take(need(quota, 30))
	for i := range 3 * store.EntriesMax {
		r := Bucket(fmt.Sprint("rule", i), 0.1, 1)
		if got := b.take(need(r, 1)); !got.Allowed {
			b.Fatalf("rule %d began empty", i)
		}
	}
	for i := range 3 * store.EntriesMax {
		if got := b.take(need(Bucket(fmt.Sprint("rule", i), 0.1, 1), 1)); got.Allowed {
			b.Fatalf("rule %d was refilled", i)
		}
	}
	b.advance(time.Minute)
	for i := range 3 * store.EntriesMax {
		b.take(need(Bucket(fmt.Sprint("later", i), 0.1, 1), 1))
	}
	b.expectLeft("the quota", []*limit.Rule{quota}, 70)
}

// A malformed ask is an error that names what is wrong, and charges nothing.
func malformed(b *bench) {
	r, log := Bucket("r", 1, 10), Log("log", 5, time.Minute)
	both := need(log, 1)
	both.Give = 1
	for _, c := range []struct {
		name    string
		subject limit.Subject
		entries []store.Entry
		want    string
	}{
		{"no subject", limit.Subject{}, []store.Entry{need(r, 1)}, "invalid ask: no subject"},
		{"no entries", b.subject, nil, "invalid ask: 0 entries, want 1 to 12"},
		{"negative need", b.subject, []store.Entry{need(r, 1), need(log, -1)}, "invalid ask: rule log: need is -1, want 0 to 1000000000000"},
		{"negative give", b.subject, []store.Entry{give(r, -5, 0)}, "invalid ask: rule r: give is -5, want 0 to 1000000000000"},
		{"want below need", b.subject, []store.Entry{want(r, 3, 2)}, "invalid ask: rule r: want is 2, want need (3) to 1000000000000"},
		{"the same rule twice", b.subject, []store.Entry{need(r, 1), need(r, 1)}, fmt.Sprintf("invalid ask: rules r and r share tag %#x", r.Tag)},
		{"a log both ways", b.subject, []store.Entry{both}, "invalid ask: rule log: a log's entry gives 1 and wants 1, want one of them"},
		{"an empty limit", b.subject, []store.Entry{{Rule: r, Need: 1, Want: 1}}, "invalid ask: rule r: limit 0/s burst 0 allows nothing"},
	} {
		var result store.Result
		err := b.Store.Take(context.Background(), &store.Ask{Subject: c.subject, Entries: c.entries}, &result)
		if !errors.Is(err, store.ErrInvalid) || err.Error() != c.want {
			b.Errorf("%s: error %q, want %q", c.name, err, c.want)
		}
	}
	b.expectLeft("afterwards", []*limit.Rule{r, log}, 10, 5)
}

// Of many at once, exactly as many are admitted as there are tokens, whatever
// the mix of costs leaves over.
func concurrent(b *bench) {
	r, w := Bucket("r", 0.001, 1000), Window("w", 700, 24*time.Hour)
	var admitted atomic.Int64
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			cost := int64(worker%3 + 1)
			for range 100 {
				var result store.Result
				if err := b.Store.Take(context.Background(), &store.Ask{Subject: b.subject, Entries: []store.Entry{need(r, cost), need(w, cost)}}, &result); err != nil {
					b.Errorf("Take: %v", err)
					return
				}
				if result.Allowed {
					admitted.Add(cost)
				}
			}
		})
	}
	group.Wait()
	if got := admitted.Load(); got != 700 {
		b.Errorf("admitted %d of 700", got)
	}
	b.expectLeft("afterwards", []*limit.Rule{r, w}, 300, 0)
}
