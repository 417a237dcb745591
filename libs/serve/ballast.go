package serve

import (
	"math"
	"runtime/debug"
)

// ballastBytes is so large that a heap of a few MiB, which is all that thousands of
// hot callers need, is collected a few times a second and not dozens of times:
// measured at a checker's decisions on leases, a quarter of the processor time.
const ballastBytes = 64 << 20

// Ballast returns memory to be kept, and not to be used, while a process serves:
//
//	defer runtime.KeepAlive(serve.Ballast())
//
// The garbage collector runs when the heap has grown by as much as was live (GOGC).
// The ballast counts as live, so that garbage may reach 64 MiB before it does; as
// nothing is written to it, Linux gives it no memory. Beside a heap that is much
// larger it makes no difference, as a higher GOGC would.
//
// It returns nil where GOMEMLIMIT, which counts it, is below 256 MiB.
func Ballast() []byte {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 && limit < 4*ballastBytes {
		return nil
	}
	return make([]byte, ballastBytes)
}
