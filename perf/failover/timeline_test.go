package failover

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store/breaker"
)

// A request is counted in the slot in which it was sent, under its verdict and who
// decided, and sums hold whole slots of the picked streams only.
func TestTimelineSumsWhatItWasTold(t *testing.T) {
	line := newTimeline()
	bulk := &Stream{Traffic: Traffic{Name: "bulk", Cost: 10}, Shard: 0}
	login := &Stream{Traffic: Traffic{Name: "login", Cost: 1}, Shard: 1}
	line.record(bulk, 260*time.Millisecond, 3*time.Millisecond, &limit.Decision{Verdict: limit.Allowed, DecidedBy: limit.ByFallback})
	line.record(bulk, 400*time.Millisecond, time.Millisecond, &limit.Decision{Verdict: limit.Denied, DecidedBy: limit.ByHold})
	line.record(bulk, 900*time.Millisecond, time.Second, &limit.Decision{Verdict: limit.Allowed, DecidedBy: limit.ByStore})
	line.record(login, 300*time.Millisecond, time.Millisecond, &limit.Decision{Verdict: limit.Unavailable, DecidedBy: limit.ByFailClosed})
	got := line.Between(200*time.Millisecond, 800*time.Millisecond, OfShard(0, true))
	want := Slot{Admitted: 1, Refused: 1, Tokens: 10, Longest: 3 * time.Millisecond}
	want.By[limit.ByFallback], want.By[limit.ByHold] = 1, 1
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if other := line.Between(0, time.Second, OfShard(0, false)); other.Unavailable != 1 || other.Admitted != 0 {
		t.Errorf("the other shard: %+v", other)
	}
	if n := len(line.Slots(Every)); n != 4 {
		t.Errorf("%d slots, want 4", n)
	}
	if _, longest := line.Latency(99, Every); longest < time.Second || longest > 1100*time.Millisecond {
		t.Errorf("the longest latency is %v, want 1s", longest)
	}
}

// A condensed timeline sums up and keeps nothing else.
func TestCondensedTimelineDoesNotGrow(t *testing.T) {
	line := newTimeline()
	bulk := &Stream{Traffic: Traffic{Name: "bulk", Cost: 10}}
	line.Condense()
	for i := range 100 {
		line.record(bulk, time.Duration(i)*time.Second, time.Millisecond, &limit.Decision{Verdict: limit.Allowed, DecidedBy: limit.ByLease})
		line.stalled(time.Millisecond)
	}
	if s := line.Sums(); s.Tokens != 1000 || s.By[limit.ByLease] != 100 {
		t.Errorf("sums are %+v", s)
	}
	if len(line.Slots(Every)) > 0 || len(line.stalls) > 0 {
		t.Errorf("%d slots and %d stalls are kept", len(line.Slots(Every)), len(line.stalls))
	}
}

// A breaker counts as not closed from its change on, in its pod and shard only.
func TestTimelineFollowsBreakers(t *testing.T) {
	line := newTimeline()
	line.change(Change{Pod: 1, Shard: "0", To: breaker.Open})
	line.change(Change{Pod: 2, Shard: "0", To: breaker.Open})
	line.change(Change{Pod: 2, Shard: "0", To: breaker.Closed})
	for shard, want := range map[string]int{"0": 1, "5461": 0} {
		if got := line.NotClosed(shard, line.Now()); got != want {
			t.Errorf("shard %s: %d are not closed, want %d", shard, got, want)
		}
	}
	if got := line.NotClosed("0", line.Changes()[0].At-1); got != 0 {
		t.Errorf("before the first change %d were not closed", got)
	}
}

// A command line that is wrong says which flag, its value and what is allowed.
func TestWrongFlags(t *testing.T) {
	for text, want := range map[string]string{
		"--shards 2":           "--shards is 2: want 3 to 64",
		"--pods 65":            "pods is 65: want 1 to 64",
		"soak --scale 0":       "scale is 0: want 0.1 to 1000",
		"soak --duration 1s":   "--duration is 1s: want 10s at least",
		"soak --timeout 100us": "timeout is 100µs: want 1ms at least",
		"--mode melt":          "kill",
	} {
		var stdout, stderr bytes.Buffer
		if code := Main(strings.Fields(text), &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit %d, %s; want 2 and %q", text, code, stderr.String(), want)
		}
	}
}
