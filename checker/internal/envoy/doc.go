// Package envoy speaks Envoy's rate limit protocol,
// envoy.service.ratelimit.v3.RateLimitService, so that an Envoy or Istio can point at
// a checker. docs/envoy.md says it for its users.
//
// A descriptor says who asks and for what, in the keys of descriptor.go. It meets the
// rules that a request of that plan, route class and identities would meet at a
// gateway, or those that it names. All descriptors of a call are one request: all of
// it is charged or nothing, and a counter that several of them meet is charged once.
//
// # What happens in doubt
//
// An Envoy admits a request when its call fails, unless failure_mode_deny says
// otherwise (2026-12-02: false is its default). So an error is the answer only to what
// the operator of an Envoy has configured wrongly, or while a checker has no rules.
// Whatever a client of his can bring about is a verdict:
//
//   - A rule that fails closed and whose counter gives no answer is OVER_LIMIT.
//     UNAVAILABLE, which other callers get, would let the request pass.
//   - So is what no rule can be asked about: an address that is none, a name that is
//     too long, a message with a value that is not UTF-8, which gRPC would answer with
//     an error before a handler sees it.
//   - A descriptor that maps to nothing is OK, as it is everywhere that the protocol is
//     spoken. It is counted, and logged once for each key.
//
// Hits are never handed back: whoever can hand back can mint.
package envoy
