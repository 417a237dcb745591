// Package bench compares the data path with what else there is, in one process
// and one run. It holds tests and benchmarks only:
//
//	go test ./perf/bench -bench . -benchtime 1s
//
// What may fail a test are counts: allocations, verdicts, evictions, bytes.
// Times are printed, as ratios where they can be, and never asserted: they are
// the machine's as much as ours.
//
// The unit is one request of an account that meets two token buckets (its plan
// and a route) and a quota (a fixed window of a day), decided by
// limiter.Check over store/memory. The comparator is Allow of
// golang.org/x/time/rate: one bucket, no map, no quota, no answer to tell.
//
// BenchmarkRatios is the comparison by stage of the path: a lease, a refusal by
// knowledge and counting after, beside sethvargo/go-limiter and a bare
// sync.Map. Slices of all take turns within one run.
package bench
