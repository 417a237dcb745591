package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// Scenario is a load on one key, and on others if it makes them, and what it
// must come to.
type Scenario struct {
	Name  string
	Limit limit.Limit
	For   time.Duration // of virtual time; zero: 12 s, or what 5,000 tokens take
	Slow  bool          // it takes more than a second of this machine's time
	Fair  []int         // pods whose admissions are compared; they are loaded equally
	Even  float64       // the load is so many times the rate, spread evenly over Config.Pods: what is on lease is bounded
	Set   func(*Config) // what is not the 50 pods, 0.4 ms to the store
	Load  func(w *World, k *Key, end time.Duration)
	Want  Want
	Check func(w *World, k *Key) []string // other things that must hold: the faults, if any
}

// Want is what a scenario must come to; what is zero is reported only.
type Want struct {
	OfOffered  float64            // admitted, at least this part of what was offered
	OfEntitled float64            // of what one exact bucket admits
	OfBound    float64            // of burst + rate · t
	OfRate     float64            // since Start, of rate · t
	Class      map[string]float64 // of what each class of requests was entitled to
	ClassOf    map[string]float64 // of what each class offered
	Calls      float64            // store calls a second since Start, at most, hand-backs included
	PerRequest float64            // store calls a request since Start, at most
	Owner      map[string]float64 // the same for the subjects that a class owns
	Fairness   float64            // largest by smallest sum of the pods in Fair, at most
}

// Row is what a run showed.
type Row struct {
	Scenario
	Pods                        int // a region
	Seconds                     float64
	Offered, Admitted, Entitled int64
	Bound                       float64 // burst + rate · t
	SteadyRate                  float64 // admitted since Start, of rate · t
	Calls, Gives                float64 // a second, since Start
	PerRequest                  float64 // calls, since Start
	Stranded                    float64 // mean tokens on lease since Start, of the rate
	OutTop                      int64   // the most tokens ever on lease or on the wire
	Overshoot                   [4]float64
	Fairness                    float64
	Longest                     time.Duration // that a request waited, a subject
	Local                       float64       // part of the requests decided at once
	Waits                       []int64       // the others, by eighths of a round trip
	Returned, Lost              int64
	Healthy                     bool // every call was answered, by a store that remembers and whose clock was not set
	Edited                      bool // the limit was: there is no one bound
	Single                      bool // all requests are of one account: bound, lease and overshoot are its own
	Classes                     map[string]*Class
	By                          map[limit.DecidedBy]int64
	Series                      []Slot
	ByPod                       []int64 // admitted since Start by each pod in Fair
	Faults                      []string
}

// overshootSpans are the windows over which a row's overshoot is measured.
var overshootSpans = [4]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 0}

// slots is the length of a row's series.
const slots = 120

// Run plays the scenario and says in Row.Faults where it falls short. The error
// tells that something does not hold that must hold in every run.
func (s Scenario) Run(cfg Config) (Row, error) {
	end := s.For
	if end == 0 {
		end = max(12*time.Second, s.Limit.Rate.Time(5000))
	}
	if cfg.Pods == 0 {
		cfg.Pods = 50
	}
	if s.Set != nil {
		s.Set(&cfg)
	}
	cfg.Start, cfg.Slot = end/2, end/slots
	w, err := NewWorld(cfg)
	if err != nil {
		return Row{}, err
	}
	k := w.NewKey("acme", "account", s.Limit, largest(10))
	w.sampled = k
	s.Load(w, k, end)
	w.run(end)
	row := w.row(s, k, end)
	w.finish()
	if err := w.verify(); err != nil {
		return row, fmt.Errorf("%s: %w", s.Name, err)
	}
	row.judge()
	if s.Check != nil {
		row.Faults = append(row.Faults, s.Check(w, k)...)
	}
	return row, nil
}

