//go:build !race

// Under the race detector sync.Pool drops at random, so allocations cannot be counted.

package decide_test

import (
	"strings"
	"testing"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/limit"
)

// A decision from what the process holds costs the limiter's work and no memory.
func TestCheckAllocatesNothing(t *testing.T) {
	e := newEngine(t, strings.Replace(rules, "1/h, burst: 10", "1000000/s, burst: 1000000", 1))
	entries := []decide.Entry{{Rule: "by-account", Key: "acct", Cost: 1}}
	check := func() {
		a, err := e.Check(t.Context(), "public-api", entries)
		if err != nil || a.Decision.Verdict != limit.Allowed {
			t.Fatal(err)
		}
		a.Release()
	}
	for range 1000 { // until it has a lease
		check()
	}
	if n := testing.AllocsPerRun(1000, check); n > 1 {
		t.Errorf("%v allocations a check", n)
	}
}
