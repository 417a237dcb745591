// Package telemetrytest receives what services push, for their tests.
package telemetrytest

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that was pushed.
type Span struct {
	Service, Name     string
	Trace, ID, Parent string            // in hexadecimal
	Attributes        map[string]string // as text
}

// Collector is an OTLP receiver that keeps what it is sent. Safe for concurrent use.
type Collector struct {
	URL string // for --otlp-endpoint

	t     testing.TB
	mu    sync.Mutex
	sent  map[string]string // by path
	spans []Span
}

// Start starts a collector until the test ends. No variable of the environment says
// meanwhile how telemetry is pushed.
func Start(t testing.TB) *Collector {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	c := &Collector{t: t, sent: map[string]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// ServeHTTP takes what is pushed.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[r.URL.Path] += string(body)
	if r.URL.Path != "/v1/traces" {
		return
	}
	var pushed collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &pushed); err != nil {
		c.t.Errorf("spans that cannot be read: %v", err)
		return
	}
	for _, from := range pushed.GetResourceSpans() {
		service := texts(from.GetResource().GetAttributes())["service.name"]
		for _, scope := range from.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, Span{
					Service: service, Name: s.GetName(), Attributes: texts(s.GetAttributes()),
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
				})
			}
		}
	}
}

func texts(of []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range of {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_BoolValue:
			all[a.GetKey()] = fmt.Sprint(v.BoolValue)
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = fmt.Sprint(v.IntValue)
		}
	}
	return all
}

// Sent returns what was sent to a path, as bytes: names and texts stand in protobuf
// as they are.
func (c *Collector) Sent(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[path]
}

// Spans returns the spans of a name.
func (c *Collector) Spans(name string) (of []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			of = append(of, s)
		}
	}
	return of
}

// Names returns the names of all spans, in the order in which they came.
func (c *Collector) Names() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		names = append(names, s.Name)
	}
	return names
}
