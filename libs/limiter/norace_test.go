//go:build !race

package limiter_test

// raceEnabled: see race_test.go.
const raceEnabled = false
