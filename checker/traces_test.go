package checker

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shiplane/limits/libs/telemetry/telemetrytest"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// The trace of a caller, and its span.
const (
	callersTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callersSpan  = "00f067aa0ba902b7"
	traceparent  = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// fromTrace makes the calls of a Connect client parts of the trace, with a token.
func fromTrace(token string) connect.ClientOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Traceparent", traceparent)
			r.Header().Set("Authorization", "Bearer "+token)
			return next(ctx, r)
		}
	}))
}

// end stops a checker, which pushes its spans then.
func (s *running) end() {
	s.t.Helper()
	s.stop()
	select {
	case err := <-s.ended:
		s.ended <- err // for the cleanup
	case <-time.After(deadline):
		s.t.Fatal("the checker did not end")
	}
}

// Each call of every protocol is a span under its caller's that tells what was decided;
// in a batch, each request is one. Who is refused at the door makes none, nor does a
// health probe.
func TestTracesTellTheVerdict(t *testing.T) {
	const token = "a-caller-that-may-check"
	collector := telemetrytest.Start(t)
	s := start(t, "--rules", file(t, "rules.yaml", envoyRules+"  - {rule: pro-labels, key: acct_banned, deny: true}\n"), "--otlp-endpoint", collector.URL, "--token-file", file(t, "tokens", token+"\n"))
	conn := s.native()
	native := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent, "authorization", "Bearer "+token)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"acct", "acct_banned"} {
		_, err := nativeCaller(conn)(native, "pro-labels", key)
		must(err)
	}
	for _, by := range [][]connect.ClientOption{{}, {connect.WithGRPCWeb()}} {
		client := checkv1.NewCheckServiceClient(http.DefaultClient, s.api, append(by, fromTrace(token))...)
		_, err := client.Check(t.Context(), checkOf("pro-all", "acct"))
		must(err)
	}
	client := checkv1.NewCheckServiceClient(http.DefaultClient, s.api, fromTrace(token))
	_, err := client.CheckBatch(t.Context(), &checkv1.CheckBatchRequest{Requests: []*checkv1.CheckRequest{checkOf("pro-all", "acct_banned"), checkOf("nonsense", "acct")}})
	must(err)
	s.check(`{"domain": "public-api", "entries": [{"rule": "pro-all", "key": "acct_banned"}]}`, "Traceparent", traceparent, "Authorization", "Bearer "+token).want(t, http.StatusOK, "deny")
	peek := descriptor("rule", "pro-all", "account", "acct_banned")
	peek.HitsAddend = wrapperspb.UInt64(0)
	_, err = pb.NewRateLimitServiceClient(conn).ShouldRateLimit(native, &pb.RateLimitRequest{Domain: "public-api", Descriptors: []*ratelimitv3.RateLimitDescriptor{peek}})
	must(err)

	stranger := metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent)
	_, err = nativeCaller(conn)(stranger, "pro-all", "acct")
	wantError(t, err, codes.Unauthenticated, "")
	_, err = checkv1.NewCheckServiceClient(http.DefaultClient, s.api, fromTrace("wrong")).Check(t.Context(), checkOf("pro-all", "acct"))
	wantError(t, err, codes.Unauthenticated, "")
	_, err = healthv1.NewHealthClient(conn).Check(native, &healthv1.HealthCheckRequest{})
	must(err)
	s.end()
	wantSpans(t, collector)
}

// A page of an allowed origin may send its trace.
func TestPagesMaySendTheirTrace(t *testing.T) {
	s := start(t, "--allowed-origins=https://shop.example", "--otlp-endpoint", telemetrytest.Start(t).URL)
	h := s.do(http.MethodOptions, s.api+checkv1.CheckServiceCheckProcedure, "", "Origin", "https://shop.example",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type,traceparent,tracestate").Header
	if allowed := h.Get("Access-Control-Allow-Headers"); !strings.Contains(allowed, "traceparent") {
		t.Errorf("the preflight allows %q", allowed)
	}
}

// wantSpans checks the spans of TestTracesTellTheVerdict.
func wantSpans(t *testing.T, collector *telemetrytest.Collector) {
	t.Helper()
	const check = "shiplane.check.v1.CheckService/Check"
	batches := collector.Spans(check + "Batch")
	if len(batches) != 1 {
		t.Fatalf("got the spans %q, want one of a batch", collector.Names())
	}
	total := 0
	for _, c := range []struct {
		name, parent string
		said         []string
	}{
		{check, callersSpan, []string{"allowed by store false  ", "allowed by store false  ", "allowed by store false  ", "denied by ban false public-api pro-labels"}},
		{check + "Batch", callersSpan, []string{" by    "}},
		{"request of a batch", batches[0].ID, []string{"bad_request by request false  ", "denied by ban false public-api pro-all"}},
		{"POST /v1/ratelimit:check", callersSpan, []string{"denied by ban false public-api pro-all"}},
		{"envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", callersSpan, []string{"denied by ban false public-api pro-all"}},
	} {
		var said []string
		for _, span := range collector.Spans(c.name) {
			tells := func(name string) string { return span.Attributes["shiplane."+name] }
			said = append(said, tells("verdict")+" by "+strings.Join([]string{tells("decided_by"), tells("shadow"), tells("domain"), tells("rule")}, " "))
			if span.Service != "shiplane-checker" || span.Trace != callersTrace || span.Parent != c.parent {
				t.Errorf("%s: got %+v", c.name, span)
			}
		}
		slices.Sort(said)
		if !slices.Equal(said, c.said) {
			t.Errorf("spans %s tell\n%q, want\n%q", c.name, said, c.said)
		}
		total += len(said)
	}
	if names := collector.Names(); len(names) != total {
		t.Errorf("got the spans %q, want %d", names, total)
	}
}
