package envoy_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/checker/internal/envoy"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/store/memory"
)

const rules = `
routes:
  - {id: login, match: "POST /v1/login", user_field: username}
  - {id: labels, match: ["GET /v1/labels/{id...}", "other.example/"], cost: 3}
rules:
  - {id: all, scope: all, identity: api_key, algorithm: token_bucket, rate: 10/s, burst: 20}
  - {id: by-route, route: labels, identity: ip, algorithm: fixed_window, limit: 5, window: 1m}
  - {id: by-user, scope: all, identity: user, algorithm: sliding_log, limit: 5, window: 1m}
  - {id: ample, scope: all, identity: user, algorithm: token_bucket, rate: 1000000/s, burst: 1000000}
  - {id: afterwards, scope: all, identity: ip, algorithm: token_bucket, rate: 10/s, burst: 20, check: after}
`

type source struct{ *ruleset.Live }

func (source) Now() time.Time { return time.Now() }

// late is a domain whose rules were not had yet.
type late struct{ source }

func (late) Current() *ruleset.Ruleset { return nil }

type nobody struct{}

func (nobody) Decided(context.Context, *limit.Decision, *limit.Rule, bool) {}
func (nobody) Failed(context.Context, error)                               {}

// registrar takes what would be registered.
type registrar struct {
	desc    *grpc.ServiceDesc
	service any
}

func (r *registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	r.desc, r.service = desc, service
}

func newService(t *testing.T) pb.RateLimitServiceServer {
	t.Helper()
	return register(t).service.(pb.RateLimitServiceServer) //nolint:forcetypeassert // the test ends
}

func register(t testing.TB) (made registrar) {
	t.Helper()
	live, err := ruleset.OpenBytes("test", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	limits, err := limiter.New(limiter.Config{Store: store, Unpaced: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limits.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	engine := decide.New(decide.Config{Domains: map[string]decide.Source{"public-api": source{live}, "late": late{}}, Limiter: limits, Mode: decide.Enforce, Observer: nobody{}})
	if err := envoy.Register(&made, envoy.Config{Engine: engine, Metrics: noop.NewMeterProvider(), Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return made
}

// BenchmarkShouldRateLimit is a call of two descriptors without gRPC's own part of it.
func BenchmarkShouldRateLimit(b *testing.B) {
	made := register(b)
	var q pb.RateLimitRequest
	q.Domain = "public-api"
	for _, user := range [...]string{"one", "another"} {
		q.Descriptors = append(q.Descriptors, &ratelimitv3.RateLimitDescriptor{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{
			{Key: "rule", Value: "ample"}, {Key: "user", Value: user},
		}})
	}
	message, err := proto.Marshal(&q)
	if err != nil {
		b.Fatal(err)
	}
	decode := func(into any) error { return proto.Unmarshal(message, into.(proto.Message)) } //nolint:forcetypeassert // gRPC's
	b.ReportAllocs()
	for b.Loop() {
		answer, err := made.desc.Methods[0].Handler(made.service, b.Context(), decode, nil)
		if err != nil || len(answer.(*pb.RateLimitResponse).GetStatuses()) != len(q.GetDescriptors()) { //nolint:forcetypeassert // the handler's
			b.Fatal(answer, err)
		}
	}
}

// What is no verdict is an error with the code that other callers get, and charges
// nobody: a call that had ended, and rules that were not had yet.
func TestErrorsThatAreNoVerdicts(t *testing.T) {
	service := newService(t)
	ask := func(ctx context.Context, domain string) (*pb.RateLimitResponse, codes.Code) {
		r, err := service.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{
			{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "account", Value: "acct"}}},
		}})
		return r, status.Code(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	passed, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, c := range []struct {
		ctx    context.Context
		domain string
		want   codes.Code
	}{
		{canceled, "public-api", codes.Canceled}, {passed, "public-api", codes.DeadlineExceeded}, {t.Context(), "late", codes.Unavailable},
	} {
		if _, got := ask(c.ctx, c.domain); got != c.want {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
	if r, _ := ask(t.Context(), "public-api"); r.GetStatuses()[0].GetLimitRemaining() != 19 {
		t.Errorf("somebody was charged: %v", r)
	}
}

// Whatever values a client brings into a descriptor, and whatever hits: the call is
// answered, with a status for each descriptor, and the overall code is the strictest of
// them. An error would let the client pass.
func TestNoValueMakesACallFail(t *testing.T) {
	service := newService(t)
	value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", " ", "acct", "192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1%eth0", "2001:db8::/64", "192.0.2.0/24", "1.2.3.4:80", "/v1/labels/7", "/v1/labels/%", "/../%2e%2F?x",
		"*", "http://other.example/", "other.example:80", "GET", "get", "labels", "all", "by-user", "anonymous", "\x00", "{}",
	}))
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom([]string{"path", "route"}).Draw(t, "place")
		q := &pb.RateLimitRequest{Domain: "public-api", HitsAddend: rapid.Uint32().Draw(t, "hits")}
		for range rapid.IntRange(1, 3).Draw(t, "descriptors") {
			d := &ratelimitv3.RateLimitDescriptor{}
			for _, key := range []string{"account", "remote_address", "user", "plan", place, "method", "host", "rule", "rule"} {
				if rapid.Bool().Draw(t, key) {
					d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value.Draw(t, "value")})
				}
			}
			if rapid.Bool().Draw(t, "own") {
				d.HitsAddend = wrapperspb.UInt64(rapid.Uint64Range(0, 30).Draw(t, "own hits"))
			}
			q.Descriptors = append(q.Descriptors, d)
		}
		r, err := service.ShouldRateLimit(context.Background(), q)
		if err != nil || len(r.GetStatuses()) != len(q.GetDescriptors()) {
			t.Fatalf("%v: %v, %v", q, r, err)
		}
		strictest := pb.RateLimitResponse_OK
		for _, s := range r.GetStatuses() {
			strictest = max(strictest, s.GetCode())
		}
		if r.GetOverallCode() != strictest {
			t.Fatalf("%v: %v", q, r)
		}
	})
}
