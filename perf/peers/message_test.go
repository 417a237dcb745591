package peers

import (
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// An answer is a decision only where it says one: an error inside of an answer is
// not taken for an admission.
func TestAnswersAreReadAsTheirServicesMeanThem(t *testing.T) {
	marshal := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	gubernator := func(responses ...[]byte) (all []byte) {
		for _, r := range responses {
			all = protowire.AppendBytes(protowire.AppendTag(all, 1, protowire.BytesType), r)
		}
		return all
	}
	var (
		under = protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 10)
		over  = protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
		fault = protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), "pool is empty")
	)
	for _, c := range []struct {
		name   string
		read   func([]byte) verdict
		answer []byte
		want   verdict
	}{
		{"Envoy, OK", envoyProtocol.read, marshal(&ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}), admitted},
		{"Envoy, over limit", envoyProtocol.read, marshal(&ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OVER_LIMIT}), refused},
		{"Envoy, unknown", envoyProtocol.read, marshal(&ratelimit.RateLimitResponse{}), failed},
		{"check, allowed", checkProtocol.read, marshal(&checkv1.CheckResponse{Verdict: checkv1.Verdict_VERDICT_ALLOWED}), admitted},
		{"check, denied", checkProtocol.read, marshal(&checkv1.CheckResponse{Verdict: checkv1.Verdict_VERDICT_DENIED}), refused},
		{"check, nothing", checkProtocol.read, nil, failed},
		{"gubernator, under", gubernatorProtocol.read, gubernator(under, under), admitted},
		{"gubernator, one is over", gubernatorProtocol.read, gubernator(under, over), refused},
		{"gubernator, one is an error", gubernatorProtocol.read, gubernator(over, fault), failed},
		{"gubernator, nothing", gubernatorProtocol.read, nil, failed},
		{"gubernator, cut off", gubernatorProtocol.read, gubernator(over)[:3], failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.read(c.answer); got != c.want {
				t.Errorf("read %d, want %d", got, c.want)
			}
		})
	}
}
