package storetest

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// What an ask hands back is there for its own need, never above full, and
// counts even if the ask is refused.
func gives(b *bench) {
	r, other := Bucket("r", 10, 20), Bucket("other", 1, 5)
	at := b.take(need(r, 20), need(other, 5)).At
	back := need(r, 3)
	back.Give, back.GivenFrom = 4, at
	b.expect("4 back, 3 needed", b.take(back), true, store.Outcome{Granted: 3, Remaining: 1, Reset: 1900 * time.Millisecond})
	b.expect("refused by the other", b.take(give(r, 2, at), need(other, 1)), false,
		store.Outcome{Remaining: 3, Reset: 1700 * time.Millisecond},
		store.Outcome{Short: true, Retry: time.Second, Reset: 5 * time.Second})
	b.expectLeft("the gift stays", []*limit.Rule{r}, 3)
	b.take(give(r, 1000, at))
	b.expectLeft("never above full", []*limit.Rule{r}, 20)
}

// A give is ignored where the counter was last written before the grant, is
// gone, or is another window's: it would make tokens.
func staleGives(b *bench) {
	r, w := Bucket("r", 0.001, 20), Window("w", 10, time.Minute)
	b.take(need(r, 10), need(w, 10))
	b.take(give(r, 5, b.now+time.Second))
	b.expectLeft("a grant that the counter has not seen", []*limit.Rule{r}, 10)
	granted := b.now
	b.advance(time.Minute)
	b.take(need(w, 4))
	b.take(give(w, 4, granted))
	b.expectLeft("the last window's count", []*limit.Rule{w}, 6)
	unknown := Window("unknown", 10, time.Minute)
	b.take(give(unknown, 5, b.now))
	b.expectLeft("a counter that never was", []*limit.Rule{unknown}, 10)
}

// An ask of gives alone always succeeds, also where nothing is left.
func givesAlone(b *bench) {
	r, w := Bucket("r", 1, 2), Window("w", 5, time.Minute)
	b.take(need(r, 2), need(w, 5))
	b.expect("gives", b.take(give(r, 1, b.now), give(w, 2, b.now)), true,
		store.Outcome{Remaining: 1, Reset: time.Second},
		store.Outcome{Remaining: 2, Reset: time.Minute})
}
