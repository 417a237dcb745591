package bucket

import "time"

// Window is the state of a fixed window. Windows are aligned to the store's
// epoch, so to midnight UTC where the length divides a day; a window of seven
// days begins on a Thursday. A window never written is the zero Window.
//
// An edit of the length keeps the count as long as the old window began within
// the new one: a lengthened window never forgets. A shortened one starts anew,
// for when the counted requests came is not known.
type Window struct {
	Start time.Duration
	Count int64
}

// WindowStart is the beginning of the window of this length that now is in.
func WindowStart(now, length time.Duration) time.Duration {
	start := now - now%length
	if start > now { // before the epoch
		start -= length
	}
	return start
}

// CountAt is what is counted in the window that now is in. A state from a later
// window (the clock stepped back) still counts.
func (w Window) CountAt(now, length time.Duration) int64 {
	if w.Start < WindowStart(now, length) {
		return 0
	}
	return w.Count
}

// Mend returns the state with its start not in the future, and whether it was.
func (w Window) Mend(now, length time.Duration) (Window, bool) {
	if w.Start <= now {
		return w, false
	}
	return Window{Start: WindowStart(now, length), Count: w.Count}, true
}

// Take returns the state after n more are counted.
func (w Window) Take(now, length time.Duration, n int64) Window {
	return Window{Start: WindowStart(now, length), Count: w.CountAt(now, length) + n}
}

// Give returns the state after n, counted at the time from, are handed back. A
// window that has ended since keeps nothing to hand back to.
func (w Window) Give(now, length time.Duration, n int64, from time.Duration) Window {
	if WindowStart(from, length) != WindowStart(now, length) {
		return w
	}
	return Window{Start: WindowStart(now, length), Count: max(0, w.CountAt(now, length)-n)}
}

// Rest is the time from now until the window ends, above 0.
func Rest(now, length time.Duration) time.Duration {
	return WindowStart(now, length) + length - now
}
