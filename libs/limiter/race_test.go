//go:build race

package limiter_test

// raceEnabled: under the race detector sync.Pool drops at random, so
// allocations cannot be counted.
const raceEnabled = true
