package breaker

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// bench is a breaker under test: random is 0.5, so that a probe is due after
// exactly a second.
func newBreaker() (*Breaker, *[]string) {
	var changes []string
	b := &Breaker{Random: func() float64 { return 0.5 }}
	b.Changed = func(from, to State) { changes = append(changes, fmt.Sprint(from, ">", to)) }
	return b, &changes
}

const due = 5 * time.Millisecond

// call lets a call go and end after took.
func (b *Breaker) call(now, took time.Duration, end Outcome) (went bool) {
	ok, probe := b.Allow(now)
	if ok {
		b.Done(now+took, now, now+due, end, probe)
	}
	return ok
}

// The third timeout in a row opens it; a reply in between starts the row anew.
func TestThirdTimeoutOpens(t *testing.T) {
	b, changes := newBreaker()
	for i, end := range []Outcome{TimedOut, TimedOut, Replied, TimedOut, TimedOut} {
		b.call(time.Duration(i)*10*time.Millisecond, due, end)
	}
	if b.state != Closed {
		t.Fatal("two timeouts in a row opened it")
	}
	b.call(60*time.Millisecond, due, TimedOut)
	if fmt.Sprint(*changes) != "[closed>open]" {
		t.Errorf("changes %v", *changes)
	}
	if b.call(70*time.Millisecond, 0, Replied) {
		t.Error("an open breaker let a call go")
	}
}

// Timeouts of calls that were in flight together are one piece of evidence.
func TestTimeoutsInFlightTogetherCountOnce(t *testing.T) {
	b, _ := newBreaker()
	for range 15 { // below the number that a failure rate needs
		if ok, probe := b.Allow(0); !ok || probe {
			t.Fatal("a closed breaker let a call not go")
		}
	}
	for range 15 {
		b.Done(due, 0, due, TimedOut, false)
	}
	if b.state != Closed || b.timeouts != 1 {
		t.Errorf("15 timeouts at once: %v after %d", b.state, b.timeouts)
	}
}

// A deadline that fires late is this pod's own stall, and opens nothing.
func TestOwnStallIsNoEvidence(t *testing.T) {
	b, _ := newBreaker()
	for i := range 50 {
		b.call(time.Duration(i)*time.Second, due+3*time.Millisecond, TimedOut)
	}
	if b.state != Closed {
		t.Error("50 late deadlines opened it")
	}
}

// Half of the calls failing opens it, though no three do so in a row, and what
// is longer ago than the window does not count.
func TestFailureRateOpens(t *testing.T) {
	b, _ := newBreaker()
	now := time.Duration(0)
	for i := range 100 {
		end := Replied
		if i%3 == 0 {
			end = TimedOut
		}
		b.call(now, due, end)
		now += 10 * time.Millisecond
	}
	if b.state != Closed {
		t.Fatal("a third of the calls failing opened it")
	}
	for i := 0; i < 200 && b.state == Closed; i++ {
		end := Replied
		if i%4 != 0 && i%4 != 2 || i%8 == 2 {
			end = TimedOut
		}
		if b.timeouts == 2 {
			end = Replied
		}
		b.call(now, due, end)
		now += 10 * time.Millisecond
	}
	if b.state != Open {
		t.Error("half of the calls failing left it closed")
	}
}

// A server that says that it cannot opens it at once.
func TestUnreachableOpensAtOnce(t *testing.T) {
	b, _ := newBreaker()
	b.call(0, 0, Unreachable)
	if b.state != Open {
		t.Error("still closed")
	}
}

// One real call a second finds out whether the server is back; its reply closes
// the breaker, its failure leaves it open for another second.
func TestOneProbeASecond(t *testing.T) {
	b, changes := newBreaker()
	b.call(0, 0, Unreachable)
	var went []time.Duration
	for now := time.Duration(0); now < 2500*time.Millisecond; now += 10 * time.Millisecond {
		if b.call(now, due, TimedOut) {
			went = append(went, now)
		}
	}
	if want := []time.Duration{time.Second, 2010 * time.Millisecond}; !slices.Equal(went, want) {
		t.Errorf("probes went at %v, want %v", went, want)
	}
	if !b.call(4*time.Second, 0, Replied) || b.state != Closed {
		t.Error("a probe's reply did not close it")
	}
	if !b.call(4*time.Second, 0, Replied) {
		t.Error("a closed breaker let no call go")
	}
	if want := "[closed>open open>probing probing>open open>probing probing>open open>probing probing>closed]"; fmt.Sprint(*changes) != want {
		t.Errorf("changes %v\nwant    %s", *changes, want)
	}
}

// While a probe is out no other call goes, and one whose end is never told is
// not the last.
func TestLostProbe(t *testing.T) {
	b, _ := newBreaker()
	b.call(0, 0, Unreachable)
	if ok, probe := b.Allow(time.Second); !ok || !probe {
		t.Fatal("no probe after a second")
	}
	if ok, _ := b.Allow(1500 * time.Millisecond); ok {
		t.Error("a second call went beside the probe")
	}
	if ok, probe := b.Allow(2 * time.Second); !ok || !probe {
		t.Error("no probe a second after one that was lost")
	}
}

// Calls that were let go before it opened say nothing afterwards.
func TestLateEndsAreIgnored(t *testing.T) {
	b, _ := newBreaker()
	if ok, _ := b.Allow(0); !ok {
		t.Fatal("closed, but no call went")
	}
	b.call(0, 0, Unreachable)
	b.Done(time.Millisecond, 0, due, Replied, false)
	if b.state != Open {
		t.Error("the late reply of an earlier call closed it")
	}
}

// One stall that strikes many calls in flight is one failure, however many.
func TestOneStallOpensNothing(t *testing.T) {
	b, _ := newBreaker()
	for range 200 {
		if ok, _ := b.Allow(0); !ok {
			t.Fatal("a closed breaker let a call not go")
		}
	}
	for range 200 {
		b.Done(due, 0, due, TimedOut, false)
	}
	if b.state != Closed {
		t.Error("200 calls that one stall struck opened it")
	}
}

// A connection that breaks is no outage.
func TestBrokenConnectionOpensNothing(t *testing.T) {
	b, _ := newBreaker()
	for i := range 100 {
		end := Replied
		if i%10 == 0 {
			end = Failed
		}
		b.call(time.Duration(i)*time.Millisecond, 0, end)
	}
	if b.state != Closed {
		t.Error("a broken connection opened it")
	}
}

// A replica that takes over is looked for at once and often, but not for ever;
// a breaker that is closed is left alone.
func TestTakeoverHurriesProbes(t *testing.T) {
	b, changes := newBreaker()
	b.Hurry(0)
	if len(*changes) != 0 || b.hurried != 0 {
		t.Errorf("a closed breaker was hurried: %v", *changes)
	}
	b.call(0, 0, Unreachable)
	b.Hurry(200 * time.Millisecond)
	probes := 0
	for now := 200 * time.Millisecond; now < 200*time.Millisecond+hurryFor; now += 10 * time.Millisecond {
		if b.call(now, 0, Unreachable) {
			probes++
		}
		if now == 200*time.Millisecond && probes != 1 {
			t.Fatal("no probe at once")
		}
	}
	if probes != 30 {
		t.Errorf("%d probes in %v, want 10 a second", probes, hurryFor)
	}
	if b.call(3400*time.Millisecond, 0, Unreachable); b.probeAt < 4*time.Second {
		t.Errorf("after %v the next probe is due at %v, want a second's pause", hurryFor, b.probeAt)
	}
}
