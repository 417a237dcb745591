package sim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/shiplane/limits/perf/sim"
)

// slow are the scenarios that take more than a second or so; `make sim` runs them.
var slow = map[string]bool{"100,000/s over 50": true, "37,500/s on the same": true, "0.9 R, then a flood": true, "one pod floods, 49 modest": true, "growth, flooded 10,000/s": true}

// The data path comes to what the table wants, and what must hold in every run holds.
func TestScenarios(t *testing.T) {
	for _, s := range sim.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if slow[s.Name] && testing.Short() {
				t.Skip("slow")
			}
			t.Parallel()
			row, err := s.Run(sim.Config{Seed: 1})
			if err != nil {
				t.Error(err)
			}
			for _, fault := range row.Faults {
				t.Error(fault)
			}
			t.Log("\n" + sim.Header + "\n" + row.String())
		})
	}
}

// A run is a function of its seed.
func TestRunsCanBeRepeated(t *testing.T) {
	s := sim.Scenarios()[3]
	var rows []sim.Row
	for _, seed := range []uint64{7, 7, 8} {
		row, err := s.Run(sim.Config{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	ignore := cmpopts.IgnoreFields(sim.Row{}, "Scenario")
	if diff := cmp.Diff(rows[0], rows[1], ignore); diff != "" {
		t.Errorf("two runs of one seed differ:\n%s", diff)
	}
	if cmp.Equal(rows[0], rows[2], ignore) {
		t.Error("runs of two seeds are the same")
	}
}
