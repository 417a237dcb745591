package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

const ms = time.Millisecond

// The limits of the plans, and of an override.
var (
	enterprise = limit.Limit{Rate: 1000, Burst: 2000}
	growth     = limit.Limit{Rate: 100, Burst: 200}
	free       = limit.Limit{Rate: 10, Burst: 20}
	hot        = limit.Limit{Rate: 25_000, Burst: 50_000}
)

// Scenarios is the table that the data path is held to: 50 pods, 0.4 ms to the
// store, Poisson, unless said. Entitled is what one exact bucket admits on the
// same arrivals.
func Scenarios() []Scenario {
	return slices.Concat(steadyLoads(), changingLoads(), costs(), fleets(), networks(), outages(), clocks(), edits(), regions(), ruleKinds(), counts(), mixes())
}

func upTo(n int) []int { return between(0, n) }

func between(from, to int) []int {
	var pods []int
	for i := from; i < to; i++ {
		pods = append(pods, i)
	}
	return pods
}

// on sends cost of k to one of the pods.
func (w *World) on(pods []int, class string, k *Key, cost int64) func() {
	return func() { w.Arrive(pods[w.rng.IntN(len(pods))], class, Part{k, cost}) }
}

// steady is Poisson traffic of x times the rate over the pods.
func steady(x float64, pods []int) func(*World, *Key, time.Duration) {
	return func(w *World, k *Key, end time.Duration) { w.Poisson(k.rate(x), 0, end, w.on(pods, "all", k, 1)) }
}

// phased is steady traffic over 50 pods whose class is the phase it falls in:
// the name before the first of the times, and so on.
func (w *World) phased(x float64, k *Key, end time.Duration, names []string, times ...time.Duration) {
	w.Poisson(k.rate(x), 0, end, func() {
		phase := 0
		for phase < len(times) && w.now >= times[phase] {
			phase++
		}
		w.Arrive(w.rng.IntN(50), names[phase], Part{k, 1})
	})
}

// steadyLoads are the issue's, of four sizes of limit.
func steadyLoads() []Scenario {
	all := upTo(50)
	return []Scenario{
		{Name: "900/s on 2 pods", Limit: enterprise, Fair: upTo(2), Load: steady(0.9, upTo(2)), Want: Want{OfOffered: 0.999, Calls: 60, Fairness: 2}},
		{Name: "1,500/s on 2 pods", Limit: enterprise, Fair: upTo(2), Load: steady(1.5, upTo(2)), Want: Want{OfBound: 0.99, Calls: 60, Fairness: 2}},
		{Name: "950/s over 50", Limit: enterprise, Even: 0.95, Fair: all, For: 50 * time.Second, Load: steady(0.95, all), Want: Want{OfEntitled: 0.999, OfOffered: 0.999, Calls: 110, Fairness: 2}},
		{Name: "1,500/s over 50", Limit: enterprise, Even: 1.5, Fair: all, For: 50 * time.Second, Load: steady(1.5, all), Want: Want{OfBound: 0.99, Calls: 750, Fairness: 2}},
		{Name: "100,000/s over 50", Limit: enterprise, For: 4 * time.Second, Load: steady(100, all), Want: Want{OfBound: 0.98, Calls: 1100}},
		{Name: "100,000/s over 50, longer", Limit: enterprise, Slow: true, Fair: all, For: 60 * time.Second, Load: steady(100, all), Want: Want{OfBound: 0.98, Calls: 1100, Fairness: 2}},
		{Name: "20,000/s on a 25,000/s override", Limit: hot, Even: 0.8, Fair: all, For: 8 * time.Second, Load: steady(0.8, all), Want: Want{OfEntitled: 0.999, OfOffered: 0.999, Calls: 120, Fairness: 2}},
		{Name: "37,500/s on a 25,000/s override", Limit: hot, Even: 1.5, For: 20 * time.Second, Fair: all, Load: steady(1.5, all), Want: Want{OfBound: 0.99, Calls: 1100, Fairness: 2}},
		{Name: "free, 0.9 R over 50", Limit: free, Even: 0.9, Load: steady(0.9, all), Want: Want{OfEntitled: 0.997, PerRequest: 1}},
		{Name: "free, flooded 1,000/s", Limit: free, For: 40 * time.Second, Load: steady(100, all), Want: Want{OfRate: 0.98, Calls: 250}},
		{Name: "free, 20 at once on one pod", Limit: free, For: 2 * time.Second, Load: func(w *World, k *Key, _ time.Duration) {
			w.Burst(ms, ms, 20, w.on(upTo(1), "all", k, 1))
		}, Want: Want{OfOffered: 1}, Check: asksAtMost(20)},
		{Name: "growth, flooded 10,000/s", Limit: growth, For: 20 * time.Second, Load: steady(100, all), Want: Want{OfRate: 0.98, Calls: 600}},
		{Name: "one pod floods, 49 modest", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.Poisson(k.rate(20), 0, end, w.on(upTo(1), "flood", k, 1))
			w.Poisson(k.rate(0.49), 0, end, w.on(between(1, 50), "modest", k, 1))
		}, Want: Want{ClassOf: map[string]float64{"modest": 0.95}}},
	}
}

// asksAtMost says that the pods asked the store no more than n times in all.
func asksAtMost(n int64) func(*World, *Key) []string {
	return func(w *World, _ *Key) []string {
		var asks int64
		for _, p := range w.pods {
			asks += p.core.Stats().Asks
		}
		if asks > n {
			return []string{fmt.Sprintf("%d calls to the store, want at most %d", asks, n)}
		}
		return nil
	}
}

