package loadgen

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/shiplane/limits/libs/limit"
)

// tally is the account of a run. Safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	start   time.Time
	streams []streamTally
	plans   map[string]*planTally
}

// streamTally counts what was sent and what came back. Times are since the
// start of the run.
type streamTally struct {
	stream                                       *Stream
	sent, admitted, refused, unavailable, failed int64
	statuses                                     map[int]int64
	firstError                                   string
	latency, delay                               *hdrhistogram.Histogram // µs from the intended send to the reply, and to the send
	lastSend                                     time.Duration
}

// planTally holds the keys of a plan that were sent to.
type planTally struct {
	limit limit.Limit
	keys  map[string]*keyTally
}

// keyTally is what one bucket gave, and the times between which it did.
type keyTally struct {
	firstSend, firstReply time.Duration
	lastSend, lastReply   time.Duration // lastSend of a request that was refused; 0: none was
	tokens                int64         // cost of all that was admitted
}

// Range and precision of the histograms: three digits from 1 µs to an hour take
// 180 KB each. The longest latency possible is a timeout after the longest run.
const (
	histogramMin    = 1    // µs
	histogramMax    = 2e10 // µs
	histogramDigits = 3
)

func newTally(cfg *Config, start time.Time) *tally {
	t := &tally{start: start, plans: make(map[string]*planTally)}
	for i := range cfg.Streams {
		s := &cfg.Streams[i]
		t.streams = append(t.streams, streamTally{
			stream: s, statuses: make(map[int]int64),
			latency: hdrhistogram.New(histogramMin, histogramMax, histogramDigits),
			delay:   hdrhistogram.New(histogramMin, histogramMax, histogramDigits),
		})
		if t.plans[s.Plan] == nil {
			t.plans[s.Plan] = &planTally{limit: s.Limit, keys: make(map[string]*keyTally)}
		}
	}
	return t
}

// record takes in one reply to a shot of the stream with this number.
func (t *tally) record(number int, shot shot, result *vegeta.Result) {
	sent := result.Timestamp.Sub(t.start)
	reply := sent + result.Latency

	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.streams[number]
	s.sent++
	s.lastSend = max(s.lastSend, sent)
	record(s.latency, reply-shot.due)
	record(s.delay, sent-shot.due)
	verdict := s.classify(result)
	t.plans[s.stream.Plan].take(shot.key, sent, reply, verdict, s.stream.Cost)
}

// record puts a time into a histogram, at its edge if it is beyond.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	// Within its range a histogram takes every value.
	_ = h.RecordValue(min(max(d.Microseconds(), histogramMin), histogramMax))
}

// classify counts a reply and returns the limiter's verdict. What is neither a
// success nor a limiter's refusal proves nothing about the limiter: it is
// counted as an error, and its verdict is 0.
func (s *streamTally) classify(result *vegeta.Result) limit.Verdict {
	code := int(result.Code)
	if code != 0 {
		s.statuses[code]++
	}
	switch {
	case code >= 200 && code < 400:
		s.admitted++
		return limit.Allowed
	case code == http.StatusTooManyRequests:
		s.refused++
		return limit.Denied
	case code == http.StatusServiceUnavailable:
		s.unavailable++
		return limit.Unavailable
	default:
		s.failed++
		if s.firstError == "" {
			s.firstError = errorOf(result)
		}
	}
	return 0
}

// errorOf is the reason without the method and URL that stand before it.
func errorOf(result *vegeta.Result) string {
	if result.Code != 0 {
		return cmp.Or(result.Error, strconv.Itoa(int(result.Code)))
	}
	if _, reason, ok := strings.Cut(result.Error, `": `); ok {
		return reason
	}
	return result.Error
}

// take takes in one reply; replies come in another order than sends.
func (p *planTally) take(key string, sent, reply time.Duration, verdict limit.Verdict, cost int64) {
	k := p.keys[key]
	if k == nil {
		k = &keyTally{firstSend: sent, firstReply: reply}
		p.keys[key] = k
	}
	k.firstSend, k.firstReply = min(k.firstSend, sent), min(k.firstReply, reply)
	k.lastReply = max(k.lastReply, reply)
	switch verdict {
	case limit.Allowed:
		k.tokens += cost
	case limit.Denied:
		k.lastSend = max(k.lastSend, sent)
	}
}

// most is what a token bucket can have given the key: B + R·t, t from its first
// send to its last reply. Every charge lies between the two.
func (k *keyTally) most(l limit.Limit) float64 { return bound(l, k.lastReply-k.firstSend) }

// least is what a key gets that is overloaded throughout: B + R·u, u from the
// first reply to the last send of a refused request, for the bucket was full at
// the first charge, which is before the first reply, and empty at the last
// refusal. A correct limiter gives less by two kinds of loss: the last token
// (less than one request's cost), and what overflows while the load pauses at a
// full bucket. Under constant arrivals above R, each charged at most L after its
// intended time, the latter is at most R·L and one request, in all. 0 if nothing
// was refused.
func (k *keyTally) least(l limit.Limit) float64 {
	if k.lastSend == 0 {
		return 0
	}
	return max(0, bound(l, k.lastSend-k.firstReply))
}

// bound is what a token bucket gives at most in a time t: B + R·t.
func bound(l limit.Limit, t time.Duration) float64 {
	return float64(l.Burst) + float64(l.Rate)*t.Seconds()
}
