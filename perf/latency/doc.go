// Package latency measures what the limiter adds to a request: a gateway with it
// against the same gateway with --mode off, each in a process of its own, before
// the same upstream and under the same load.
//
// The two are measured in turns, in slices of a second or two, the order
// reversed from pair to pair, so that what else the machine does meets both. The
// figure is the median over the pairs of the difference of their 99th
// percentiles, with the quartiles beside it. It is reported, never asserted: on a
// shared machine the quartiles tell what it is worth.
//
// Load and latency are perf/loadgen's: open loop, from the intended send.
package latency
