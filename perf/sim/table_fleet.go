package sim

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// fleets are pods that come, drain and crash, and those too small for all keys.
func fleets() []Scenario {
	return []Scenario{
		{Name: "50 to 75 pods, 0.9 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.at(end/2, func() { w.AddPods(0, 25) })
			w.Poisson(k.rate(0.9), 0, end, func() { w.Arrive(w.rng.IntN(len(w.pods)), "all", Part{k, 1}) })
		}, Want: Want{OfEntitled: 0.999}},
		{Name: "50 to 75 to 40 pods, 1.5 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			pods := upTo(50)
			w.at(end/3, func() { w.AddPods(0, 25); pods = upTo(75) })
			w.at(2*end/3, func() {
				for id := range 35 {
					w.Stop(id, "drained")
				}
				pods = between(35, 75)
			})
			w.Poisson(k.rate(1.5), 0, end, func() { w.Arrive(pods[w.rng.IntN(len(pods))], "all", Part{k, 1}) })
		}, Want: Want{OfBound: 0.99}},
		{Name: "half the pods drain, 0.9 R", Limit: enterprise, Load: replaceHalf(0.9, "drained"), Want: Want{OfEntitled: 0.999}, Check: lostAtMost(0)},
		{Name: "half the pods crash, 0.9 R", Limit: enterprise, Load: replaceHalf(0.9, "crashed"), Want: Want{OfEntitled: 0.999}, Check: lostAtMost(300)},
		{Name: "half the pods crash, 1.5 R", Limit: enterprise, Load: replaceHalf(1.5, "crashed"), Want: Want{OfBound: 0.98}, Check: lostAtMost(300)},
		{Name: "400 accounts, room for 64 a pod", Limit: growth, For: 8 * time.Second, Set: func(c *Config) { c.Pods, c.Accounts = 10, 64 }, Load: func(w *World, k *Key, end time.Duration) {
			keys := []*Key{k}
			for i := range 399 {
				keys = append(keys, w.NewKey(fmt.Sprint("shop-", i), "account", growth))
			}
			w.Poisson(400*k.rate(0.3), 0, end, func() { w.Arrive(w.rng.IntN(10), "all", Part{keys[w.rng.IntN(400)], 1}) })
		}, Want: Want{OfEntitled: 0.999, OfOffered: 0.999}, Check: lostAtMost(0)},
		{Name: "100 accounts at 3 R, room for 64 a pod", Limit: growth, Slow: true, For: 8 * time.Second, Set: func(c *Config) { c.Pods, c.Accounts = 10, 64 }, Load: func(w *World, k *Key, end time.Duration) {
			keys := []*Key{k}
			for i := range 99 {
				keys = append(keys, w.NewKey(fmt.Sprint("shop-", i), "account", growth))
			}
			w.Poisson(100*k.rate(3), 0, end, func() { w.Arrive(w.rng.IntN(10), "all", Part{keys[w.rng.IntN(100)], 1}) })
		}, Want: Want{OfEntitled: 0.98}, Check: lostAtMost(0)},
	}
}

// replaceHalf stops half of the pods at half time; new ones take their places.
func replaceHalf(x float64, how string) func(*World, *Key, time.Duration) {
	return func(w *World, k *Key, end time.Duration) {
		pods := upTo(50)
		w.at(end/2, func() {
			for id := range 25 {
				w.Stop(id, how)
			}
			w.AddPods(0, 25)
			pods = between(25, 75)
		})
		w.Poisson(k.rate(x), 0, end, func() { w.Arrive(pods[w.rng.IntN(50)], "all", Part{k, 1}) })
	}
}

// lostAtMost says that no more than n tokens of all keys were lost.
func lostAtMost(n int64) func(*World, *Key) []string {
	return func(w *World, _ *Key) []string {
		var lost int64
		for _, k := range w.keys {
			lost += k.whole.lost
		}
		if lost > n {
			return []string{fmt.Sprintf("%d tokens are lost, want at most %d", lost, n)}
		}
		return nil
	}
}

