package sim

import (
	"math"
	"time"
)

// Poisson lets do happen at a rate a second between from and to.
func (w *World) Poisson(rate float64, from, to time.Duration, do func()) {
	gap := func() time.Duration { return time.Duration(w.rng.ExpFloat64() / rate * float64(time.Second)) }
	var next func()
	next = func() {
		if w.now < to {
			do()
			w.after(gap(), next)
		}
	}
	w.at(from+gap(), next)
}

// Diurnal lets do happen between from and to at a rate that swings between low
// and high a second, once a day, beginning at the lowest.
func (w *World) Diurnal(low, high float64, day, from, to time.Duration, do func()) {
	w.Poisson(high, from, to, func() {
		swing := (1 - math.Cos(2*math.Pi*float64(w.now-from)/float64(day))) / 2
		if w.rng.Float64()*high < low+(high-low)*swing {
			do()
		}
	})
}

// OnOff lets do happen at a rate a second for on, then rests for off, and again.
func (w *World) OnOff(rate float64, on, off, from, to time.Duration, do func()) {
	for t := from; t < to; t += on + off {
		w.Poisson(rate, t, min(t+on, to), do)
	}
}

// Burst lets do happen n times within span from t on.
func (w *World) Burst(t, span time.Duration, n int64, do func()) {
	for range n {
		w.at(t+time.Duration(w.rng.Int64N(int64(span))), do)
	}
}