// changingLoads come in bursts, by the hour, on other pods or routes.
func changingLoads() []Scenario {
	all := upTo(50)
	return []Scenario{
		{Name: "six routes, 0.9 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.Poisson(k.rate(0.9), 0, end, w.routed(k, 6)("all", 0, 6))
		}, Want: Want{OfOffered: 0.999, Calls: 220}},
		{Name: "six routes, the burst at once", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			do := w.routed(k, 6)
			w.Burst(0, ms, k.Limit().Burst, do("burst", 0, 6))
			w.Poisson(k.rate(0.9), ms, end, do("all", 0, 6))
		}, Want: Want{Class: map[string]float64{"burst": 0.99}}},
		{Name: "six routes, one at 3 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			do := w.routed(k, 6)
			w.Poisson(k.rate(0.4), 0, end, do("modest", 1, 6))
			w.Poisson(k.rate(3), 0, end, do("flood", 0, 1))
		}, Want: Want{Class: map[string]float64{"modest": 0.999}}},
		{Name: "hops pods every 100 ms, 0.9 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.Poisson(k.rate(0.9), 0, end, func() { w.Arrive(int(w.now/(100*ms)*7%50), "all", Part{k, 1}) })
		}, Want: Want{OfEntitled: 0.999, Calls: 220}},
		{Name: "0.95 B at once every 2 s", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			for t := time.Duration(0); t < end; t += 2 * time.Second {
				w.Burst(t, ms, k.Limit().Burst*95/100, w.on(all, "all", k, 1))
			}
		}, Want: Want{OfOffered: 0.995}},
		{Name: "1.8 R for 1 s, nothing for 1 s", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.OnOff(k.rate(1.8), time.Second, time.Second, 0, end, w.on(all, "all", k, 1))
		}, Want: Want{OfEntitled: 0.999}},
		{Name: "a day of 24 s, 0.1 R to 0.95 R", Limit: enterprise, For: 48 * time.Second, Load: func(w *World, k *Key, end time.Duration) {
			w.Diurnal(k.rate(0.1), k.rate(0.95), 24*time.Second, 0, end, w.on(all, "all", k, 1))
		}, Want: Want{OfOffered: 0.999, OfEntitled: 0.999}},
		{Name: "a day of 24 s, 0.1 R to 1.5 R", Limit: enterprise, For: 48 * time.Second, Load: func(w *World, k *Key, end time.Duration) {
			w.Diurnal(k.rate(0.1), k.rate(1.5), 24*time.Second, 0, end, w.on(all, "all", k, 1))
		}, Want: Want{OfEntitled: 0.999}},
		{Name: "0.9 R, then the whole burst", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.Poisson(k.rate(0.9), 0, end/2, w.on(all, "all", k, 1))
			w.Burst(end/2, ms, k.Limit().Burst, w.on(all, "burst", k, 1))
		}, Want: Want{Class: map[string]float64{"burst": 0.98}}},
		{Name: "0.9 R, then a flood", Limit: enterprise, For: 8 * time.Second, Load: func(w *World, k *Key, end time.Duration) {
			w.Poisson(k.rate(0.9), 0, end/2, w.on(all, "all", k, 1))
			w.Poisson(k.rate(50), end/2, end, w.on(all, "flood", k, 1))
		}},
	}
}

// routed sends requests of the account and one of n routes, each of which has
// half of the account's limit.
func (w *World) routed(k *Key, n int) func(class string, from, to int) func() {
	var routes []*Key
	for i := range n {
		half := limit.Limit{Rate: k.Limit().Rate / 2, Burst: k.Limit().Burst / 2}
		routes = append(routes, w.NewKey("acme", fmt.Sprint("route-", i), half))
	}
	return func(class string, from, to int) func() {
		return func() {
			w.Arrive(w.rng.IntN(50), class, Part{k, 1}, Part{routes[from+w.rng.IntN(to-from)], 1})
		}
	}
}

// costs mix bulk calls with single ones.
func costs() []Scenario {
	bulk := func(x float64, pods []int) func(*World, *Key, time.Duration) {
		return func(w *World, k *Key, end time.Duration) {
			w.Poisson(k.rate(x/2), 0, end, w.on(pods, "cost 1", k, 1))
			w.Poisson(k.rate(x/2)/10, 0, end, w.on(pods, "cost 10", k, 10))
		}
	}
	all, long := upTo(50), 20*time.Second
	return []Scenario{
		{Name: "cost 10 beside 1, 0.9 R over 50", Limit: enterprise, For: long, Load: bulk(0.9, all), Want: Want{OfOffered: 0.9995}},
		{Name: "cost 10 beside 1, 0.9 R on 2", Limit: enterprise, For: long, Load: bulk(0.9, upTo(2)), Want: Want{OfOffered: 0.9995}},
		{Name: "cost 10 beside 1, 1.3 R over 50", Limit: enterprise, For: long, Load: bulk(1.3, all), Want: Want{Class: map[string]float64{"cost 10": 0.995}}},
		{Name: "cost 10 beside 1, 1.3 R on 2", Limit: enterprise, For: long, Load: bulk(1.3, upTo(2)), Want: Want{Class: map[string]float64{"cost 10": 0.995}}},
	}
}
