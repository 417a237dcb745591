package envoy

import (
	"errors"
	"math"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// The members of dynamic_metadata, on a refusal. Envoy's access log can show them.
const (
	metaVerdict    = "verdict"    // denied or unavailable, or unreadable
	metaRule       = "rule"       // that refused first
	metaDescriptor = "descriptor" // the first that met it, from 0
	metaCause      = "cause"      // store_timeout or store_unavailable
)

// verdictUnreadable is the verdict on a value that nobody can be.
const verdictUnreadable = "unreadable"

// unlimited is the answer to descriptors that no rule is about.
func unlimited(n int) *pb.RateLimitResponse {
	r := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, n)}
	all := make([]pb.RateLimitResponse_DescriptorStatus, n)
	for i := range all {
		all[i].Code, r.Statuses[i] = pb.RateLimitResponse_OK, &all[i]
	}
	return r
}

// unheard refuses a request of which nothing was asked or charged. descriptor is
// the one at fault, of n; -1 where not even they can be read.
func unheard(n, descriptor int) *pb.RateLimitResponse {
	r := unlimited(n)
	r.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	fields := map[string]*structpb.Value{metaVerdict: structpb.NewStringValue(verdictUnreadable)}
	if descriptor >= 0 {
		r.Statuses[descriptor].Code = pb.RateLimitResponse_OVER_LIMIT
		fields[metaDescriptor] = structpb.NewNumberValue(float64(descriptor))
	}
	r.DynamicMetadata = &structpb.Struct{Fields: fields}
	return r
}

// respond says what the engine has decided.
func (a *ask) respond(answer *decide.Answer, enforces bool) *pb.RateLimitResponse {
	d := &answer.Decision
	r := unlimited(len(a.of))
	for i, charges := range a.of {
		tighten(r.Statuses[i], answer, charges)
	}
	if d.Verdict != limit.Allowed {
		r.OverallCode = pb.RateLimitResponse_OVER_LIMIT
		r.DynamicMetadata = a.metadata(answer)
	}
	if enforces {
		r.ResponseHeadersToAdd = headers(d)
	}
	return r
}

// tighten tells of the charges of a descriptor the tightest: the first that refuses,
// else the one with the least left. An Envoy can show it to clients
// (enable_x_ratelimit_headers), so it tells nothing of rules in shadow, nor of a
// counter that gave no answer.
func tighten(status *pb.RateLimitResponse_DescriptorStatus, answer *decide.Answer, charges []int) {
	var tightest *limit.Outcome
	least := int64(math.MaxInt64)
	for _, at := range charges {
		o := answer.Outcome(at)
		switch {
		case o == nil || answer.Shadowed(o):
		case (o.Short || o.DecidedBy == limit.ByFailClosed) && least >= 0:
			tightest, least = o, -1
			status.Code = pb.RateLimitResponse_OVER_LIMIT
		case o.Known && o.Remaining < least:
			tightest, least = o, o.Remaining
		}
	}
	if tightest == nil {
		return
	}
	status.CurrentLimit = tell(tightest.Rule, tightest.Limit)
	status.LimitRemaining = saturated(max(0, tightest.Remaining))
	switch {
	case !tightest.Known, tightest.Never: // there is no such time
	case tightest.Short:
		status.DurationUntilReset = durationpb.New(tightest.Retry)
	default:
		status.DurationUntilReset = durationpb.New(tightest.Reset)
	}
}

// metadata says who refused, and why where it is no limit that was reached.
func (a *ask) metadata(answer *decide.Answer) *structpb.Struct {
	d := &answer.Decision
	fields := map[string]*structpb.Value{metaVerdict: structpb.NewStringValue(d.Verdict.String())}
	if at := answer.Refused(); at >= 0 {
		fields[metaRule] = structpb.NewStringValue(a.charges[at].Rule.Name())
		fields[metaDescriptor] = structpb.NewNumberValue(float64(slices.IndexFunc(a.of, func(of []int) bool { return slices.Contains(of, at) })))
	}
	if d.Verdict == limit.Unavailable {
		cause := httplimit.CodeStoreUnavailable
		if errors.Is(d.Cause, store.ErrTimeout) {
			cause = httplimit.CodeStoreTimeout
		}
		fields[metaCause] = structpb.NewStringValue(cause)
	}
	return &structpb.Struct{Fields: fields}
}

// headers are what Envoy hands to the client, whatever was decided.
func headers(d *limit.Decision) []*corev3.HeaderValue {
	fields := httplimit.Describe(d, false)
	var made struct {
		values [3]corev3.HeaderValue
		all    [3]*corev3.HeaderValue
	}
	all := made.all[:0]
	for i, f := range [...]struct{ name, value string }{
		{"ratelimit-policy", fields.Policy}, {"ratelimit", fields.State}, {"retry-after", fields.RetryAfter},
	} {
		if v := &made.values[i]; f.value != "" {
			v.Key, v.Value = f.name, f.value
			all = append(all, v)
		}
	}
	return all
}
