package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// Scenario is a load on one key, and what it must come to.
type Scenario struct {
	Name  string
	Limit limit.Limit
	For   time.Duration // of virtual time; zero: 12 s, or what 5,000 tokens take
	Fair  []int         // pods whose admissions are compared; they are loaded equally
	Load  func(w *World, k *Key, end time.Duration)
	Want  Want
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
	Fairness   float64            // largest by smallest sum of the pods in Fair, at most
}

// Row is what a run showed.
type Row struct {
	Scenario
	Seconds                     float64
	Offered, Admitted, Entitled int64
	Bound                       float64
	SteadyRate                  float64 // admitted since Start, of rate · t
	Calls, Gives                float64 // a second, since Start
	Stranded                    float64 // mean tokens on lease since Start, of the rate
	Overshoot                   [4]float64
	Fairness                    float64
	Longest                     time.Duration
	Returned, Lost              int64
	Classes                     map[string]*Class
	By                          map[limit.DecidedBy]int64
	Series                      []int64 // admitted a tenth of the run
	Faults                      []string
}

// overshootSpans are the windows over which a row's overshoot is measured.
var overshootSpans = [4]time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second, 0}

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
	cfg.Start = end / 2
	w, err := NewWorld(cfg)
	if err != nil {
		return Row{}, err
	}
	k := w.NewKey("acme", "account", s.Limit, true)
	s.Load(w, k, end)
	w.run(end)
	row := w.row(s, k, end)
	w.run(end + 20*time.Millisecond) // what is in flight lands
	if err := w.verify(); err != nil {
		return row, fmt.Errorf("%s: %w", s.Name, err)
	}
	row.judge()
	return row, nil
}

func (w *World) row(s Scenario, k *Key, end time.Duration) Row {
	steady := (end - w.cfg.Start).Seconds()
	m := k.meter
	row := Row{
		Scenario: s, Seconds: end.Seconds(), Bound: float64(s.Limit.Burst) + float64(s.Limit.Rate)*end.Seconds(),
		Calls: float64(w.asks) / steady, Gives: float64(w.gives) / steady, Longest: w.longest,
		Stranded: m.stranded(end) / float64(s.Limit.Rate), Returned: m.given, Lost: m.lost, Classes: w.classes, By: w.by,
		Series: make([]int64, 10),
	}
	for _, c := range w.classes {
		row.Offered, row.Admitted, row.Entitled = row.Offered+c.Offered, row.Admitted+c.Admitted, row.Entitled+c.Entitled
	}
	var sinceStart int64
	for _, a := range m.log {
		row.Series[min(9, int(10*a.at/end))] += a.cost
		if a.at >= w.cfg.Start {
			sinceStart += a.cost
		}
	}
	row.SteadyRate = float64(sinceStart) / (float64(s.Limit.Rate) * steady)
	for i, span := range overshootSpans {
		if row.Overshoot[i] = m.overshoot(span); span == 0 {
			row.Overshoot[i] = m.overshootAny()
		}
	}
	if len(s.Fair) > 0 {
		span := max(time.Second, s.Limit.Rate.Time(100*float64(len(s.Fair))))
		row.Fairness = m.fairness(s.Fair, span, end)
	}
	return row
}

// judge compares the row with what was wanted. Overshoot is bounded in every
// row: by 2.5 % of burst + rate · 10 s over ten seconds.
func (r *Row) judge() {
	atLeast := func(what string, got, want float64) {
		if got < want {
			r.Faults = append(r.Faults, fmt.Sprintf("%s is %.2f %%, want at least %.2f %%", what, 100*got, 100*want))
		}
	}
	atMost := func(what string, got, want float64) {
		if want > 0 && got > want {
			r.Faults = append(r.Faults, fmt.Sprintf("%s is %.1f, want at most %.1f", what, got, want))
		}
	}
	admitted := float64(r.Admitted)
	atLeast("admitted of what was offered", admitted/float64(r.Offered), r.Want.OfOffered)
	atLeast("admitted of what one bucket admits", admitted/float64(r.Entitled), r.Want.OfEntitled)
	atLeast("admitted of burst + rate · t", admitted/r.Bound, r.Want.OfBound)
	atLeast("admitted of the rate", r.SteadyRate, r.Want.OfRate)
	for name, c := range r.Classes {
		atLeast("admitted of class "+name, float64(c.Admitted)/float64(c.Entitled), r.Want.Class[name])
		atLeast("admitted of what class "+name+" offered", float64(c.Admitted)/float64(c.Offered), r.Want.ClassOf[name])
	}
	atMost("store calls a second", r.Calls, r.Want.Calls)
	atMost("fairness", r.Fairness, r.Want.Fairness)
	atMost("overshoot over 10 s", r.Overshoot[2], 0.025*(float64(r.Limit.Burst)+10*float64(r.Limit.Rate)))
	slices.Sort(r.Faults)
}

// Header is the first line of a table of rows.
const Header = "scenario                            | offered/s | of offered, entitled, bound, rate | calls/s  backs | lease | over 100ms     1s    10s    any | fair | longest | back  lost"

// String is the row as a line of the table.
func (r *Row) String() string {
	var b strings.Builder
	admitted := float64(r.Admitted)
	fmt.Fprintf(&b, "%-35s | %9.0f | %7.2f%% %7.2f%% %6.1f%% %6.1f%% | %7.0f %6.1f | %4.1f%% |", r.Name, float64(r.Offered)/r.Seconds,
		100*admitted/float64(r.Offered), 100*admitted/float64(r.Entitled), 100*admitted/r.Bound, 100*r.SteadyRate, r.Calls, r.Gives, 100*r.Stranded)
	for i, over := range r.Overshoot {
		width := 6
		if i == 0 {
			width = 11
		}
		text := "-"
		if over > 0 {
			text = fmt.Sprintf("%.1f", over)
		}
		fmt.Fprintf(&b, " %*s", width, text)
	}
	fmt.Fprintf(&b, " | %4.1f | %7s | %4d %5d", r.Fairness, r.Longest.Round(10*time.Microsecond), r.Returned, r.Lost)
	for _, fault := range r.Faults {
		b.WriteString("\n    FALLS SHORT: " + fault)
	}
	return b.String()
}
