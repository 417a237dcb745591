package sim

import "time"

// Slot is what happened within a part of a run.
type Slot struct {
	Offered, Admitted, Entitled int64   // tokens
	Calls                       int64   // to the stores
	Out                         int64   // tokens on lease or on the wire, at most
	Over                        float64 // tokens admitted above burst + rate · w, at most, over windows that end here; below zero: room
}

// series is a run's slots, in order.
type series []Slot

// add changes the slot of a time; a series without slots keeps nothing.
func (s *series) add(now, length time.Duration, change func(*Slot)) {
	if length == 0 {
		return
	}
	for i := int(now / length); i >= len(*s); {
		*s = append(*s, Slot{})
	}
	change(&(*s)[now/length])
}

// sample notes at the end of each slot what was out in it.
func (w *World) sample() {
	if w.sampled != nil {
		m := w.sampled.whole
		w.series.add(w.now-1, w.cfg.Slot, func(s *Slot) { s.Out = m.peak })
		m.peak = m.out
	}
	w.after(w.cfg.Slot, w.sample)
}

// waitBins and waitParts are how finely waits are counted: in eighths of a round
// trip, up to four.
const (
	waitParts = 8
	waitBins  = 4 * waitParts
)

// waits counts how long requests took to be decided.
type waits struct {
	local   int64           // at once
	bins    [waitBins]int64 // the others, the last bin with all that took longer
	longest time.Duration   // a subject
}

func (s *waits) add(wait time.Duration, subjects int, rtt time.Duration) {
	if wait == 0 {
		s.local++
		return
	}
	s.bins[min(waitBins-1, int(wait*waitParts/rtt))]++
	s.longest = max(s.longest, wait/time.Duration(subjects))
}
