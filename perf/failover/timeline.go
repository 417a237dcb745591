package failover

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store/breaker"
)

// SlotLength is how much of a run is one line of its timeline.
const SlotLength = 250 * time.Millisecond

// Slot is what became of the requests of some streams that were sent within it.
type Slot struct {
	Admitted, Refused, Unavailable int64 // requests
	Tokens                         int64 // admitted
	By                             [limit.ByFailClosed + 1]int64
	Longest                        time.Duration
}

func (s *Slot) add(o *Slot) {
	s.Admitted += o.Admitted
	s.Refused += o.Refused
	s.Unavailable += o.Unavailable
	s.Tokens += o.Tokens
	for i := range s.By {
		s.By[i] += o.By[i]
	}
	s.Longest = max(s.Longest, o.Longest)
}

// Change is a breaker's change of state in one pod.
type Change struct {
	At       time.Duration
	Pod      int
	Shard    string
	From, To breaker.State
}

// Mark is something that was done, or seen, at a moment of the run.
type Mark struct {
	At   time.Duration
	Text string
}

// latencyMax is the longest latency that is told apart, and latencyDigits how exactly.
const (
	latencyMax    = 100 * time.Second
	latencyDigits = 2
)

// Timeline is what a run came to. Safe for concurrent use.
type Timeline struct {
	start time.Time

	mu      sync.Mutex
	slots   map[*Stream][]Slot
	latency map[*Stream]*hdrhistogram.Histogram // since the last Begin
	changes []Change
	marks   []Mark
	stalls  []time.Duration // by slot: how late this process was, at most
	sums    *Slot           // of all streams since Condense; nil: it was not called
}

func newTimeline() *Timeline {
	return &Timeline{start: time.Now(), slots: map[*Stream][]Slot{}, latency: map[*Stream]*hdrhistogram.Histogram{}}
}

// Now is the time since the run began.
func (t *Timeline) Now() time.Duration { return time.Since(t.start) }

// record puts down one decision on a request.
func (t *Timeline) record(s *Stream, sent, took time.Duration, d *limit.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.sums
	if one == nil {
		slot := at(t.slots[s], sent)
		t.slots[s] = slot
		one = &slot[sent/SlotLength]
	}
	switch d.Verdict {
	case limit.Allowed:
		one.Admitted++
		one.Tokens += s.Cost
	case limit.Denied:
		one.Refused++
	case limit.Unavailable:
		one.Unavailable++
	}
	one.By[d.DecidedBy]++
	one.Longest = max(one.Longest, took)
	h := t.latency[s]
	if h == nil {
		h = hdrhistogram.New(1, latencyMax.Microseconds(), latencyDigits)
		t.latency[s] = h
	}
	_ = h.RecordValue(min(took, latencyMax).Microseconds()) // within its range
}

// at makes the slices reach the slot of a moment.
func at[T any](slots []T, moment time.Duration) []T {
	if n := int(moment/SlotLength) + 1; n > len(slots) {
		slots = append(slots, make([]T, n-len(slots))...)
	}
	return slots
}

// stalled puts down that this process was late.
func (t *Timeline) stalled(late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sums != nil {
		return
	}
	now := t.Now()
	t.stalls = at(t.stalls, now)
	t.stalls[now/SlotLength] = max(t.stalls[now/SlotLength], late)
}

func (t *Timeline) change(c Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.At = t.Now()
	t.changes = append(t.changes, c)
}

// Mark puts down what happens now and returns when that is.
func (t *Timeline) Mark(format string, args ...any) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.Now()
	t.marks = append(t.marks, Mark{now, fmt.Sprintf(format, args...)})
	return now
}

// Begin forgets the latencies so far, so that Latency tells of what follows.
func (t *Timeline) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.latency)
}

// Condense lets the timeline end: of what is decided from now on only Sums are
// kept, so that a long run takes no memory for being watched.
func (t *Timeline) Condense() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sums = &Slot{}
}

// Sums is what was decided since Condense.
func (t *Timeline) Sums() Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *t.sums
}

// Latency returns quantile q (0 to 100) and the maximum since Begin, of the
// streams that are picked.
func (t *Timeline) Latency(q float64, pick func(*Stream) bool) (quantile, longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := hdrhistogram.New(1, latencyMax.Microseconds(), latencyDigits)
	for s, h := range t.latency {
		if pick(s) {
			sum.Merge(h)
		}
	}
	return time.Duration(sum.ValueAtQuantile(q)) * time.Microsecond, time.Duration(sum.Max()) * time.Microsecond
}

// Between sums up the slots that lie within two moments, of the streams that are picked.
func (t *Timeline) Between(from, to time.Duration, pick func(*Stream) bool) (sum Slot) {
	for i, slot := range t.Slots(pick) {
		if begin := time.Duration(i) * SlotLength; begin >= from && begin+SlotLength <= to {
			sum.add(&slot)
		}
	}
	return sum
}

// Slots returns the timeline of the streams that are picked.
func (t *Timeline) Slots(pick func(*Stream) bool) []Slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	var sums []Slot
	for s, slots := range t.slots {
		if !pick(s) {
			continue
		}
		sums = slices.Grow(sums, len(slots))
		for i := range slots {
			if i == len(sums) {
				sums = append(sums, Slot{})
			}
			sums[i].add(&slots[i])
		}
	}
	return sums
}

// Stall is how late this process was between two moments, at most.
func (t *Timeline) Stall(from, to time.Duration) (late time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, stall := range t.stalls {
		if begin := time.Duration(i) * SlotLength; begin+SlotLength > from && begin < to {
			late = max(late, stall)
		}
	}
	return late
}

// Changes returns the breakers' changes so far, in their order.
func (t *Timeline) Changes() []Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.changes)
}

// NotClosed returns how many pods' breakers of a shard were not closed at a moment.
func (t *Timeline) NotClosed(shard string, moment time.Duration) int {
	states := map[int]breaker.State{}
	for _, c := range t.Changes() {
		if c.Shard == shard && c.At <= moment {
			states[c.Pod] = c.To
		}
	}
	n := 0
	for _, s := range states {
		if s != breaker.Closed {
			n++
		}
	}
	return n
}

// Every picks all streams.
func Every(*Stream) bool { return true }

// OfShard picks the streams of one shard; if hit is false, those of all others.
func OfShard(shard int, hit bool) func(*Stream) bool {
	return func(s *Stream) bool { return (s.Shard == shard) == hit }
}

// Marks returns what was marked so far, in order.
func (t *Timeline) Marks() []Mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.marks)
}
