package sim

import (
	"math"
	"slices"
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
)

// bound follows what is charged and handed back, on the store's clock, and
// remembers how far it ever went beyond the limit.
type bound interface {
	charge(at time.Duration, n int64, member uint64)
	giveBack(at time.Duration, n float64, member uint64)
	limited(at time.Duration, l limit.Limit) // the limit is l from now on
	stepped(before, after time.Duration)     // the clock was set
	excess() float64                         // 0 or less: it always held
}

// tank is burst + rate · w over windows of every length, in one number: it fills
// at the rate up to its size, and what is drawn in some window is more than size
// + rate · w if, and only if, it ever falls below zero.
type tank struct {
	level float64
	at    time.Duration
	low   float64 // the lowest it ever was, when the clock's last microsecond is given to it
}

func (t *tank) fill(at time.Duration, rate limit.Rate, size float64) {
	elapsed := float64(max(0, at-t.at)) / float64(time.Microsecond)
	t.level = min(size, t.level+elapsed*rate.PerMicrosecond())
	t.at = at
}

func (t *tank) draw(n float64, rate limit.Rate) {
	t.level -= n
	t.low = min(t.low, t.level+rate.PerMicrosecond())
}

// tokensBound is a token bucket's: burst + rate · w.
type tokensBound struct {
	tank
	limit limit.Limit
}

func (b *tokensBound) charge(at time.Duration, n int64, _ uint64) {
	b.fill(at, b.limit.Rate, float64(b.limit.Burst))
	b.draw(float64(n), b.limit.Rate)
}

func (b *tokensBound) giveBack(at time.Duration, n float64, _ uint64) {
	b.fill(at, b.limit.Rate, float64(b.limit.Burst))
	b.level = min(b.level+n, float64(b.limit.Burst))
}

// limited takes a limit over. A store knows no edits: it refills for all of the
// time since its last write at the rate that the next ask brings. So does a
// tank that is not filled up here, unless the rate falls.
func (b *tokensBound) limited(at time.Duration, l limit.Limit) {
	if l.Rate < b.limit.Rate {
		b.fill(at, b.limit.Rate, float64(b.limit.Burst))
	}
	b.limit = l
	b.level = min(b.level, float64(l.Burst))
}

// stepped fills up to the step. What a step forward skips, the store has
// refilled by its clock; after a step back it goes on from there.
func (b *tokensBound) stepped(before, after time.Duration) {
	b.fill(before, b.limit.Rate, float64(b.limit.Burst))
	b.at = min(before, after)
}

func (b *tokensBound) excess() float64 { return -b.low }

// windowBound is a fixed window's: so many in each.
type windowBound struct {
	limit limit.Limit
	start time.Duration
	count float64
	most  float64 // the largest that count was above the limit
}

func (b *windowBound) roll(at time.Duration) {
	if start := bucket.WindowStart(at, b.limit.Window); start != b.start {
		b.start, b.count = start, 0
	}
}

func (b *windowBound) charge(at time.Duration, n int64, _ uint64) {
	b.roll(at)
	b.count += float64(n)
	b.most = max(b.most, b.count-float64(b.limit.Count))
}

func (b *windowBound) giveBack(at time.Duration, n float64, _ uint64) {
	b.roll(at)
	b.count -= n
}

func (b *windowBound) limited(_ time.Duration, l limit.Limit) { b.limit = l }

// stepped keeps counting through a step back, as the store does.
func (b *windowBound) stepped(before, after time.Duration) {
	if after < before {
		b.start = bucket.WindowStart(after, b.limit.Window)
	}
}

func (b *windowBound) excess() float64 { return b.most }

// logBound is a sliding log's: so many in any window of its length.
type logBound struct {
	limit    limit.Limit
	attempts []attempt
	most     float64
}

type attempt struct {
	at     time.Duration
	n      int64
	member uint64
}

func (b *logBound) charge(at time.Duration, n int64, member uint64) {
	b.attempts = slices.DeleteFunc(b.attempts, func(a attempt) bool { return a.at <= at-b.limit.Window })
	b.attempts = append(b.attempts, attempt{at, n, member})
	var sum int64
	for _, a := range b.attempts {
		sum += a.n
	}
	b.most = max(b.most, float64(sum-b.limit.Count))
}

func (b *logBound) giveBack(_ time.Duration, _ float64, member uint64) {
	b.attempts = slices.DeleteFunc(b.attempts, func(a attempt) bool { return a.member == member })
}

func (b *logBound) limited(_ time.Duration, l limit.Limit) { b.limit = l }

func (b *logBound) stepped(before, after time.Duration) {
	for i := range b.attempts {
		b.attempts[i].at += min(0, after-before)
	}
}

func (b *logBound) excess() float64 { return b.most }

// newBound is the bound of a rule's algorithm, of a counter that nobody has used
// at the time; most is what an earlier one has exceeded its limit by.
func newBound(algorithm limit.Algorithm, l limit.Limit, at time.Duration, most float64) bound {
	switch algorithm {
	case limit.FixedWindow:
		return &windowBound{limit: l, start: math.MinInt64, most: most}
	case limit.SlidingLog:
		return &logBound{limit: l, most: most}
	default:
		return &tokensBound{tank: tank{level: float64(l.Burst), at: at, low: -most}, limit: l}
	}
}
