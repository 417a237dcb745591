package redisbench

import "testing"

// An account takes no more of the store's memory than its budget, in cluster
// mode, keys, expiries and dictionaries included.
func TestMemoryOfAnAccount(t *testing.T) {
	const subjects = 125_000 // they fill the dictionaries as a million do
	for _, sh := range []Shape{TwoBuckets, SevenBuckets} {
		t.Run(sh.Name, func(t *testing.T) {
			m, err := MeasureMemory(t.Context(), sh, subjects)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(m)
			if m.PerSubject() > float64(sh.Budget) {
				t.Errorf("%.1f B a subject, want at most %d", m.PerSubject(), sh.Budget)
			}
			if least := float64(20 * m.Counters); m.PerSubject() < least {
				t.Errorf("set-up: %.1f B a subject is less than its counters' %.0f", m.PerSubject(), least)
			}
		})
	}
}
