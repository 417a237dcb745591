package serve_test

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/shiplane/limits/libs/serve"
)

// A small heap is left to grow by the ballast before it is collected.
func TestBallastPutsOffTheCollector(t *testing.T) {
	ballast := serve.Ballast()
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	runtime.KeepAlive(ballast)
	if got, least := goal[0].Value.Uint64(), uint64(2*len(ballast)); len(ballast) == 0 || got < least {
		t.Errorf("the heap may grow to %d bytes, with a ballast of %d: want %d", got, len(ballast), least)
	}
}

// A process with a tight memory limit has no ballast: it would count.
func TestBallastLeavesATightMemoryLimitAlone(t *testing.T) {
	before := debug.SetMemoryLimit(255 << 20)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	if got := serve.Ballast(); got != nil {
		t.Errorf("a ballast of %d bytes in a limit of 255 MiB: want none", len(got))
	}
}
