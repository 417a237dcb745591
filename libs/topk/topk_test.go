package topk

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newTop(t interface{ Fatal(...any) }, capacity int) *Top[string] {
	top, err := New[string](capacity, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// Whatever comes within a slice: no key is counted too low, none too high by
// more than its error, and every key that makes up more than 1/capacity is there.
func TestFrequentKeysAreFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 8).Draw(t, "capacity")
		top, truth, all := newTop(t, capacity), map[string]int64{}, int64(0)
		for _, k := range rapid.SliceOfN(rapid.IntRange(0, 20), 1, 200).Draw(t, "keys") {
			key, n := fmt.Sprint(k), int64(1+k%3)
			top.Add(0, key, n)
			truth[key], all = truth[key]+n, all+n
		}
		found := map[string]Item[string]{}
		for _, item := range top.Most(0, 100) {
			found[item.Key] = item
			if real := truth[item.Key]; item.Count < real || item.Count-item.Error > real {
				t.Fatalf("%s came %d times: counted %d, error %d", item.Key, real, item.Count, item.Error)
			}
		}
		if len(found) > capacity {
			t.Fatalf("%d keys are kept, want at most %d", len(found), capacity)
		}
		for key, n := range truth {
			if _, ok := found[key]; !ok && n*int64(capacity) > all {
				t.Fatalf("%s came %d times of %d and is not among %d", key, n, all, capacity)
			}
		}
	})
}

// What came before the window is forgotten, a tenth at a time, also when nothing
// has come since.
func TestWindowSlides(t *testing.T) {
	top := newTop(t, 4)
	top.Add(500*time.Millisecond, "old", 5)
	top.Add(9500*time.Millisecond, "new", 3)
	for _, c := range []struct {
		now  time.Duration
		want []Item[string]
	}{
		{9900 * time.Millisecond, []Item[string]{{"old", 5, 0}, {"new", 3, 0}}},
		{10 * time.Second, []Item[string]{{"new", 3, 0}}},
		{time.Minute, []Item[string]{}},
	} {
		if diff := cmp.Diff(c.want, top.Most(c.now, 10)); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", c.now, diff)
		}
	}
	top.Add(10*time.Second, "newest", 1) // in the place of the first slice
	if diff := cmp.Diff([]Item[string]{{"new", 3, 0}}, top.Most(10*time.Second, 1)); diff != "" {
		t.Errorf("the most frequent alone (-want +got):\n%s", diff)
	}
}

// A flood of keys that come once costs the memory of as many as are kept.
func TestMemoryIsBounded(t *testing.T) {
	top := newTop(t, 16)
	for i := range 100_000 {
		top.Add(time.Duration(i)*time.Millisecond, fmt.Sprint(i), 1)
	}
	for i := range top.slices {
		if s := &top.slices[i]; len(s.at) > 16 || cap(s.heap) > 32 {
			t.Errorf("a slice keeps %d keys in room for %d, want 16", len(s.at), cap(s.heap))
		}
	}
}

// What is out of range is refused by name.
func TestNewRefuses(t *testing.T) {
	for want, make := range map[string]func() (*Top[int], error){
		"top: capacity is 0: want 1 to 1048576":  func() (*Top[int], error) { return New[int](0, time.Second) },
		"top: window is 9ns: want at least 10ns": func() (*Top[int], error) { return New[int](1, 9) },
	} {
		if _, err := make(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
