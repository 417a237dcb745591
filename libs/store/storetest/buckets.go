package storetest

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// A request takes from every rule or from none.
func allOrNothing(b *bench) {
	account, route := Bucket("account", 10, 20), Bucket("route", 1, 2)
	b.expect("the first", b.take(need(account, 1), need(route, 1)), true,
		store.Outcome{Granted: 1, Remaining: 19, Reset: 100 * time.Millisecond},
		store.Outcome{Granted: 1, Remaining: 1, Reset: time.Second})
	b.expect("cost 2", b.take(need(account, 2), need(route, 2)), false,
		store.Outcome{Remaining: 19, Reset: 100 * time.Millisecond},
		store.Outcome{Remaining: 1, Reset: time.Second, Retry: time.Second, Short: true})
	b.expectLeft("after the refusal", []*limit.Rule{account, route}, 19, 1)
	b.expect("the route's last", b.take(need(account, 1), need(route, 1)), true,
		store.Outcome{Granted: 1, Remaining: 18, Reset: 200 * time.Millisecond},
		store.Outcome{Granted: 1, Remaining: 0, Reset: 2 * time.Second})
}

// However often a refused request is repeated, every counter refills as if it
// had not been sent: quota, log, bucket.
func refusalChangesNothing(b *bench) {
	empty, quota, log := Bucket("empty", 1, 1), Window("quota", 100, 24*time.Hour), Log("log", 5, time.Minute)
	rules := []*limit.Rule{empty, quota, log}
	b.take(need(empty, 1))
	for range 50 {
		b.advance(time.Millisecond)
		if got := b.take(need(empty, 1), need(quota, 1), need(log, 1)); got.Allowed {
			b.Fatalf("admitted: %+v", got)
		}
	}
	b.expectLeft("after 50 refusals in 50 ms", rules, 0, 100, 5)
	b.advance(950 * time.Millisecond)
	b.expectLeft("one second after the token was spent", rules, 1, 100, 5)
}

// A bucket refills at its rate, Retry is exact, and obeying it admits.
func refillAndRetry(b *bench) {
	r := Bucket("r", 10, 20)
	b.take(need(r, 20))
	b.advance(30 * time.Millisecond)
	b.expect("0.3 tokens", b.take(need(r, 1)), false,
		store.Outcome{Remaining: 0, Retry: 70 * time.Millisecond, Reset: 1970 * time.Millisecond, Short: true})
	b.advance(70*time.Millisecond - time.Microsecond)
	if got := b.take(need(r, 1)); got.Allowed || got.Outcomes[0].Retry != time.Microsecond {
		b.Fatalf("one microsecond early: %+v", got)
	}
	b.advance(time.Microsecond)
	b.expect("on time", b.take(need(r, 1)), true, store.Outcome{Granted: 1, Reset: 2 * time.Second})
}

// A cost above the limit's size is refused for ever, and says so: no time to
// retry after, beside a bucket that is full.
func never(b *bench) {
	bucket, window, log := Bucket("b", 10, 20), Window("w", 5, time.Minute), Log("l", 3, time.Minute)
	b.expect("costs above the sizes", b.take(need(bucket, 21), need(window, 6), need(log, 4)), false,
		store.Outcome{Remaining: 20, Never: true, Short: true},
		store.Outcome{Remaining: 5, Reset: time.Minute, Never: true, Short: true},
		store.Outcome{Remaining: 3, Never: true, Short: true})
	b.take(need(window, 5))
	if got := b.take(need(window, 100)); got.Allowed {
		b.Fatalf("5 of 5 used, then 100 more were admitted: %+v", got)
	}
	b.expect("costs equal to the sizes", b.take(need(bucket, 20), need(log, 3)), true,
		store.Outcome{Granted: 20, Reset: 2 * time.Second},
		store.Outcome{Granted: 3, Reset: time.Minute})
}

// Tokens are fractions: a rate that gives a third of a token a write loses nothing.
func fractions(b *bench) {
	r := Bucket("r", 1.0/3, 10)
	b.take(need(r, 10))
	for range 8 {
		b.advance(time.Second)
		b.take(give(r, 0, 0), need(Bucket("other", 10, 10), 1))
		b.take(want(r, 0, 0))
	}
	b.advance(time.Second + time.Microsecond)
	b.expectLeft("9 s at a third a second", []*limit.Rule{r}, 3)
	day := Bucket("day", 1.0/86400, 1)
	b.take(need(day, 1))
	b.advance(24*time.Hour - time.Millisecond)
	b.expectLeft("a millisecond before the day's token", []*limit.Rule{day}, 0)
	b.advance(2 * time.Millisecond)
	b.expectLeft("after a day", []*limit.Rule{day}, 1)
	fast := Bucket("fast", 1e6, 1000)
	b.take(need(fast, 1000))
	b.advance(7 * time.Microsecond)
	b.expectLeft("7 µs at 1,000,000/s", []*limit.Rule{fast}, 7)
}

// A shadow rule is evaluated and charged like any other where it holds the
// need, says where it does not, and changes no verdict in either case.
func shadow(b *bench) {
	hard, soft := Bucket("hard", 1, 3), Shadowed(Bucket("soft", 1, 1))
	b.take(need(soft, 1), need(hard, 1))
	b.expect("the shadow is empty", b.take(need(soft, 1), need(hard, 1)), true,
		store.Outcome{Short: true, Retry: time.Second, Reset: time.Second},
		store.Outcome{Granted: 1, Remaining: 1, Reset: 2 * time.Second})
	b.take(need(hard, 1))
	b.advance(999 * time.Millisecond)
	b.take(need(soft, 1), need(hard, 1)) // refused by hard
	b.advance(time.Millisecond)
	b.expectLeft("a refused request charges the shadow nothing", []*limit.Rule{soft}, 1)
	b.expect("a shadow alone", b.take(need(soft, 5)), true,
		store.Outcome{Remaining: 1, Short: true, Never: true})
	window, log := Shadowed(Window("w", 5, time.Minute)), Shadowed(Log("l", 3, time.Minute))
	b.expect("sums of charges", b.take(want(window, 0, 4), want(log, 0, 9), want(soft, 0, 9)), true,
		store.Outcome{Granted: 4, Remaining: 1, Reset: b.rest(time.Minute)},
		store.Outcome{Granted: 3, Reset: time.Minute},
		store.Outcome{Granted: 1, Reset: time.Second})
}

// What is granted is what is wanted, as far as it is there, and never less than
// what is needed.
func grants(b *bench) {
	r, other := Bucket("r", 10, 20), Bucket("other", 10, 3)
	b.expect("plenty", b.take(want(r, 1, 8), want(other, 1, 8)), true,
		store.Outcome{Granted: 8, Remaining: 12, Reset: 800 * time.Millisecond},
		store.Outcome{Granted: 3, Remaining: 0, Reset: 300 * time.Millisecond})
	b.expect("a wish without a need", b.take(want(r, 0, 100)), true,
		store.Outcome{Granted: 12, Remaining: 0, Reset: 2 * time.Second})
	b.advance(50 * time.Millisecond)
	b.expect("half a token", b.take(want(r, 0, 100)), true, store.Outcome{Reset: 1950 * time.Millisecond})
	b.expect("a need that is not there", b.take(want(r, 1, 100)), false,
		store.Outcome{Retry: 50 * time.Millisecond, Reset: 1950 * time.Millisecond, Short: true})
}
