package acceptance

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/perf/loadgen"
)

// plan is what the demo's rules give a plan, and a key of it.
type plan struct {
	name, key string
	limit     limit.Limit
}

var plans = []plan{
	{"free", "demo-free", limit.Limit{Rate: 10, Burst: 20}},
	{"growth", "demo-growth", limit.Limit{Rate: 100, Burst: 200}},
	{"enterprise", "demo-enterprise", limit.Limit{Rate: 1000, Burst: 2000}},
}

// duration of a load. At three times the rate a bucket of two seconds' burst is
// empty after the first, so both lengths see refusals most of the time.
func duration() time.Duration {
	if testing.Short() {
		return 2 * time.Second
	}
	return 10 * time.Second
}

// At three times its rate every plan is given its limit, to within two tokens
// (and what a pause of this machine let overflow), and not one request more.
func TestOverloadedPlanGetsItsLimitAndNoMore(t *testing.T) {
	t.Parallel()
	for _, p := range plans {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			judge(t, drive(t, startDemo(t), 3, p))
		})
	}
}

// So is every plan while all others are overloaded as well.
func TestOverloadedPlansDoNotDisturbEachOther(t *testing.T) {
	judge(t, drive(t, startDemo(t), 3, plans...))
}

// At nine tenths of their rates, all plans at once, nobody is refused.
func TestTrafficUnderTheLimitIsNotRefused(t *testing.T) {
	t.Parallel()
	report := drive(t, startDemo(t), 0.9, plans...)
	for _, s := range report.Streams {
		// All buckets hold two seconds' refill. What came in a heap after a
		// longer pause of this machine was not under the limit.
		if pause := longest(report, s.Plan); pause > 2*time.Second {
			t.Skipf("this machine stopped the load for %v", pause)
		}
		if s.Refused > 0 || s.Admitted != s.Sent || s.Sent == 0 {
			t.Errorf("%s: %d of %d admitted, %d refused, want all admitted", s.Plan, s.Admitted, s.Sent, s.Refused)
		}
	}
}

// drive sends each plan's traffic at times its rate.
func drive(t *testing.T, target string, times float64, plans ...plan) *loadgen.Report {
	t.Helper()
	cfg, err := loadgen.Defaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Target, cfg.Duration = target, duration()
	// A gateway may be slow on a busy machine; only an answer can be counted.
	cfg.Timeout = 30 * time.Second
	for _, p := range plans {
		var s loadgen.Stream
		text := fmt.Sprintf("plan=%s,key=%s,rate=%g/s,path=/v1/labels,limit=%g/s,burst=%d",
			p.name, p.key, times*float64(p.limit.Rate), float64(p.limit.Rate), p.limit.Burst)
		if err := s.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		cfg.Streams = append(cfg.Streams, s)
	}
	report, err := loadgen.Run(t.Context(), cfg, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Streams {
		if s.Unavailable > 0 || s.Errors > 0 {
			t.Errorf("%s: %d unavailable, %d errors (%s), want none", s.Plan, s.Unavailable, s.Errors, s.FirstError)
		}
	}
	return report
}

// judge holds each plan of an overloaded run to its limit, from both sides.
func judge(t *testing.T, report *loadgen.Report) {
	t.Helper()
	for _, p := range report.Plans {
		t.Logf("%s: admitted %d in %.2f s, %.2f%% of B + R·t = %.1f; the longest latency was %v",
			p.Plan, p.Tokens, p.Seconds, 100*float64(p.Tokens)/p.Bound, p.Bound, longest(report, p.Plan))
		if float64(p.Tokens) > p.Bound {
			t.Errorf("%s: admitted %d, want at most %.2f", p.Plan, p.Tokens, p.Bound)
		}
		if p.Least == 0 {
			t.Errorf("%s: nothing was refused at three times the rate", p.Plan)
		}
		// See PlanReport.Least: without a pause this is two tokens.
		slack := 2 + p.RatePerS*longest(report, p.Plan).Seconds()
		if float64(p.Tokens) < p.Least-slack {
			t.Errorf("%s: admitted %d, want at least %.2f - %.2f", p.Plan, p.Tokens, p.Least, slack)
		}
	}
}

// longest is the longest latency of a plan's requests, from their intended send.
func longest(report *loadgen.Report, plan string) time.Duration {
	longest := 0.0
	for _, s := range report.Streams {
		if s.Plan == plan {
			longest = max(longest, s.Latency.Max)
		}
	}
	return time.Duration(longest * float64(time.Millisecond))
}
