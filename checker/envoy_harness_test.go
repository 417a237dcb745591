package checker

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// envoyRules refill so slowly that no test sees it: what is spent is gone.
const envoyRules = `
plans: [{id: free}, {id: pro}]
routes:
  - {id: labels, match: "GET /v1/labels/{id}"}
  - {id: bulk, match: ["POST /v1/bulk", "POST bulk.example/"], cost: 10}
  - {id: login, match: "POST /v1/login", user_field: username}
rules:
  - {id: free-day, plan: free, identity: api_key, algorithm: fixed_window, limit: 3, window: 1d}
  - {id: pro-all, plan: pro, identity: api_key, algorithm: token_bucket, rate: 5/d, burst: 25}
  - {id: pro-labels, plan: pro, route: labels, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 2}
  - {id: pro-trial, plan: pro, route: labels, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 1, mode: shadow}
  - {id: nobody-ip, plan: anonymous, identity: ip, algorithm: fixed_window, limit: 2, window: 2d}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 2, window: 1h, fail_mode: closed}
overrides:
  - {rule: pro-all, key: acct_banned, deny: true}
`

// envoyCaller is an Envoy that calls a checker.
type envoyCaller struct {
	t      *testing.T
	client pb.RateLimitServiceClient
	domain string
}

func (s *running) envoy() *envoyCaller {
	return &envoyCaller{s.t, pb.NewRateLimitServiceClient(s.native()), "public-api"}
}

func startEnvoy(t *testing.T, more ...string) (*running, *envoyCaller) {
	t.Helper()
	s := start(t, append([]string{"--rules", file(t, "rules.yaml", envoyRules)}, more...)...)
	return s, s.envoy()
}

// descriptor makes one of key, value, key, value…
func descriptor(pairs ...string) *ratelimitv3.RateLimitDescriptor {
	d := &ratelimitv3.RateLimitDescriptor{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

func (e *envoyCaller) ask(q *pb.RateLimitRequest) *pb.RateLimitResponse {
	e.t.Helper()
	r, err := e.client.ShouldRateLimit(e.t.Context(), q)
	if err != nil {
		e.t.Fatalf("%v: %v", q, err)
	}
	if len(r.GetStatuses()) != len(q.GetDescriptors()) {
		e.t.Errorf("%d statuses of %d descriptors", len(r.GetStatuses()), len(q.GetDescriptors()))
	}
	return r
}

// said asks with one hit, and returns the answer as text.
func (e *envoyCaller) said(descriptors ...*ratelimitv3.RateLimitDescriptor) string {
	e.t.Helper()
	return textOf(e.ask(&pb.RateLimitRequest{Domain: e.domain, Descriptors: descriptors}))
}

// textOf is the overall code, and of each descriptor code, limit and what is left.
func textOf(r *pb.RateLimitResponse) string {
	text := r.GetOverallCode().String()
	for i, s := range r.GetStatuses() {
		text += map[bool]string{true: ": ", false: ", "}[i == 0] + s.GetCode().String()
		l := s.GetCurrentLimit()
		if l == nil {
			continue
		}
		multiple := ""
		if m := l.GetUnitMultiplier(); m != nil {
			multiple = fmt.Sprint(m.GetValue(), " ")
		}
		text += fmt.Sprintf(" %s %d per %s%v left %d", l.GetName(), l.GetRequestsPerUnit(), multiple, l.GetUnit(), s.GetLimitRemaining())
	}
	return text
}

// want checks what an answer says as text.
func (e *envoyCaller) want(got, want string) {
	e.t.Helper()
	if got != want {
		e.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// header returns what the client is to get by a name, "" for nothing.
func header(r *pb.RateLimitResponse, name string) string {
	for _, h := range r.GetResponseHeadersToAdd() {
		if h.GetKey() == name {
			return h.GetValue()
		}
	}
	return ""
}

// notUTF8 sends a message in which INVALID is no UTF-8, as Envoy does with what a
// client sends.
var notUTF8 = grpc.ForceCodecV2(brokenCodec{encoding.GetCodecV2("proto")})

type brokenCodec struct{ encoding.CodecV2 }

func (c brokenCodec) Marshal(v any) (mem.BufferSlice, error) {
	text, err := c.CodecV2.Marshal(v)
	return mem.BufferSlice{mem.SliceBuffer(bytes.ReplaceAll(text.Materialize(), []byte("INVALID"), []byte("\xff\xfe\xfdALID")))}, err
}

var (
	free      = []string{"account", "acct_free", "plan", "free"}
	pro       = []string{"account", "acct_pro", "plan", "pro"}
	proLabels = append(slices.Clone(pro), "path", "/v1/labels/7?full=1", "method", "GET")
)
