// Package real plays key scenarios of perf/sim for real: eight processes, each a
// pod with a limiter over a real Redis Cluster, in real time. Each scenario's
// arrivals are drawn beforehand; the simulator then plays the very same ones,
// and what both admitted is set beside each other. The simulator's other
// figures are worth as much as these two agree.
//
// The machine that plays all pods, the cluster and the clients at once is slower
// than eight machines are: calls get a second instead of 5 ms, and one that
// fails nevertheless is told as unknown.
package real