func (w *World) row(s Scenario, k *Key, end time.Duration) Row {
	steady := (end - w.cfg.Start).Seconds()
	m := k.whole
	row := Row{
		Scenario: s, Pods: w.cfg.Pods, Seconds: end.Seconds(), Bound: float64(s.Limit.Burst) + float64(s.Limit.Rate)*end.Seconds(),
		Calls: float64(w.asks) / steady, Gives: float64(w.gives) / steady, Longest: w.waits.longest,
		Stranded: m.stranded(end) / float64(s.Limit.Rate), OutTop: m.outTop, Returned: m.given, Lost: m.lost,
		Local: float64(w.waits.local) / float64(w.settled), Waits: slices.Clone(w.waits.bins[:]),
		Healthy: w.healthy(), Edited: w.edited, Classes: w.classes, By: w.by, Series: w.series[:min(slots, len(w.series))],
	}
	var requests int64
	for _, c := range w.classes {
		row.Offered, row.Admitted, row.Entitled = row.Offered+c.Offered, row.Admitted+c.Admitted, row.Entitled+c.Entitled
		requests += c.Requests
	}
	row.Single = m.between(0, end) == row.Admitted
	row.PerRequest = float64(w.asks) / float64(requests)
	row.SteadyRate = float64(m.between(w.cfg.Start, end)) / (float64(s.Limit.Rate) * steady)
	for i := range row.Series {
		row.Series[i].Over = -float64(m.limit.Burst)
	}
	row.Overshoot[3] = m.overshootAny(func(at time.Duration, over float64) {
		if i := int(at / w.cfg.Slot); i < len(row.Series) {
			row.Series[i].Over = max(row.Series[i].Over, over)
		}
	})
	for i, span := range overshootSpans[:3] {
		row.Overshoot[i] = m.overshoot(span)
	}
	if len(s.Fair) > 0 {
		// A contended pod asks some twenty times a second: what a second shows is half chance.
		span := max(2*time.Second, s.Limit.Rate.Time(100*float64(len(s.Fair))))
		row.Fairness = m.fairness(s.Fair, span, end)
		row.ByPod = m.byPod(s.Fair)
	}
	return row
}

// judge compares the row with what was wanted.
func (r *Row) judge() {
	admitted := float64(r.Admitted)
	r.atLeast("admitted of what was offered", admitted/float64(r.Offered), r.Want.OfOffered)
	r.atLeast("admitted of what one bucket admits", admitted/float64(r.Entitled), r.Want.OfEntitled)
	r.atLeast("admitted of burst + rate · t", admitted/r.Bound, r.Want.OfBound)
	r.atLeast("admitted of the rate", r.SteadyRate, r.Want.OfRate)
	for name, c := range r.Classes {
		r.atLeast("admitted of class "+name, float64(c.Admitted)/float64(c.Entitled), r.Want.Class[name])
		r.atLeast("admitted of what class "+name+" offered", float64(c.Admitted)/float64(c.Offered), r.Want.ClassOf[name])
		r.atMost("store calls a request of "+name, float64(c.Calls)/float64(c.Requests), r.Want.Owner[name])
	}
	for _, classes := range []map[string]float64{r.Want.Class, r.Want.ClassOf, r.Want.Owner} {
		for name := range classes {
			if r.Classes[name] == nil {
				r.Faults = append(r.Faults, fmt.Sprintf("class %s has no requests", name))
			}
		}
	}
	r.atMost("store calls a second", r.Calls, r.Want.Calls)
	r.atMost("store calls a request", r.PerRequest, r.Want.PerRequest)
	r.atMost("fairness", r.Fairness, r.Want.Fairness)
	if r.Healthy && !r.Edited {
		r.atMost("overshoot over 10 s", r.Overshoot[2], 0.025*(float64(r.Limit.Burst)+10*float64(r.Limit.Rate)))
	}
	if r.Even > 0 {
		r.atMost("tokens on lease", float64(r.OutTop), r.leaseBound())
	}
	slices.Sort(r.Faults)
}

// leaseBound is what may be on lease of an even load: what every pod holds ahead
// for its demand, and a token. Demand is an average over half a second of few
// requests: that of all pods together may be four deviations above its mean.
func (r *Row) leaseBound() float64 {
	rate, burst, pods := float64(r.Limit.Rate), float64(r.Limit.Burst), float64(r.Pods)
	demand := min(r.Even*rate/pods, rate)
	demand *= 1 + 4/math.Sqrt(demand*pods)
	ample := min(demand/2, burst/(2*pods)) // half a second's, while the counter is ample
	return pods * (max(demand/20, ample) + 1)
}

func (r *Row) atLeast(what string, got, want float64) {
	if want > 0 && !(got >= want) {
		r.Faults = append(r.Faults, fmt.Sprintf("%s is %.2f %%, want at least %.2f %%", what, 100*got, 100*want))
	}
}

func (r *Row) atMost(what string, got, want float64) {
	if want > 0 && !(got <= want) {
		r.Faults = append(r.Faults, fmt.Sprintf("%s is %.2f, want at most %.2f", what, got, want))
	}
}
