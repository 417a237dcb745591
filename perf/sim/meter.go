package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// meter measures one key: who was admitted when, what was charged, what is out
// on lease or on the wire. Its times are the store's.
type meter struct {
	name    string
	rule    *limit.Rule
	limit   limit.Limit   // the largest that anybody may follow now, field by field
	inForce []limit.Limit // those that somebody may follow, the oldest first
	start   time.Duration // steady figures begin here
	log     []admission

	bound bound
	owed  tank // what is admitted; its size is burst + what is out

	out, outTop int64 // tokens out now, and the most ever
	peak        int64 // the most since it was last sampled
	outArea     float64
	outAt       time.Duration
	charged     int64
	admitted    int64
	given, lost int64 // handed back; lost in crashes and with calls that failed
}

type admission struct {
	at   time.Duration // since the run began
	cost int64
	pod  int
}

func newMeter(w *World, name string, rule *limit.Rule, l limit.Limit) *meter {
	return &meter{
		name: name, rule: rule, limit: l, inForce: []limit.Limit{l}, start: epoch + w.cfg.Start,
		bound: newBound(rule.Algorithm, l, 0, 0), owed: tank{level: float64(l.Burst)},
	}
}

// move changes what is out by n. A window may begin before it or after it.
func (m *meter) move(at time.Duration, n int64) {
	if from := max(m.outAt, m.start); at > from {
		m.outArea += float64(m.out) * (at - from).Seconds()
	}
	m.owed.fill(at, m.limit.Rate, float64(m.limit.Burst+m.out))
	m.outAt = at
	m.out += n
	m.outTop, m.peak = max(m.outTop, m.out), max(m.peak, m.out)
}

func (m *meter) charge(at time.Duration, n int64, member uint64) {
	m.move(at, n)
	m.bound.charge(at, n, member)
	m.charged += n
}

// giveBack counts n tokens handed back, of which took found room.
func (m *meter) giveBack(at time.Duration, n int64, took float64, member uint64) {
	m.move(at, -n)
	m.bound.giveBack(at, took, member)
	m.given += n
}

func (m *meter) lose(at time.Duration, n int64) {
	m.move(at, -n)
	m.lost += n
}

func (m *meter) admit(at time.Duration, a admission) {
	m.move(at, -a.cost)
	m.owed.draw(float64(a.cost), m.limit.Rate)
	m.admitted += a.cost
	m.log = append(m.log, a)
}

// widen takes another limit in; narrow forgets the oldest.
func (m *meter) widen(l limit.Limit) {
	m.inForce = append(m.inForce, l)
	m.limited(m.outAt)
}

func (m *meter) narrow(at time.Duration) {
	m.inForce = m.inForce[1:]
	m.move(at, 0)
	m.limited(at)
}

func (m *meter) limited(at time.Duration) {
	l := m.inForce[0]
	for _, other := range m.inForce[1:] {
		l.Rate, l.Burst, l.Count = max(l.Rate, other.Rate), max(l.Burst, other.Burst), max(l.Count, other.Count)
	}
	m.limit = l
	m.bound.limited(at, l)
}

// stepped tells that the store's clock was set.
func (m *meter) stepped(before, after time.Duration) {
	m.move(before, 0)
	m.owed.at, m.outAt = min(before, after), after
	m.bound.stepped(before, after)
}

// forgotten tells that the store has forgotten the counter: all is there again.
func (m *meter) forgotten(at time.Duration) {
	m.move(at, 0)
	m.owed.level = float64(m.limit.Burst + m.out)
	m.bound = newBound(m.rule.Algorithm, m.limit, at, m.bound.excess())
}

// stranded is the mean of what was out since start, in tokens.
func (m *meter) stranded(end time.Duration) float64 {
	m.move(epoch+end, 0)
	return m.outArea / (epoch + end - m.start).Seconds()
}

// between is what was admitted from one time on until another.
func (m *meter) between(from, to time.Duration) int64 {
	var sum int64
	for _, a := range m.log {
		if a.at >= from && a.at < to {
			sum += a.cost
		}
	}
	return sum
}

// overshoot is the most, over windows of length w, that admitted exceeds
// burst + rate · w, in tokens.
func (m *meter) overshoot(w time.Duration) float64 {
	worst, sum, first := math.Inf(-1), int64(0), 0
	for i := range m.log {
		sum += m.log[i].cost
		for m.log[i].at-m.log[first].at > w {
			sum -= m.log[first].cost
			first++
		}
		worst = max(worst, float64(sum-m.limit.Burst)-w.Seconds()*float64(m.limit.Rate))
	}
	return worst
}

// overshootAny is the same over windows of every length. each, if not nil, gets
// it for the windows that end with each admission.
func (m *meter) overshootAny(each func(at time.Duration, over float64)) float64 {
	t := tank{level: float64(m.limit.Burst)}
	worst := math.Inf(-1)
	for _, a := range m.log {
		t.fill(a.at, m.limit.Rate, float64(m.limit.Burst))
		t.draw(float64(a.cost), m.limit.Rate)
		worst = max(worst, -t.level)
		if each != nil {
			each(a.at, -t.level)
		}
	}
	return worst
}

// fairness is the median, over spans of d, of the largest by the smallest sum
// admitted by the pods given; 0 if there is no whole span.
func (m *meter) fairness(pods []int, d, end time.Duration) float64 {
	spans := make([]map[int]int64, end/d+1)
	for _, a := range m.log {
		i := a.at / d
		if spans[i] == nil {
			spans[i] = map[int]int64{}
		}
		spans[i][a.pod] += a.cost
	}
	var ratios []float64
	for i := (m.start-epoch)/d + 1; i < end/d; i++ {
		low, high := int64(math.MaxInt64), int64(0)
		for _, p := range pods {
			low, high = min(low, spans[i][p]), max(high, spans[i][p])
		}
		ratios = append(ratios, float64(high)/float64(low))
	}
	if len(ratios) == 0 {
		return 0
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// byPod is what each of the pods given has admitted since start.
func (m *meter) byPod(pods []int) []int64 {
	sums := make([]int64, len(pods))
	for _, a := range m.log {
		if i := slices.Index(pods, a.pod); i >= 0 && epoch+a.at >= m.start {
			sums[i] += a.cost
		}
	}
	return sums
}

// verify checks what must hold for the key at the end of a run, when everything
// has been handed back. That nothing is out any more holds if every call was
// answered and nothing is void with its window.
func (m *meter) verify(healthy bool) error {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{m.name}, args...)...))
	}
	if over := m.bound.excess(); over > rounding {
		fault("charged %.6f above the limit", over)
	}
	if !m.rule.Waits() {
		return errors.Join(errs...) // its charges come in sums, for requests long admitted
	}
	if m.charged != m.admitted+m.given+m.lost+m.out {
		fault("charged %d, but admitted %d, given back %d, lost %d, out %d", m.charged, m.admitted, m.given, m.lost, m.out)
	}
	if m.out < 0 || healthy && m.rule.Algorithm != limit.FixedWindow && m.out != 0 {
		fault("%d tokens are out when all have been handed back", m.out)
	}
	if over := -m.owed.low; m.rule.Algorithm == limit.TokenBucket && over > rounding {
		fault("admitted %.6f above burst + rate · t and what was on lease at the begin of the window", over)
	}
	return errors.Join(errs...)
}

// rounding is what sums of a million floats may be off by, in tokens.
const rounding = 1e-6
