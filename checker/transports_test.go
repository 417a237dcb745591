package checker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/shiplane/limits/libs/limit"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// seedRequest is the first example that anybody sees of the check.
const seedRequest = `{
  "domain": "public-api",
  "entries": [
    {"rule": "growth-global", "key": "acct_7Q2", "cost": 1},
    {"rule": "labels-route", "key": "acct_7Q2", "cost": 1}
  ]
}`

// The request of the documentation gets the response of the documentation, but for
// what time decides.
func TestExampleGetsTheShownResponse(t *testing.T) {
	s := start(t)
	got := s.check(seedRequest)
	got.want(t, http.StatusOK, "")
	want := regexp.MustCompile(`^\{"verdict":"allow","entries":\[\{"rule":"growth-global","remaining":199,"reset_ms":\d+\},\{"rule":"labels-route","remaining":2,"reset_ms":\d+\}\]\}` + "\n$")
	if !want.MatchString(got.body) || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s %s", got.Header.Get("Content-Type"), got.body)
	}
	s.check(seedRequest)
	s.check(seedRequest)
	denied := s.check(seedRequest) // the route's bucket is empty: the account's is not charged
	denied.want(t, http.StatusOK, `{"verdict":"deny","entries":[{"rule":"growth-global","remaining":197,`)
	denied.want(t, http.StatusOK, `"retry_ms":`)
}

// caller asks whether a key may be charged by a rule.
type caller func(ctx context.Context, rule, key string) (*checkv1.CheckResponse, error)

func checkOf(rule, key string) *checkv1.CheckRequest {
	return &checkv1.CheckRequest{Domain: "public-api", Entries: []*checkv1.Entry{{Rule: rule, Key: key}}}
}

// callers are clients of all protocols but plain JSON.
func (s *running) callers() map[string]caller {
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	s.t.Cleanup(h2c.CloseIdleConnections)
	by := func(transport http.RoundTripper, options ...connect.ClientOption) caller {
		client := checkv1.NewCheckServiceClient(&http.Client{Transport: transport}, s.api, options...)
		return func(ctx context.Context, rule, key string) (*checkv1.CheckResponse, error) {
			return client.Check(ctx, checkOf(rule, key))
		}
	}
	conn := s.native()
	return map[string]caller{
		"connect":           by(s.transport),
		"connect json":      by(s.transport, connect.WithProtoJSON()),
		"connect h2c":       by(h2c),
		"grpc-web":          by(s.transport, connect.WithGRPCWeb()),
		"grpc by connect":   by(h2c, connect.WithGRPC()),
		"native grpc":       nativeCaller(conn),
		"connect with gzip": by(s.transport, connect.WithSendGzip()),
	}
}

func nativeCaller(conn *grpc.ClientConn) caller {
	return func(ctx context.Context, rule, key string) (*checkv1.CheckResponse, error) {
		answer := &checkv1.CheckResponse{}
		return answer, conn.Invoke(ctx, checkv1.CheckServiceCheckProcedure, checkOf(rule, key), answer)
	}
}

// The same request is decided alike whatever protocol it comes by, and so are faults.
func TestAllProtocolsDecideAlike(t *testing.T) {
	s := start(t)
	for name, call := range s.callers() {
		t.Run(name, func(t *testing.T) {
			var got []string
			for range 4 {
				a, err := call(t.Context(), "labels-route", name)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%v %d", a.GetVerdict(), a.GetEntries()[0].GetRemaining()))
			}
			if want := "VERDICT_ALLOWED 2, VERDICT_ALLOWED 1, VERDICT_ALLOWED 0, VERDICT_DENIED 0"; strings.Join(got, ", ") != want {
				t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
			}
			_, err := call(t.Context(), "nonsense", name)
			wantError(t, err, codes.NotFound, `entries[0].rule "nonsense": not found`)
			_, err = call(t.Context(), "labels-route", "")
			wantError(t, err, codes.InvalidArgument, "entries[0].key is 0 bytes: want 1 to 4096")
			_, err = call(t.Context(), "labels-route", strings.Repeat("x", requestMax))
			wantError(t, err, codes.ResourceExhausted, "")
		})
	}
}

// An outcome tells what its rule allows, so that a caller can tell its own callers.
func TestOutcomesTellTheLimit(t *testing.T) {
	call := nativeCaller(start(t).native())
	for rule, want := range map[string]string{"growth-global": "200 at 1/d, 0s", "login-user": "2 at 0/s, 1h0m0s"} {
		a, err := call(t.Context(), rule, "ada")
		if err != nil {
			t.Fatal(err)
		}
		o := a.GetEntries()[0]
		if got := fmt.Sprintf("%d at %v, %v", o.GetSize(), limit.Rate(o.GetRate()), o.GetWindow().AsDuration()); got != want {
			t.Errorf("%s: got %s, want %s", rule, got, want)
		}
	}
}

// wantError checks an error of either library.
func wantError(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	got, message := codes.Code(connect.CodeOf(err)), fmt.Sprint(err)
	if s, ok := status.FromError(err); ok {
		got, message = s.Code(), s.Message()
	}
	if err == nil || got != code || !strings.Contains(message, text) {
		t.Errorf("got %v %s, want %v with %s", got, message, code, text)
	}
}

