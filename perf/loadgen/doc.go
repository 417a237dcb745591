// Package loadgen is an open-loop load generator: it decides when each request
// is to be sent before the run begins, and neither a slow reply nor a busy
// connection moves that plan. Latency runs from the intended send time to the
// end of the reply, so that a server which stalls for a second shows every
// request that the second would have delayed, not one (no coordinated
// omission).
//
// What was admitted is compared with what a token bucket allows: B + R·t for
// each key, with t from the key's first send to its last reply, both measured
// here. Every charge lies between the two, so a correct limiter is never above
// the bound, however slow the machine is.
//
// Pacing, connections and workers are vegeta's; the plan (arrivals.go), the
// keys (keys.go) and the account of what came back (tally.go) are ours.
//
// If the generator cannot keep its plan (too few workers, a busy machine), it
// sends late rather than less, and the report says so: the delay of the sends
// is measured like the latency. What is still unsent when the run has lasted
// the duration and one timeout is given up and counted.
package loadgen
