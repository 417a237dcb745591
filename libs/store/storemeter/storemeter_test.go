package storemeter_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/store/storemeter"
	"github.com/shiplane/limits/libs/telemetry"
)

// What the store tells is there to be scraped, by shard and outcome.
func TestMetrics(t *testing.T) {
	metrics, err := telemetry.New("test")
	if err != nil {
		t.Fatal(err)
	}
	m, err := storemeter.New(metrics.Provider(), "shard", func() int { return 50 })
	if err != nil {
		t.Fatal(err)
	}
	var observer rediscluster.Observer = m
	observer.Call("0-5460", "ok", 300*time.Microsecond)
	observer.Call("0-5460", "timeout", 5*time.Millisecond)
	observer.Breaker("0-5460", breaker.Closed, breaker.Open)
	observer.Clock("0-5460", -2*time.Second)
	page := httptest.NewRecorder()
	metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`shiplane_store_call_duration_seconds_count{outcome="ok",`, `outcome="timeout"`,
		`shiplane_store_breaker_state{`, `shard="0-5460"} 1`,
		`shiplane_store_breaker_transitions_total{`, `to="open"} 1`,
		`shiplane_store_clock_ahead_seconds{`, `} -2`,
		`shiplane_store_region_pods 50`,
	} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(page.Body.String())
	}
}
