package exactness

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The replay finds an excess if, and only if, some window holds one: it agrees
// with looking at every window, whatever the history.
func TestReplayIsEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Int64Range(0, 2000).Draw(t, "rate"), rapid.Int64Range(1, 50).Draw(t, "burst")
		var events []Event
		for i := range rapid.IntRange(1, 40).Draw(t, "events") {
			at := time.Duration(rapid.IntRange(0, 100_000).Draw(t, "at")) * time.Microsecond
			events = append(events, Event{Bucket{0, i}, at, rapid.Int64Range(1, 20).Draw(t, "granted")})
		}
		Sort(events)
		var worst int64
		for i := range events {
			sum := int64(0)
			for _, e := range events[i:] {
				sum += e.N * micro
				worst = max(worst, sum-burst*micro-rate*(e.At-events[i].At).Microseconds())
			}
		}
		if got := Replay(rate, burst, events).Excess; got != worst {
			t.Fatalf("excess %d, every window says %d", got, worst)
		}
	})
}

// What is handed back may be granted again, but never makes a bucket more than
// full.
func TestReplayOfGivenTokens(t *testing.T) {
	at := func(second, n int64) Event { return Event{At: time.Duration(second) * time.Second, N: n} }
	for _, c := range []struct {
		name   string
		events []Event
		excess int64
	}{
		{"given and granted again", []Event{at(0, 10), at(0, -4), at(0, 4)}, 0},
		{"granted again, and one more", []Event{at(0, 10), at(0, -4), at(0, 5)}, micro},
		{"given to a full bucket", []Event{at(0, 5), at(5, -5), at(5, 11)}, micro},
		{"refilled", []Event{at(0, 10), at(3, 3), at(4, 1)}, 0},
	} {
		if v := Replay(1, 10, c.events); v.Excess != c.excess {
			t.Errorf("%s: excess %d, want %d", c.name, v.Excess, c.excess)
		}
	}
}
