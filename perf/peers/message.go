package peers

import (
	"fmt"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// protocol is how a service is asked for a decision.
type protocol struct {
	method  string
	message func(key string, rules []string) ([]byte, error)
	read    func(answer []byte) verdict
}

// verdict is what an answer says.
type verdict int

const (
	failed verdict = iota // none
	admitted
	refused
)

// domain is that of the rules, in each service's own configuration.
const domain = "peers"

// envoyProtocol asks as Envoy does. rules become one descriptor each: the services
// that speak it have been told what "rule" and "account" mean.
var envoyProtocol = protocol{
	method: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
	message: func(key string, rules []string) ([]byte, error) {
		q := &ratelimit.RateLimitRequest{Domain: domain}
		for _, rule := range rules {
			q.Descriptors = append(q.Descriptors, &common.RateLimitDescriptor{Entries: []*common.RateLimitDescriptor_Entry{
				{Key: "rule", Value: rule}, {Key: "account", Value: key},
			}})
		}
		return proto.Marshal(q)
	},
	read: func(answer []byte) verdict {
		const overallCode = 1
		switch ratelimit.RateLimitResponse_Code(number(answer, overallCode)) {
		case ratelimit.RateLimitResponse_OK:
			return admitted
		case ratelimit.RateLimitResponse_OVER_LIMIT:
			return refused
		default:
			return failed
		}
	},
}

// checkProtocol asks by the checker's own contract.
var checkProtocol = protocol{
	method: "/shiplane.check.v1.CheckService/Check",
	message: func(key string, rules []string) ([]byte, error) {
		q := &checkv1.CheckRequest{Domain: domain}
		for _, rule := range rules {
			q.Entries = append(q.Entries, &checkv1.Entry{Rule: rule, Key: key})
		}
		return proto.Marshal(q)
	},
	read: func(answer []byte) verdict {
		const field = 1
		switch checkv1.Verdict(number(answer, field)) {
		case checkv1.Verdict_VERDICT_ALLOWED:
			return admitted
		case checkv1.Verdict_VERDICT_DENIED:
			return refused
		default:
			return failed
		}
	},
}

// gubernatorProtocol asks gubernator, which is told each rule's limit by the call
// itself. The messages are written by hand: its package would bring in its server.
var gubernatorProtocol = protocol{
	method: "/pb.gubernator.V1/GetRateLimits",
	message: func(key string, rules []string) ([]byte, error) {
		const name, uniqueKey, hits, most, duration = 1, 2, 3, 4, 5 // of RateLimitReq; algorithm 0 is the token bucket
		var all []byte
		for _, rule := range rules {
			perSecond, known := rates[rule]
			if !known {
				return nil, fmt.Errorf("rule %q has no rate", rule)
			}
			var q []byte
			q = protowire.AppendString(protowire.AppendTag(q, name, protowire.BytesType), rule)
			q = protowire.AppendString(protowire.AppendTag(q, uniqueKey, protowire.BytesType), key)
			for field, value := range map[protowire.Number]uint64{hits: 1, most: uint64(perSecond), duration: 1000} {
				q = protowire.AppendVarint(protowire.AppendTag(q, field, protowire.VarintType), value)
			}
			all = protowire.AppendBytes(protowire.AppendTag(all, 1, protowire.BytesType), q)
		}
		return all, nil
	},
	read: func(answer []byte) verdict {
		const responses, status, overLimit, fault = 1, 1, 1, 5
		strictest := failed
		for len(answer) > 0 {
			field, kind, n := protowire.ConsumeTag(answer)
			if n < 0 || field != responses || kind != protowire.BytesType {
				return failed
			}
			one, m := protowire.ConsumeBytes(answer[n:])
			if m < 0 || has(one, fault) {
				return failed
			}
			if strictest = max(strictest, admitted); number(one, status) == overLimit {
				strictest = refused
			}
			answer = answer[n+m:]
		}
		return strictest
	},
}

// number returns the value of a message's number field; 0 if it is not there.
func number(message []byte, field protowire.Number) uint64 {
	value, _ := protowire.ConsumeVarint(find(message, field))
	return value
}

// has reports whether a field of a message is there.
func has(message []byte, field protowire.Number) bool { return find(message, field) != nil }

// find returns what follows the tag of a message's field; nil if it is not there.
func find(message []byte, field protowire.Number) []byte {
	for len(message) > 0 {
		found, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		if found == field {
			return message[n:]
		}
		m := protowire.ConsumeFieldValue(found, kind, message[n:])
		if m < 0 {
			return nil
		}
		message = message[n+m:]
	}
	return nil
}
