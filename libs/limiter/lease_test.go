package limiter

import (
	"math"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store/storetest"
)

// demandKeep is the number that its comment says.
func TestDemandKeep(t *testing.T) {
	if want := math.Exp(-float64(demandSlot) / float64(demandFade)); demandKeep != want {
		t.Errorf("demandKeep is %v, want %v", demandKeep, want)
	}
}

// A steady demand is found after a few time constants, a single request is no
// demand until its slot closes, and what is long ago fades.
func TestDemand(t *testing.T) {
	var d demand
	d.add(0, 50)
	if got := d.rate(5 * time.Millisecond); got != 0 {
		t.Errorf("the running slot counts %v/s", got)
	}
	d = demand{}
	var now time.Duration
	for ; now < 3*time.Second; now += time.Millisecond {
		d.add(now, 2)
	}
	if got := d.rate(now); math.Abs(got-2000) > 10 {
		t.Errorf("after 3 s of 2,000/s the rate is %v", got)
	}
	if got := d.rate(now + 5*time.Second); got > 1 {
		t.Errorf("5 s later it still is %v", got)
	}
}

// A pod plans for no more than the limit's own rate, for half a second of it
// while every pod could take as much and leave half, and for 50 ms always.
func TestAhead(t *testing.T) {
	s := state{rule: storetest.Bucket("r", 1000, 2000), limit: limit.Limit{Rate: 1000, Burst: 2000}}
	for _, c := range []struct {
		what string
		rate float64 // demand
		left int64
		pods int
		want int64
	}{
		{"ample", 100, 2000, 5, 50},
		{"many pods", 100, 2000, 50, 20},
		{"empty", 100, 0, 50, 5},
		{"demand above the rate", 1e6, 1e6, 1, 500},
		{"one request in five seconds", 0.2, 2000, 50, 1},
		{"almost none", 0.1, 2000, 50, 0},
	} {
		s.demand, s.known.remaining = demand{avg: c.rate * demandSlot.Seconds()}, c.left
		if got := s.ahead(0, c.pods); got != c.want {
			t.Errorf("%s: %d ahead, want %d", c.what, got, c.want)
		}
	}
	s.rule, s.limit = storetest.Window("w", 10_000, 24*time.Hour), limit.Limit{Count: 10_000, Window: 24 * time.Hour}
	s.demand, s.known.remaining = demand{avg: 1000 * demandSlot.Seconds()}, 5050
	if got := s.ahead(0, 1); got != 50 {
		t.Errorf("a window with 5,050 left lends %d ahead, want 50", got)
	}
	s.rule, s.limit = storetest.Log("l", 100, time.Minute), limit.Limit{Count: 100, Window: time.Minute}
	if got := s.ahead(0, 1); got != 0 {
		t.Errorf("a log lends %d ahead", got)
	}
}

// A window's lease is void when its window ends, and what was taken from one
// window is not put back into the next.
func TestWindowLeaseEndsWithItsWindow(t *testing.T) {
	s := state{rule: storetest.Window("w", 10_000, time.Minute), counts: &counts{}}
	s.grant(0, time.Hour, 10, time.Hour, 30*time.Second)
	s.spend(1)
	if s.void(29 * time.Second); s.lease.held != 9 {
		t.Fatalf("before the end it holds %d, want 9", s.lease.held)
	}
	if s.void(30 * time.Second); s.lease.held != 0 {
		t.Fatalf("at the end it holds %d", s.lease.held)
	}
	s.grant(31*time.Second, time.Hour+time.Minute, 5, time.Hour+time.Minute, 90*time.Second)
	s.unspend(31*time.Second, 1, time.Hour)
	if s.lease.held != 5 {
		t.Errorf("the last window's token came back into this one: %d, want 5", s.lease.held)
	}
	// Spent at the window's last moment, taken back when it has ended.
	s.void(90 * time.Second)
	s.unspend(90*time.Second, 1, time.Hour+time.Minute)
	if s.lease.held != 0 {
		t.Errorf("an ended window's token lives on: %d, want 0", s.lease.held)
	}
	if lost := s.counts.lost.Load(); lost != 9+1+5+1 {
		t.Errorf("%d tokens are counted as lost, want all that ended with their windows, 16", lost)
	}
}
