package sim

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// edits are limits that change under load. Pods learn within a second, each in
// its own time.
func edits() []Scenario {
	lag := func(c *Config) { c.Lag = time.Second }
	half := limit.Limit{Rate: 500, Burst: 1000}
	double := limit.Limit{Rate: 2000, Burst: 4000}
	minute := limit.Limit{Rate: 1.0 / 60, Burst: 2000}
	return []Scenario{
		{Name: "limit doubled, halved, back, 3 R", Limit: enterprise, For: 40 * time.Second, Set: lag, Load: func(w *World, k *Key, end time.Duration) {
			w.at(end/4, func() { w.Edit(k, double) })
			w.at(end/2, func() { w.Edit(k, half) })
			w.at(3*end/4, func() { w.Edit(k, enterprise) })
			w.Poisson(3000, 0, end, w.on(upTo(50), "all", k, 1))
		}, Check: func(_ *World, k *Key) []string {
			var faults []string
			for i, rate := range []float64{1000, 2000, 500, 1000} {
				from := time.Duration(i)*10*time.Second + 4*time.Second // the burst of the limit before is spent by then
				got := float64(k.whole.between(from, from+6*time.Second)) / 6
				if got < 0.98*rate || got > 1.02*rate {
					faults = append(faults, fmt.Sprintf("admitted %.0f/s from %v on, want %.0f/s within 2 %%", got, from, rate))
				}
			}
			return faults
		}},
		{Name: "limit doubled, halved, back, 0.9 R", Limit: enterprise, For: 20 * time.Second, Set: lag, Load: func(w *World, k *Key, end time.Duration) {
			w.at(end/4, func() { w.Edit(k, double) })
			w.at(end/2, func() { w.Edit(k, limit.Limit{Rate: 950, Burst: 1500}) })
			w.at(3*end/4, func() { w.Edit(k, enterprise) })
			w.Poisson(900, 0, end, w.on(upTo(50), "all", k, 1))
		}, Want: Want{OfOffered: 0.999}},
		{Name: "cut to 1 a minute, rolled back, 0.9 R", Limit: enterprise, For: 20 * time.Second, Set: lag, Load: func(w *World, k *Key, end time.Duration) {
			w.at(end/4, func() { w.Edit(k, minute) })
			w.at(end/2, func() { w.Edit(k, enterprise) })
			w.Poisson(900, 0, end, func() {
				phase := "good"
				if back := end/2 + w.cfg.Lag; w.now >= end/4 && w.now < back+100*ms {
					phase = "cut"
				}
				w.Arrive(w.rng.IntN(50), phase, Part{k, 1})
			})
		}, Want: Want{ClassOf: map[string]float64{"good": 0.99}}},
		{Name: "cut to 1 a minute while most pods are idle", Limit: enterprise, For: 20 * time.Second, Set: lag, Load: func(w *World, k *Key, end time.Duration) {
			w.Poisson(900, 0, end/2, w.on(upTo(50), "before", k, 1))
			w.at(end/2, func() { w.Edit(k, minute) })
			w.Poisson(3000, end/2, end, w.on(upTo(2), "after", k, 1))
		}},
		{Name: "edited every 100 ms, 1.5 R", Limit: enterprise, Set: lag, Load: func(w *World, k *Key, end time.Duration) {
			for t := time.Second; t < end; t += 100 * ms {
				w.at(t, func() {
					x := 0.5 + w.rng.Float64()
					w.Edit(k, limit.Limit{Rate: limit.Rate(1000 * x), Burst: int64(2000 * x)})
				})
			}
			w.Poisson(1500, 0, end, w.on(upTo(50), "all", k, 1))
		}},
	}
}

// split is 60, 25 and 15 % of the limits in three regions of 20 pods.
func split(c *Config) { c.Pods, c.Shares = 20, []limit.Share{600_000, 250_000, 150_000} }

// inRegion sends requests of k at a rate to the region's pods.
func (w *World) inRegion(region int, rate float64, from, to time.Duration, class string, k *Key) {
	n := w.cfg.Pods
	w.Poisson(rate, from, to, w.on(between(region*n, (region+1)*n), class, k, 1))
}

// regions hold a limit by shares. Over all of them no more is charged than
// burst + rate · t: verify checks it in every run.
func regions() []Scenario {
	names := []string{"us-east", "eu-west", "ap-south"}
	rates := []float64{600, 250, 150}
	each := func(x float64) func(*World, *Key, time.Duration) {
		return func(w *World, k *Key, end time.Duration) {
			for i, name := range names {
				w.inRegion(i, x*rates[i], 0, end, name, k)
			}
		}
	}
	return []Scenario{
		{Name: "three regions, 0.9 of each share", Limit: enterprise, Set: split, Load: each(0.9), Want: Want{OfOffered: 0.999}},
		{Name: "three regions, 1.5 of each share", Limit: enterprise, Set: split, Load: each(1.5), Want: Want{OfBound: 0.98}},
		{Name: "three regions, one quiet, then busy", Limit: enterprise, Set: split, Load: func(w *World, k *Key, end time.Duration) {
			w.inRegion(0, 900, 0, end, names[0], k)
			w.inRegion(1, 225, 0, end, names[1], k)
			w.inRegion(2, 300, end/2, end, names[2], k)
		}, Want: Want{ClassOf: map[string]float64{"eu-west": 0.999}}},
		{Name: "three regions, a share moves, 1.5 R", Limit: enterprise, For: 20 * time.Second, Set: func(c *Config) { split(c); c.Lag = time.Second }, Load: func(w *World, k *Key, end time.Duration) {
			w.inRegion(0, 900, 0, end, names[0], k)
			w.inRegion(1, 375, 0, end, names[1], k)
			w.inRegion(2, 600, end/2, end, names[2], k)
			w.at(end/2+time.Second, func() { w.Move(0, 400_000) })
			w.at(end/2+time.Second+w.cfg.Lag+2*w.slowest(), func() { w.Move(2, 350_000) })
		}, Check: func(_ *World, k *Key) []string {
			return rateIs(k.meters[2], 16*time.Second, 20*time.Second, 350)
		}},
		{Name: "three regions, a free key with its floors", Limit: free, For: 40 * time.Second, Set: split, Load: each(1), Check: func(_ *World, k *Key) []string {
			if got := k.whole.limit.Burst; got != 12+10+10 { // a call of cost 10 stays possible in each
				return []string{fmt.Sprintf("the bursts of the regions are %d together, want 32", got)}
			}
			return nil
		}},
		{Name: "three regions, one without its store", Limit: enterprise, For: 12 * time.Second, Set: split, Load: func(w *World, k *Key, end time.Duration) {
			w.outage(w.regions[1], end/3, 2*end/3, askLost)
			each(0.9)(w, k, end)
		}, Want: Want{ClassOf: map[string]float64{"us-east": 0.999, "eu-west": 0.99, "ap-south": 0.999}}},
	}
}

// rateIs says that the meter admitted at this rate, within 2 %.
func rateIs(m *meter, from, to time.Duration, want float64) []string {
	if got := float64(m.between(from, to)) / (to - from).Seconds(); got < 0.98*want || got > 1.02*want {
		return []string{fmt.Sprintf("%s admitted %.0f/s from %v to %v, want %.0f/s within 2 %%", m.name, got, from, to, want)}
	}
	return nil
}
