package sim

import (
	"math"
	"slices"
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
)

// meter measures one key: who was admitted when, what was charged, what is out
// on lease or on the wire.
type meter struct {
	limit limit.Limit
	start time.Duration // steady figures begin here
	log   []admission

	out, outTop   int64 // tokens out now, and the most ever
	outArea       float64
	outAt         time.Duration
	charged       int64
	admitted      int64
	given, lost   int64   // handed back; lost in crashes and with errands that failed
	level, excess float64 // Lindley's recursion of charged − rate · t, and its largest − burst
	levelAt       time.Duration
}

type admission struct {
	at   time.Duration
	cost int64
	pod  int
}

// move changes what is out by n.
func (m *meter) move(now time.Duration, n int64) {
	if from := max(m.outAt, m.start); now > from {
		m.outArea += float64(m.out) * (now - from).Seconds()
	}
	m.outAt = now
	m.out += n
	m.outTop = max(m.outTop, m.out)
}

// debt follows the largest sum over any window of n minus rate times its length.
func (m *meter) debt(now time.Duration, n float64) {
	m.level = max(0, m.level-(now-m.levelAt).Seconds()*float64(m.limit.Rate)) + n
	m.levelAt = now
	m.excess = max(m.excess, m.level-float64(m.limit.Burst))
}

func (m *meter) charge(now time.Duration, n int64) {
	m.move(now, n)
	m.debt(now, float64(n))
	m.charged += n
}

// giveBack counts n tokens handed back, of which took found room.
func (m *meter) giveBack(now time.Duration, n int64, took float64) {
	m.move(now, -n)
	m.debt(now, -took)
	m.given += n
}

func (m *meter) lose(now time.Duration, n int64) {
	m.move(now, -n)
	m.lost += n
}

func (m *meter) admit(now time.Duration, n int64, pod int) {
	m.move(now, -n)
	m.admitted += n
	m.log = append(m.log, admission{now, n, pod})
}

// stranded is the mean of what was out since start, in tokens.
func (m *meter) stranded(end time.Duration) float64 {
	m.move(end, 0)
	return m.outArea / (end - m.start).Seconds()
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

// overshootAny is the same over windows of every length.
func (m *meter) overshootAny() float64 {
	level, at, worst := 0.0, time.Duration(0), math.Inf(-1)
	for _, a := range m.log {
		level = max(0, level-(a.at-at).Seconds()*float64(m.limit.Rate)) + float64(a.cost)
		at = a.at
		worst = max(worst, level-float64(m.limit.Burst))
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
	for i := m.start/d + 1; i < end/d; i++ {
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

// oracle is one exact bucket for each key, no pods and no network: what a
// request is entitled to.
type oracle map[*Key]bucket.Tokens

func (o oracle) entitled(now time.Duration, parts []Part) bool {
	for _, p := range parts {
		if _, ok := o[p.Key]; !ok {
			o[p.Key] = bucket.Full(now, p.Key.Limit())
		}
		if o[p.Key].LevelAt(now, p.Key.Limit()) < float64(p.Cost) {
			return false
		}
	}
	for _, p := range parts {
		o[p.Key] = o[p.Key].Take(now, p.Key.Limit(), p.Cost)
	}
	return true
}
