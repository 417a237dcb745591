package loadgen

import (
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Schema is the version of the report's JSON. Fields may be added under the
// same number; a change of a name, unit or meaning raises it.
const Schema = 1

// Report is what a run did and what came of it.
type Report struct {
	Schema       int            `json:"schema"`
	Target       string         `json:"target"`
	Arrivals     string         `json:"arrivals"`
	Distribution string         `json:"distribution"`
	Keys         int            `json:"keys"`
	Seed         uint64         `json:"seed"`
	DurationS    float64        `json:"duration_s"`  // asked
	ElapsedS     float64        `json:"elapsed_s"`   // until the last reply
	Interrupted  bool           `json:"interrupted"` // the run was ended before its duration
	Streams      []StreamReport `json:"streams"`     // in the order of the configuration
	Plans        []PlanReport   `json:"plans"`       // by name
}

// StreamReport is one stream's traffic.
type StreamReport struct {
	Plan        string `json:"plan"`
	Method      string `json:"method"`
	Path        string `json:"path"`
	Cost        int64  `json:"cost"`
	Sent        int64  `json:"sent"`
	Admitted    int64  `json:"admitted"`    // status 200 to 399
	Refused     int64  `json:"refused"`     // status 429
	Unavailable int64  `json:"unavailable"` // status 503
	Errors      int64  `json:"errors"`      // everything else, a missing reply included
	FirstError  string `json:"first_error,omitempty"`
	// Statuses counts replies by their status code.
	Statuses map[int]int64 `json:"statuses"`

	AskedPerS    float64 `json:"asked_per_s"`
	AchievedPerS float64 `json:"achieved_per_s"`
	Unsent       int64   `json:"unsent"` // due, but given up one timeout after the duration
	// Behind says that the generator did not keep its plan: see behindAfter.
	Behind bool `json:"behind"`

	Latency   Quantiles `json:"latency_ms"`    // from the intended send to the end of the reply
	SendDelay Quantiles `json:"send_delay_ms"` // from the intended send to the send
}

// Quantiles are in milliseconds.
type Quantiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// PlanReport compares what the keys of a plan were given with what their limit
// allows. It sums over the keys; no key's surplus is set off against another's.
type PlanReport struct {
	Plan     string  `json:"plan"`
	Judged   bool    `json:"judged"` // a limit was given
	RatePerS float64 `json:"rate_per_s"`
	Burst    int64   `json:"burst"`
	Keys     int     `json:"keys"`    // that were sent to
	Seconds  float64 `json:"seconds"` // the longest t of a key, from its first send to its last reply
	Tokens   int64   `json:"admitted_tokens"`
	Bound    float64 `json:"bound_tokens"` // the sum of B + R·t
	// Least is the sum of B + R·u, with u from a key's first reply to its last
	// refused send: what keys that are overloaded throughout get, but for two
	// requests' cost and R times the longest latency each. 0 for a key that was
	// never refused.
	Least         float64 `json:"least_tokens"`
	OverLimitKeys int     `json:"over_limit_keys"`
	OverLimit     bool    `json:"over_limit"` // some key was given more than B + R·t
}

// behindAfter is the delay of a send from which it counts as late. Above the
// 99th percentile of the delays the generator has fallen behind: ten times what
// a timer is late on a busy machine.
const behindAfter = 10 * time.Millisecond

func (t *tally) report(cfg *Config, attacks []*attack, interrupted bool) *Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &Report{
		Schema: Schema, Target: cfg.Target, Arrivals: cfg.Arrivals, Distribution: cfg.Distribution,
		Keys: cfg.Keys, Seed: cfg.Seed, DurationS: cfg.Duration.Seconds(), Interrupted: interrupted,
	}
	for i := range t.streams {
		ran := cfg.Duration
		if interrupted {
			ran = 0 // then the last send is the end
		}
		s := t.streams[i].report(ran)
		s.Unsent = attacks[i].unsent
		s.Behind = s.Behind || s.Unsent > 0
		r.Streams = append(r.Streams, s)
	}
	for _, name := range slices.Sorted(maps.Keys(t.plans)) {
		plan := t.plans[name].report()
		plan.Plan = name
		r.Plans = append(r.Plans, plan)
		for _, k := range t.plans[name].keys {
			r.ElapsedS = max(r.ElapsedS, k.lastReply.Seconds())
		}
	}
	return r
}

func (s *streamTally) report(ran time.Duration) StreamReport {
	r := StreamReport{
		Plan: s.stream.Plan, Method: s.stream.Method, Path: s.stream.Path, Cost: s.stream.Cost,
		Sent: s.sent, Admitted: s.admitted, Refused: s.refused, Unavailable: s.unavailable, Errors: s.failed,
		FirstError: s.firstError, Statuses: maps.Clone(s.statuses),
		AskedPerS: float64(s.stream.Rate),
		Latency:   quantiles(s.latency), SendDelay: quantiles(s.delay),
	}
	if over := max(ran, s.lastSend); over > 0 {
		r.AchievedPerS = float64(s.sent) / over.Seconds()
	}
	r.Behind = s.delay.ValueAtPercentile(99) > behindAfter.Microseconds()
	return r
}

func (p *planTally) report() PlanReport {
	r := PlanReport{
		Judged: p.limit.Burst > 0, RatePerS: float64(p.limit.Rate), Burst: p.limit.Burst, Keys: len(p.keys),
	}
	for _, k := range p.keys {
		r.Seconds = max(r.Seconds, (k.lastReply - k.firstSend).Seconds())
		r.Tokens += k.tokens
		if !r.Judged {
			continue
		}
		r.Bound += k.most(p.limit)
		r.Least += k.least(p.limit)
		if float64(k.tokens) > k.most(p.limit) {
			r.OverLimitKeys++
		}
	}
	r.OverLimit = r.OverLimitKeys > 0
	return r
}

func quantiles(h *hdrhistogram.Histogram) Quantiles {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	v := h.ValueAtPercentiles([]float64{50, 90, 99, 99.9})
	return Quantiles{P50: ms(v[50]), P90: ms(v[90]), P99: ms(v[99]), P999: ms(v[99.9]), Max: ms(h.Max())}
}
