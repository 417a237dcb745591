// Package remote is the checker service as a store: what libs/store says, over
// CheckService.Acquire. It needs no access to the counters' own store.
//
// # How asks travel
//
// Asks to a checker leave by a few lanes (libs/store/lanes): one that finds a lane free
// goes at once, those that do not leave together with the next Acquire. Each lane is a
// connection of HTTP/1.1 that is kept. Weighed in December 2026 by BenchmarkProtocols,
// which counts the processor time of client and server together: an ask by itself takes
// 108 µs, one of 64 in flight 26 µs, in calls of nine asks. HTTP/2 takes 50 % and 34 %
// more. Compression, which connect's servers do for whoever accepts it, takes three
// times and twice as much.
//
// # When a checker does not answer
//
// A call has one timeout, whatever happens in it. An ask that certainly was not sent
// (no connection could be made, the breaker is open, the checker does not know us) goes
// to another checker at once. One that may have been executed is never sent again: Take
// then returns an error that wraps store.ErrTimeout. So is an ask whose connection
// broke before its answer.
//
// A breaker for each checker (libs/store/breaker) stops asks to one that does not
// answer. No request is risked to find out whether it is back: its health is asked, once
// a second, and more often just after it refused a connection, for then it may be
// restarting, or the balancer before it may not have noticed yet.
//
// A checker whose own store does not answer an ask says so in the ask's result. That is
// the ask's error, and no failure of the checker: one dead shard behind it leaves it in
// use.
//
// A checker that drains answers what it has accepted, and closes each connection with
// the answer. From the first such answer on the others are preferred, for a second each
// time, and connections to it that are idle are dropped, so that none is written to as
// it closes. While there is no other it is used on.
//
// # Bounds
//
// Asks that wait or travel, and connections, are bounded for each checker; beyond, asks
// go elsewhere or fail at once. An answer that is late closes no connection before a
// second has passed: a slow checker is not struck by reconnections as well. While as
// many answers are overdue as there may be connections, asks are not sent, and count
// against the checker. In an outage each pod asks each checker's health once a second,
// and nothing else.
package remote
