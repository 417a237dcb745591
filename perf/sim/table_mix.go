package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// plan is a class of accounts in the mix: n of them, each at rate a second on
// so many pods.
type plan struct {
	name  string
	limit limit.Limit
	n     int
	rate  float64
	pods  int
}

// plans are one region's, a twentieth of its accounts at their full rates. Of
// 180,000 requests/s, 10 % are refused; of the rest 75 % are Enterprise, 15 %
// Growth, 10 % Free. Assumed: 243 Enterprise accounts at 500/s on 25 pods, 607
// Growth at 40/s on 4, 5,400 Free at 3/s on 2 (each 0.2 to 1.8 of that); over
// their limits 20 at 1,300/s, 60 at 200/s, 300 at 30/s.
func plans() []plan {
	return []plan{
		{"enterprise", enterprise, 12, 500, 25},
		{"growth", growth, 30, 40, 4},
		{"free", free, 270, 3, 2},
		{"enterprise over", enterprise, 1, 1300, 50},
		{"growth over", growth, 3, 200, 8},
		{"free over", free, 15, 30, 2},
	}
}

// routeUse is how requests are spread over an account's six routes: 40, 25, 15,
// 10, 6 and 4 %, summed up.
func routeUse() []float64 { return []float64{.4, .65, .8, .9, .96, 1} }

// mix is the traffic of a twentieth of a region: each request meets the
// account's limit and one of six routes of half of it. spread: connections go to
// all pods, else to as many as the plan says.
func mix(spread bool) func(*World, *Key, time.Duration) {
	return func(w *World, _ *Key, end time.Duration) {
		for _, p := range plans() {
			for i := range p.n {
				rate := p.rate
				if rate < float64(p.limit.Rate) {
					rate = min(rate*(0.2+1.6*(float64(i)+0.5)/float64(p.n)), 0.95*float64(p.limit.Rate))
				}
				w.customer(p, i, rate, spread, end)
			}
		}
	}
}

// customer is the i-th account of a plan and its traffic.
func (w *World) customer(p plan, i int, rate float64, spread bool, end time.Duration) {
	id := fmt.Sprint(strings.ReplaceAll(p.name, " ", "-"), "-", i)
	account := w.NewKey(id, "global", p.limit)
	w.owners[account.Subject] = w.class(p.name)
	var routes []*Key
	for r := range routeUse() {
		routes = append(routes, w.NewKey(id, fmt.Sprint("route-", r), limit.Limit{Rate: p.limit.Rate / 2, Burst: p.limit.Burst / 2}))
	}
	pods := w.rng.Perm(50)
	if !spread {
		pods = pods[:p.pods]
	}
	w.Poisson(rate, 0, end, func() {
		route, _ := slices.BinarySearch(routeUse(), w.rng.Float64())
		w.Arrive(pods[w.rng.IntN(len(pods))], p.name, Part{account, 1}, Part{routes[route], 1})
	})
}

// zipf is many accounts whose rates fall as 1 ÷ rank, most of them on the
// smallest plan that fits, some on one too small for them.
func zipf(accounts int, total float64, pods int) func(*World, *Key, time.Duration) {
	return func(w *World, _ *Key, end time.Duration) {
		sums := make([]float64, accounts)
		sum := 0.0
		for i := range sums {
			sum += 1 / float64(i+1)
			sums[i] = sum
		}
		keys := make([]*Key, accounts)
		for i := range keys {
			x := total / sum / float64(i+1) * math.Exp(w.rng.NormFloat64())
			l := free
			switch {
			case x > 800:
				l = limit.Limit{Rate: limit.Rate(math.Ceil(1.25 * x)), Burst: int64(2.5 * x)} // an override
			case x > 80:
				l = enterprise
			case x > 8:
				l = growth
			}
			keys[i] = w.NewKey(fmt.Sprint("account-", i), "global", l)
		}
		w.Poisson(total, 0, end, func() {
			i, _ := slices.BinarySearch(sums, w.rng.Float64()*sum)
			w.Arrive(w.rng.IntN(pods), "all", Part{keys[i], 1})
		})
	}
}

// mixes are many accounts at once.
func mixes() []Scenario {
	const long = 14 * time.Second
	return []Scenario{
		{Name: "the mix, keys on few pods", Limit: enterprise, Slow: true, For: long, Load: mix(false), Want: Want{OfEntitled: 0.999, PerRequest: 0.45, Owner: map[string]float64{"enterprise": 0.20}}},
		{Name: "the mix, keys spread over 50", Limit: enterprise, Slow: true, For: long, Load: mix(true), Want: Want{OfEntitled: 0.999, PerRequest: 0.55, Owner: map[string]float64{"enterprise": 0.35}}},
		{Name: "4,000 accounts, 18,000/s, Zipf", Limit: enterprise, Slow: true, For: 8 * time.Second, Load: zipf(4000, 18_000, 50), Want: Want{OfEntitled: 0.999}},
		{Name: "150 pods, 40,000 accounts, 300,000/s, Zipf", Limit: enterprise, Slow: true, For: 4 * time.Second, Set: func(c *Config) { c.Pods = 150 }, Load: zipf(40_000, 300_000, 150), Want: Want{OfEntitled: 0.999}},
	}
}
