package convergence_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/shiplane/limits/perf/convergence"
)

func TestMain(m *testing.M) {
	if convergence.IsInstance() {
		os.Exit(convergence.RunInstance())
	}
	os.Exit(m.Run())
}

// patience bounds a test on a busy machine.
const patience = 2 * time.Minute

// Every pod ends with exactly what was acknowledged, in order, whichever instance it
// came through, while nothing fails, while an instance is killed and comes back, and
// while PostgreSQL does.
func TestEveryEditReachesEveryPodInOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const pods, edits = 12, 60
	f, err := convergence.Start(ctx, convergence.Config{Instances: 3, Pods: pods})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, s := range convergence.Scenarios(edits) {
		t.Run(s.Name, func(t *testing.T) {
			r, err := f.Play(ctx, s)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("p50 %v, p99 %v, max %v; %d above 5 s, %d watches anew", r.Quantile(.5), r.Quantile(.99), r.Quantile(1), r.Late, r.Watches)
			if want := (s.Edits - r.Unanswered) * pods; len(r.Applied) != want || r.OutOfOrder > 0 {
				t.Errorf("%d edits reached a pod, %d revisions were out of order; want %d and 0", len(r.Applied), r.OutOfOrder, want)
			}
			if !s.Fails() && (r.Skipped > 0 || r.Unanswered > 0 || r.Watches > 0) {
				t.Errorf("nothing failed, and %d revisions were skipped, %d edits were not answered, %d watches began anew", r.Skipped, r.Unanswered, r.Watches)
			}
		})
	}
}

// What a change sends and costs a pod does not grow with the ruleset, but for what
// names a place in it.
func TestChangeCostsWhatItChanges(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	small, err := convergence.Measure(ctx, 10, 10)
	if err != nil {
		t.Fatal(err)
	}
	large, err := convergence.Measure(ctx, 10, 2000)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("10 overrides: %d B sent, %d B allocated; 2,000: %d B sent, %d B allocated; %d B held", small.Bytes, small.Allocated, large.Bytes, large.Allocated, large.Heap)
	if large.FirstBytes < 2000*20 {
		t.Errorf("the whole has %d B: it cannot be all", large.FirstBytes)
	}
	if large.Bytes > 2*small.Bytes || large.Allocated > 2*small.Allocated {
		t.Errorf("a change of 2,000 overrides sends %d B and allocates %d B, of 10 %d B and %d B", large.Bytes, large.Allocated, small.Bytes, small.Allocated)
	}
}
