package real

import (
	"math/rand/v2"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/perf/sim"
)

// Pods is how many processes share the count.
const Pods = 8

// Limit is the account's in every scenario.
var Limit = limit.Limit{Rate: 1000, Burst: 2000}

// Scenario is Poisson traffic on one account.
type Scenario struct {
	Name string
	Load float64                    // of the rate
	Pod  func(random, slot int) int // of an arrival: by a random number, and by the tenth of a second that it is in
}

// Scenarios are those that are played.
func Scenarios() []Scenario {
	over := func(pods int) func(int, int) int { return func(random, _ int) int { return random % pods } }
	return []Scenario{
		{"0.9 R on 2 pods", 0.9, over(2)},
		{"0.9 R over 8", 0.9, over(Pods)},
		{"1.5 R over 8", 1.5, over(Pods)},
		{"a flood of 10 R over 8", 10, over(Pods)},
		{"0.9 R, another pod every 100 ms", 0.9, func(_, slot int) int { return slot * 3 % Pods }},
	}
}

// Arrival is one request of cost 1.
type Arrival struct {
	At  time.Duration // since the beginning
	Pod int
}

// Arrivals draws the scenario's: the same ones for the same seed.
func (s *Scenario) Arrivals(seed uint64, length time.Duration) []Arrival {
	random := rand.New(rand.NewPCG(seed, 2))
	var all []Arrival
	gap := func() time.Duration {
		return time.Duration(random.ExpFloat64() / (s.Load * float64(Limit.Rate)) * float64(time.Second))
	}
	for at := gap(); at < length; at += gap() {
		all = append(all, Arrival{at, s.Pod(random.IntN(1<<20), int(at/(100*time.Millisecond)))})
	}
	return all
}

// simulate plays the same arrivals in virtual time.
func (s *Scenario) simulate(seed uint64, length time.Duration) (sim.Row, error) {
	return sim.Scenario{
		Name: s.Name, Limit: Limit, For: length,
		Load: func(w *sim.World, k *sim.Key, _ time.Duration) {
			for _, a := range s.Arrivals(seed, length) {
				w.Burst(a.At, 1, 1, func() { w.Arrive(a.Pod, "all", sim.Part{Key: k, Cost: 1}) })
			}
		},
	}.Run(sim.Config{Pods: Pods, Seed: seed})
}
