package checker

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"connectrpc.com/connect"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/shiplane/limits/libs/telemetry/telemetrytest"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// Each call of every protocol is a span under its caller's trace that tells what was
// decided; in a batch, each request is one. Health probes make none.
func TestTracesTellTheVerdict(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	const parent = "00-" + trace + "-00f067aa0ba902b7-01"
	collector := telemetrytest.Start(t)
	s := start(t, "--otlp-endpoint", collector.URL)
	web := checkv1.NewCheckServiceClient(http.DefaultClient, s.api, connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Traceparent", parent)
			return next(ctx, r)
		}
	})))
	conn, traced := s.native(), metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		_, err := nativeCaller(conn)(traced, "labels-route", "acct")
		must(err)
	}
	_, err := web.Check(t.Context(), checkOf("labels-route", "acct"))
	must(err)
	_, err = web.CheckBatch(t.Context(), &checkv1.CheckBatchRequest{Requests: []*checkv1.CheckRequest{checkOf("labels-route", "acct"), checkOf("nonsense", "acct")}})
	must(err)
	s.check(`{"domain": "public-api", "entries": [{"rule": "labels-route", "key": "acct"}]}`, "Traceparent", parent).want(t, http.StatusOK, "deny")
	_, err = healthv1.NewHealthClient(conn).Check(traced, &healthv1.HealthCheckRequest{})
	must(err)
	s.stop()
	s.ended <- <-s.ended // for the cleanup; all spans were pushed

	const procedure = "shiplane.check.v1.CheckService/Check"
	for name, verdicts := range map[string][]string{
		procedure: {"allowed", "allowed", "allowed"}, procedure + "Batch": {""}, "request of a batch": {"bad_request", "denied"}, "POST /v1/ratelimit:check": {"denied"},
	} {
		var got []string
		for _, span := range collector.Spans(name) {
			got = append(got, span.Attributes["shiplane.verdict"])
			if rule := span.Attributes["shiplane.rule"]; span.Service != "shiplane-checker" || span.Trace != trace || (rule == "labels-route") != (span.Attributes["shiplane.verdict"] == "denied") {
				t.Errorf("got %+v", span)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, verdicts) {
			t.Errorf("spans %s tell %q, want %q", name, got, verdicts)
		}
	}
	if names := collector.Names(); len(names) != 7 {
		t.Errorf("got the spans %q, want 7", names)
	}
}
