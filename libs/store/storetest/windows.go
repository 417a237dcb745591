package storetest

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// A window of any length from a second to a day is full until its UTC-aligned
// end, by the store's clock, and not a microsecond longer.
func windows(b *bench) {
	for _, length := range []time.Duration{time.Second, time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour} {
		w := Window(fmt.Sprint("w", length), 3, length)
		b.advance(length - b.now%length + length/4)
		rest := length - length/4
		b.expect("the first two", b.take(need(w, 2)), true, store.Outcome{Granted: 2, Remaining: 1, Reset: rest})
		b.expect("two more", b.take(need(w, 2)), false, store.Outcome{Remaining: 1, Retry: rest, Reset: rest, Short: true})
		b.advance(rest - time.Microsecond)
		b.expect("a microsecond before the end", b.take(need(w, 2)), false,
			store.Outcome{Remaining: 1, Retry: time.Microsecond, Reset: time.Microsecond, Short: true})
		b.advance(time.Microsecond)
		b.expect("the next window", b.take(need(w, 2)), true, store.Outcome{Granted: 2, Remaining: 1, Reset: length})
	}
}

// A window grants what is wanted as far as it is there; a log what is needed.
func logsLendNothing(b *bench) {
	w, log := Window("w", 20, 24*time.Hour), Log("log", 50, time.Minute)
	if got := b.take(want(w, 1, 9), want(log, 1, 9)).Outcomes; got[0].Granted != 9 || got[1].Granted != 1 {
		b.Fatalf("9 wanted: granted %d by a window, want 9; by a log %d, want 1", got[0].Granted, got[1].Granted)
	}
	if got := b.take(want(w, 1, 90)).Outcomes; got[0].Granted != 11 {
		b.Fatalf("11 left, 90 wanted: granted %d, want 11", got[0].Granted)
	}
}

// A daily quota is not forgotten while its subject only uses short-lived buckets.
func quotaOutlives(b *bench) {
	quota, bucket := Window("quota", 100, 24*time.Hour), Bucket("b", 1000, 10)
	b.take(need(quota, 40), need(bucket, 1))
	for range 40 {
		b.advance(time.Minute)
		b.take(need(bucket, 1))
	}
	b.advance(10 * time.Hour)
	b.expectLeft("ten hours later", []*limit.Rule{quota}, 60)
}

// A log keeps accepted attempts only, so a client that keeps trying gets in as
// soon as the oldest is a window old.
func logs(b *bench) {
	log := Log("log", 3, time.Minute)
	attempt := func(member uint64) store.Result {
		e := need(log, 1)
		e.Member = member
		return b.take(e)
	}
	for i := range uint64(3) {
		b.expect("an attempt", attempt(i), true, store.Outcome{Granted: 1, Remaining: 2 - int64(i), Reset: time.Minute})
		b.advance(10 * time.Second)
	}
	for i := range uint64(30) {
		if got := attempt(100 + i); got.Allowed || got.Outcomes[0].Retry != 30*time.Second-time.Duration(i)*time.Second {
			b.Fatalf("attempt %d: %+v", i, got)
		}
		b.advance(time.Second)
	}
	b.expect("the first is a minute old", attempt(200), true, store.Outcome{Granted: 1, Reset: time.Minute})
}

// A log that counts cost counts it, and an attempt that is handed back is gone.
func logGives(b *bench) {
	log := Log("log", 10, time.Minute)
	e := need(log, 6)
	e.Member = 1
	at := b.take(e).At
	b.advance(time.Second)
	e.Need, e.Want, e.Member = 4, 4, 2
	b.take(e)
	e.Member = 3
	b.expect("4 more", b.take(e), false, store.Outcome{Short: true, Retry: 59 * time.Second, Reset: time.Minute})
	back := give(log, 6, at)
	back.Member = 1
	b.take(back)
	b.take(back)
	b.expectLeft("the first handed back, twice", []*limit.Rule{log}, 6)
}
