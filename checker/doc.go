// Package checker is the check as a service, for callers that do not link the checker:
// Connect, gRPC-Web and plain JSON at one address, native gRPC at another, Envoy's
// rate limit protocol included.
//
// Behind all of them stands one service and one limiter, so that a call costs the store
// what a request through a gateway costs it: what the checker holds on lease is spent
// without asking.
//
// # What a caller's deadline does
//
// A call whose caller has left before it is looked at charges nobody: an overloaded
// checker spends nothing on answers that nobody waits for. A decision that has begun is
// brought to its end, in some milliseconds at most, and what it has charged stays so;
// to hand it back was weighed (2026-12-02) and left: the caller may well have let the
// request pass, and whoever can undo a charge by leaving early has no limit.
package checker
