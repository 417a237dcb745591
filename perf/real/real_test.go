package real

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if !IsPod() {
		os.Exit(m.Run())
	}
	if err := RunPod(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "pod:", err)
		os.Exit(1)
	}
}

// Eight processes over a real cluster refuse nobody whom one bucket would not
// refuse, and admit together no more than it and what was on lease (5 % of what
// the limit allows in 10 s), however slow the machine: the bounds come from
// the requests and the time that they took.
func TestEightProcessesHoldOneLimit(t *testing.T) {
	fleet, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // not a Cleanup: the pods end with the test's context
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	}()
	rate, burst := float64(Limit.Rate), float64(Limit.Burst)
	leased := 0.05 * (burst + 10*rate)
	const length = 2 * time.Second
	for number, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			seen, took, err := fleet.Play(number, 1, length)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v in %v", seen, took)
			if want := int64(len(s.Arrivals(1, length))); seen.Offered != want || seen.Unknown > 0 {
				t.Fatalf("set-up: %d of %d requests were sent, of %d the store told nothing", seen.Offered, want, seen.Unknown)
			}
			if most := burst + rate*took.Seconds() + leased; float64(seen.Admitted) > most {
				t.Errorf("%d admitted in %v, want at most %.0f", seen.Admitted, took, most)
			}
			if least := min(float64(seen.Offered), burst); float64(seen.Admitted) < least {
				t.Errorf("%d of %d admitted, want at least %.0f", seen.Admitted, seen.Offered, least)
			}
		})
	}
}
