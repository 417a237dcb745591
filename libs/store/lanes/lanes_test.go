package lanes

import (
	"slices"
	"testing"
	"testing/synctest"
)

// call is what travels.
type call struct{ Seat }

// batchMax bounds a batch.
const batchMax = 32

// road is lanes whose batches come back when the test says so.
type road struct {
	Lanes[*call]
	sent chan []*call
	back chan struct{}
}

func newRoad(t *testing.T) *road {
	t.Helper()
	r := &road{sent: make(chan []*call, 100), back: make(chan struct{})}
	r.Lanes = New(batchMax, func(batch []*call) {
		r.sent <- slices.Clone(batch)
		<-r.back
	})
	t.Cleanup(func() { close(r.back) })
	return r
}

// submitted sends n calls, one after the other.
func (r *road) submitted(n int) []*call {
	all := make([]*call, n)
	for i := range all {
		all[i] = &call{}
		r.Submit(all[i])
		synctest.Wait()
	}
	return all
}

// sizes are those of the batches that were sent since the last time.
func (r *road) sizes() []int {
	synctest.Wait()
	var sizes []int
	for {
		select {
		case batch := <-r.sent:
			sizes = append(sizes, len(batch))
		default:
			return sizes
		}
	}
}

// A call that finds a free lane waits for nobody; those that find none go together
// when a batch comes back, in order, and no more at once than a batch may hold.
func TestCallsThatWaitGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(t)
		r.submitted(Count)
		if got := r.sizes(); !slices.Equal(got, []int{1, 1, 1, 1}) {
			t.Fatalf("batches of %v calls, want each by itself", got)
		}
		waiting := r.submitted(batchMax + 3)
		if got := r.sizes(); len(got) > 0 {
			t.Fatalf("batches of %v calls went while all lanes were taken", got)
		}
		r.back <- struct{}{}
		synctest.Wait()
		if first := <-r.sent; !slices.Equal(first, waiting[:batchMax]) {
			t.Errorf("the first %d that waited did not go first, and together", batchMax)
		}
		r.back <- struct{}{}
		if got := r.sizes(); !slices.Equal(got, []int{3}) {
			t.Errorf("then batches of %v calls, want the 3 that were left", got)
		}
	})
}

// A batch that is overdue holds no lane: whatever it waits for, the calls after it
// go. However many of its calls are late, it gives up its one lane, once, and again
// not when it comes back.
func TestOverdueBatchHoldsNoLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(t)
		stuck := r.submitted(Count)
		waiting := r.submitted(4)
		r.sizes()
		r.Overdue(waiting[0]) // it has not left: there is no lane to give up
		if got := r.sizes(); len(got) > 0 {
			t.Fatalf("batches of %v calls went while all lanes were taken", got)
		}
		r.Overdue(stuck[0])
		r.Overdue(stuck[0])
		if got := r.sizes(); !slices.Equal(got, []int{4}) {
			t.Fatalf("batches of %v calls, want the 4 that waited", got)
		}
		r.Overdue(waiting[1])
		r.Overdue(waiting[2])
		r.submitted(3)
		if got := r.sizes(); !slices.Equal(got, []int{1}) {
			t.Fatalf("batches of %v calls, want one on the lane that came free", got)
		}
		for range Count + 2 { // all that are out
			r.back <- struct{}{}
		}
		r.sizes()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.busy != 1 || len(r.waiting) > 0 { // the 2 that waited, together
			t.Errorf("%d lanes are busy and %d calls wait, want 1 and 0", r.busy, len(r.waiting))
		}
	})
}
