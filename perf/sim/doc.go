// Package sim drives the real data path, limiter.Core over the in-process
// store, in virtual time: regions with a store and up to 150 pods, their
// connections with latency and jitter, clients of many kinds, pods that come,
// drain and crash, stores that fail, forget and have their clocks set, limits
// and shares that change. A run is a function of its seed.
//
// # What is checked in every run
//
//   - No token is made or forgotten: what was charged was admitted, handed back,
//     lost with a crash or a failed call, or is still out; when every call was
//     answered, nothing is out once the pods have handed back what they hold.
//   - What the store charges, net of what was handed back, is at most
//     burst + rate · w in windows of every length w, at most the count in each
//     window and log, over all regions together too. While a limit changes, it is
//     the larger of those that somebody still follows.
//   - What pods admit is at most that and what was on lease or on the wire when
//     the window began.
//   - No request stays undecided. While every call is answered none waits longer
//     than two round trips to the store a subject; three where a window ends or
//     a limit changes under it.
//   - A closed rule lets nobody pass that no token paid for.
//
// While the store is healthy, no more than 2.5 % of burst + rate · 10 s is
// admitted above it in ten seconds. What else a run must come to, its scenario
// says (Want, Check). Beside it an oracle, one exact counter for all pods without
// a network, says what each request was entitled to.
//
// # What is left out
//
// A window or log has one home region, which is not modelled: scenarios of
// several regions use buckets. The Redis store's breaker is not part of the core:
// an outage is one call after the other that fails.
package sim