// networks are far from the store, or slow.
func networks() []Scenario {
	far := func(c *Config) { c.RTT, c.Jitter = 3500*time.Microsecond, 0.42 } // 2 to 5 ms
	jitter := func(c *Config) { c.RTT, c.Jitter = 400*time.Microsecond, 0.9 }
	all := upTo(50)
	return []Scenario{
		{Name: "2-5 ms to the store, 0.9 R over 50", Limit: enterprise, Set: far, Load: steady(0.9, all), Want: Want{OfEntitled: 0.999, OfOffered: 0.999, Calls: 110}},
		{Name: "2-5 ms to the store, 1.5 R over 50", Limit: enterprise, Set: far, Load: steady(1.5, all), Want: Want{OfBound: 0.99, Calls: 750}},
		{Name: "2-5 ms to the store, 0.9 R on 2", Limit: enterprise, Set: far, Load: steady(0.9, upTo(2)), Want: Want{OfEntitled: 0.999, Calls: 60}},
		{Name: "2-5 ms to the store, 20,000/s of 25,000", Limit: hot, Set: far, For: 6 * time.Second, Load: steady(0.8, all), Want: Want{OfEntitled: 0.999, Calls: 120}},
		{Name: "2-5 ms to the store, the burst at once", Limit: enterprise, Set: far, Load: func(w *World, k *Key, end time.Duration) {
			w.Burst(ms, ms, k.Limit().Burst, w.on(all, "burst", k, 1))
			w.Poisson(k.rate(0.9), 2*ms, end, w.on(all, "all", k, 1))
		}, Want: Want{Class: map[string]float64{"burst": 0.98}}},
		{Name: "40 µs to 0.76 ms to the store, 1.5 R over 50", Limit: enterprise, Set: jitter, Load: steady(1.5, all), Want: Want{OfBound: 0.99, Calls: 750}},
		{Name: "one call in eight takes over 5 ms, 0.9 R", Limit: enterprise, Set: func(c *Config) { c.RTT, c.Jitter = 4*ms, 0.5 }, Load: steady(0.9, all), Want: Want{OfOffered: 0.99}},
	}
}

// clocks run apart, and the store's is set.
func clocks() []Scenario {
	drift := func(c *Config) { c.Drift = 0.01 }
	stepped := func(d time.Duration) Scenario {
		return Scenario{Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.at(end/2, func() { w.regions[0].step(d) })
			w.phased(1.5, k, end, []string{"before", "the second after", "after"}, end/2, end/2+time.Second)
		}, Want: Want{Class: map[string]float64{"before": 0.99, "the second after": 0.98, "after": 0.99}}, Check: func(_ *World, k *Key) []string {
			// A step forward refills as much as it skips, a full bucket at most.
			gain := min(float64(k.Limit().Burst), float64(k.Limit().Rate)*max(0, d).Seconds())
			return overAtMost(k.whole, int64(gain)+k.whole.outTop)
		}}
	}
	back, forward := stepped(-10*time.Second), stepped(10*time.Second)
	back.Name, forward.Name = "the store's clock steps back 10 s, 1.5 R", "the store's clock steps forward 10 s, 1.5 R"
	return []Scenario{
		{Name: "clocks drift by 1 %, 0.9 R over 50", Limit: enterprise, Set: drift, Load: steady(0.9, upTo(50)), Want: Want{OfOffered: 0.999, Calls: 110}},
		{Name: "clocks drift by 1 %, 1.5 R over 50", Limit: enterprise, Set: drift, Load: func(w *World, k *Key, end time.Duration) {
			w.regions[0].drift = -0.01
			steady(1.5, upTo(50))(w, k, end)
		}, Want: Want{OfBound: 0.98, Calls: 750}},
		back, forward,
		{Name: "the store's clock jitters by 20 ms, 0.9 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			for t := end / 4; t < end; t += 100 * ms {
				w.at(t, func() { w.regions[0].step(time.Duration(w.rng.Int64N(int64(40*ms))) - 20*ms) })
			}
			steady(0.9, upTo(50))(w, k, end)
		}, Want: Want{OfOffered: 0.999}},
	}
}

// The account that windows and logs hang on must not be what limits.
var roomy = limit.Limit{Rate: 100_000, Burst: 200_000}
