package limiter

import (
	"testing"

	"github.com/shiplane/limits/libs/store/storetest"
)

// What waits for the store is bounded; what finds no room is counted.
func TestOutboxIsBounded(t *testing.T) {
	out := outbox{book: &book{}}
	r := storetest.Bucket("r", 1, 10)
	for range errandsMax + 7 {
		out.giveBack(storetest.Subject(t, r.Kind, "acme"), &state{rule: r, limit: r.Limit}, 1)
	}
	out.giveBack(storetest.Subject(t, r.Kind, "acme"), &state{rule: r, limit: r.Limit}, 0)
	if n, dropped := len(out.take()), out.dropped.Load(); n != errandsMax || dropped != 7 {
		t.Errorf("%d wait and %d were dropped, want %d and 7", n, dropped, errandsMax)
	}
	if lost := out.book.of(r).lost.Load(); lost != 7 {
		t.Errorf("%d tokens are counted as lost, want 7", lost)
	}
	if out.waiting.Load() != 0 || len(out.take()) != 0 {
		t.Error("what was taken is still there")
	}
}

// A tally says how many of its requests the rule would have refused.
func TestTally(t *testing.T) {
	var sum tally
	for range 4 {
		sum.add(tally{tokens: 10, requests: 1})
	}
	if got := sum.take().short(25); got != 2 { // 15 of 40 tokens were not there: 1.5 requests
		t.Errorf("25 of 40 tokens granted to 4 requests: %d short, want 2", got)
	}
	if sum != (tally{}) || sum.short(0) != 0 {
		t.Errorf("an emptied tally holds %+v", sum)
	}
}