// A tool that knows nothing of the service finds it, its methods and its health at
// the gRPC port, as grpcurl does.
func TestNativeServiceDescribesItself(t *testing.T) {
	s := start(t)
	conn := s.native()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(q *reflectionv1.ServerReflectionRequest) *reflectionv1.ServerReflectionResponse {
		if err := stream.Send(q); err != nil {
			t.Fatal(err)
		}
		a, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	var names []string
	for _, service := range ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	for _, want := range []string{checkv1.CheckServiceName, "grpc.health.v1.Health"} {
		if !slices.Contains(names, want) {
			t.Errorf("the services are %v: want %s", names, want)
		}
	}
	described := ask(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: checkv1.CheckServiceName}})
	file := &descriptorpb.FileDescriptorProto{}
	if files := described.GetFileDescriptorResponse().GetFileDescriptorProto(); len(files) == 0 || proto.Unmarshal(files[0], file) != nil || len(file.GetService()) != 1 || len(file.GetService()[0].GetMethod()) != checkv1.File_shiplane_check_v1_check_proto.Services().Get(0).Methods().Len() {
		t.Errorf("described as %v", described)
	}
	health := healthv1.NewHealthClient(conn)
	for service, want := range map[string]codes.Code{"": codes.OK, checkv1.CheckServiceName: codes.OK, "nonsense": codes.NotFound} {
		a, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if status.Code(err) != want || want == codes.OK && a.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, a, err)
		}
	}
}

// A watch of the health is told what is, and ends with the server instead of keeping
// it from ending.
func TestWatchOfHealthEndsWithTheServer(t *testing.T) {
	s := start(t)
	watch, err := healthv1.NewHealthClient(s.native()).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := watch.Recv(); err != nil || a.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Fatalf("told %v, %v", a, err)
	}
	s.stop()
	for err == nil { // it may tell of the drain before
		_, err = watch.Recv()
	}
	if err == io.EOF || status.Code(err) != codes.Unavailable { //nolint:errorlint // Recv's contract
		t.Errorf("ended with %v", err)
	}
}

// A batch decides each request by itself; what is wrong with one is told in its place.
func TestBatchDecidesEachByItself(t *testing.T) {
	s := start(t)
	client := checkv1.NewCheckServiceClient(http.DefaultClient, s.api)
	a, err := client.CheckBatch(t.Context(), &checkv1.CheckBatchRequest{Requests: []*checkv1.CheckRequest{
		checkOf("growth-global", "acct"), checkOf("nonsense", "acct"), checkOf("growth-global", ""), checkOf("labels-route", "acct"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := a.GetResults()
	if len(r) != 4 || r[0].GetResponse().GetVerdict() != checkv1.Verdict_VERDICT_ALLOWED || !r[1].GetFault().GetNotFound() ||
		r[2].GetFault() == nil || r[2].GetFault().GetNotFound() || r[3].GetResponse().GetEntries()[0].GetRemaining() != 2 {
		t.Errorf("got %v", r)
	}
	for _, n := range []int{0, 257} {
		_, err := client.CheckBatch(t.Context(), &checkv1.CheckBatchRequest{Requests: slices.Repeat([]*checkv1.CheckRequest{checkOf("growth-global", "acct")}, n)})
		wantError(t, err, codes.InvalidArgument, "requests has")
	}
}

// A field that the contract does not have is a mistake in JSON by hand, and a newer
// client's in a generated one.
func TestUnknownFields(t *testing.T) {
	s := start(t)
	s.check(`{"domain": "public-api", "entries": [{"rule": "growth-global", "key": "a", "weight": 2}]}`).want(t, http.StatusBadRequest, `unknown field \"weight\"`)
	s.do(http.MethodPost, s.api+checkv1.CheckServiceCheckProcedure, `{"domain": "public-api", "entries": [{"rule": "growth-global", "key": "a", "weight": 2}]}`,
		"Content-Type", "application/json").want(t, http.StatusOK, "VERDICT_ALLOWED")
}

// While the store of a rule that fails closed is away the whole answer comes with 503;
// a rule that fails open has its answer as ever.
func TestStoreThatIsAway(t *testing.T) {
	s := start(t, "--store=redis://127.0.0.1:1")
	s.check(`{"domain": "public-api", "entries": [{"rule": "growth-global", "key": "acct"}]}`).want(t, http.StatusOK, `{"verdict":"allow","entries":[{"rule":"growth-global"`)
	closed := s.check(`{"domain": "public-api", "entries": [{"rule": "login-user", "key": "ada"}]}`)
	closed.want(t, http.StatusServiceUnavailable, `"code":"store_unavailable"`)
	closed.want(t, http.StatusServiceUnavailable, `"verdict":"deny","entries":[{"rule":"login-user"}]`)
	for name, call := range s.callers() {
		_, err := call(t.Context(), "login-user", "ada")
		wantError(t, err, codes.Unavailable, "store_unavailable")
		if a := detailOf(err); a.GetVerdict() != checkv1.Verdict_VERDICT_UNAVAILABLE || a.GetCause() != checkv1.Cause_CAUSE_STORE_UNAVAILABLE {
			t.Errorf("%s: the error carries %v", name, a)
		}
	}
}

// detailOf returns the answer that an error of either library carries, nil for none.
func detailOf(err error) *checkv1.CheckResponse {
	if s, ok := status.FromError(err); ok {
		for _, detail := range s.Details() {
			if a, ok := detail.(*checkv1.CheckResponse); ok {
				return a
			}
		}
	}
	failure := new(connect.Error)
	if !errors.As(err, &failure) {
		return nil
	}
	for _, detail := range failure.Details() {
		if m, err := detail.Value(); err == nil {
			if a, ok := m.(*checkv1.CheckResponse); ok {
				return a
			}
		}
	}
	return nil
}
