package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/telemetry"
)

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("/metrics answers %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func count(t *testing.T, m *telemetry.Metrics, verdict string) {
	t.Helper()
	c, err := m.Provider().Meter("test").Int64Counter("shiplane_requests", metric.WithDescription("Requests."))
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 3, metric.WithAttributes(attribute.String("verdict", verdict)))
}

// TestCountersAreScraped: what is counted stands in the scrape under its own
// labels and no others, beside the runtime's metrics.
func TestCountersAreScraped(t *testing.T) {
	m, err := telemetry.New("gateway")
	if err != nil {
		t.Fatal(err)
	}
	count(t, m, "allowed")
	text := scrape(t, m)
	for _, want := range []string{
		`shiplane_requests_total{verdict="allowed"} 3`, "go_goroutines ", `target_info{service_name="gateway"} 1`,
	} {
		if !strings.Contains(text, want+"\n") && !strings.Contains(text, "\n"+want) {
			t.Errorf("the scrape lacks %q:\n%s", want, text)
		}
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestServicesDoNotShareMetrics: two services in one process count apart.
func TestServicesDoNotShareMetrics(t *testing.T) {
	one, err := telemetry.New("one")
	if err != nil {
		t.Fatal(err)
	}
	other, err := telemetry.New("other")
	if err != nil {
		t.Fatal(err)
	}
	count(t, one, "denied")
	if text := scrape(t, other); strings.Contains(text, "shiplane_requests_total") {
		t.Errorf("the other service shows what the one counted:\n%s", text)
	}
}
