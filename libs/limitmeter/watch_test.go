package limitmeter_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/limitmeter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/telemetry"
)

// What the limiter counts is there to be scraped, by rule and never by caller:
// calls, tokens and holds, and what the hottest caller was admitted.
func TestLimiterCanBeWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics, err := telemetry.NewMetrics(t.Context(), telemetry.Config{Service: "test", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := limitmeter.New(metrics.Provider(), limitmeter.Config{Service: "gateway"})
		if err != nil {
			t.Fatal(err)
		}
		counters, err := memory.New(memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l, other := newLimiter(t, counters, m), newLimiter(t, counters, m)
		if err := m.Watch(l.Stats); err != nil {
			t.Fatal(err)
		}

		check := checker(t, l)
		for range 500 { // 100/s, half of the limit: 500 of what 100 + 10 · 200 are due in 10 s
			check("acme")
			time.Sleep(10 * time.Millisecond)
		}
		wantSeries(t, metrics,
			`shiplane_gateway_decision_wait_seconds_count`, `shiplane_gateway_store_asks_total{for="request"}`, `shiplane_gateway_leased_tokens_total{rule="global"}`, `shiplane_gateway_held_tokens{rule="global"}`)
		time.Sleep(1100 * time.Millisecond) // the lease's life: what it holds is of no use any more
		wantSeries(t, metrics, `shiplane_gateway_stranded_tokens{rule="global"}`)
		time.Sleep(4 * time.Second)
		wantSeries(t, metrics, `shiplane_gateway_returned_tokens_total{rule="global"}`, `shiplane_gateway_store_asks_total{for="errand"}`,
			`shiplane_gateway_hot_admitted_ratio{rule="global"}`)
		if got, want := sample(metrics, "shiplane_gateway_hot_admitted_ratio{rule=\"global\"}"), "0.23809523809523808"; got != want { // 500 of 2,100
			t.Errorf("the hottest caller's ratio is %s, want %s", got, want)
		}
		competes := checker(t, other)
		for range 100 { // the whole burst, by another gateway
			competes("beta")
		}
		check("beta")
		wantSeries(t, metrics, `shiplane_gateway_contention_holds_total{rule="global"}`)
		if page := scrape(metrics); strings.Contains(page, "acme") || strings.Contains(page, "beta") {
			t.Errorf("a caller is in the metrics:\n%s", page)
		}
		for _, l := range []*limiter.Limiter{l, other} {
			if err := l.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := sample(metrics, "shiplane_gateway_held_tokens{rule=\"global\"}"); got != "0" {
			t.Errorf("a limiter that is closed holds %s tokens", got)
		}
	})
}

func newLimiter(t *testing.T, counters store.Store, m *limitmeter.Meter) *limiter.Limiter {
	t.Helper()
	l, err := limiter.New(limiter.Config{Store: counters, Observer: m})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// checker checks requests of accounts under one rule.
func checker(t *testing.T, l *limiter.Limiter) func(account string) {
	t.Helper()
	rule := &limit.Rule{
		Domain: "test", ID: "global", Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: limit.Limit{Rate: 200, Burst: 100},
		Mode: limit.Enforce, Counts: limit.CountRequests, Tag: limit.TagOf("test", "global", limit.TokenBucket),
	}
	return func(account string) {
		t.Helper()
		subject, err := limit.NewSubject("test", limit.Account, account)
		if err != nil {
			t.Fatal(err)
		}
		request := limit.Request{Charges: []limit.Charge{{Subject: subject, Rule: rule, Limit: rule.Limit, Cost: 1}}}
		var decision limit.Decision
		l.Check(t.Context(), &request, &decision)
	}
}

func scrape(metrics *telemetry.Metrics) string {
	page := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	return page.Body.String()
}

// sample is the value of a series, "" if there is none.
func sample(metrics *telemetry.Metrics, series string) string {
	for line := range strings.Lines(scrape(metrics)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// wantSeries checks that each of the series is there and above 0.
func wantSeries(t *testing.T, metrics *telemetry.Metrics, series ...string) {
	t.Helper()
	for _, s := range series {
		if value := sample(metrics, s); value == "" || value == "0" {
			t.Errorf("%s is %q", s, value)
		}
	}
}
