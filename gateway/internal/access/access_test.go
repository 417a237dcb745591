package access

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"
)

// TestStrangerChoosesLittle: neither a trace state of the upstream's span, though
// its trace cannot be read, nor how long a line of the log is.
func TestStrangerChoosesLittle(t *testing.T) {
	var lines bytes.Buffer
	state := "not asked"
	h := New(Config{
		Next:    http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { state = r.Header.Get("Tracestate") }),
		Trusted: func(string) bool { return false }, Logger: slog.New(slog.NewTextHandler(&lines, nil)), Sample: 1,
		HashKey: []byte("0123456789abcdef"), Tracer: noop.NewTracerProvider().Tracer(""),
	})
	r := httptest.NewRequest(strings.Repeat("M", 9000), "/", nil)
	r.Header.Set("Traceparent", "none")
	r.Header.Set("Tracestate", "a=b")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if state != "" {
		t.Errorf("the upstream got the trace state %q", state)
	}
	if n := lines.Len(); n == 0 || n > 500 {
		t.Errorf("the line has %d bytes", n)
	}
}
