// Package topk finds the keys that come most often, of any number of them, in
// bounded memory: the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005)
// over the last slices of time.
package topk

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of a Top.
const (
	CapacityMax = 1 << 20 // keys
	sliceCount  = 10      // that a window is made of: what has passed is forgotten a tenth at a time
)

// Top counts keys over a sliding window. Safe for concurrent use.
type Top[K comparable] struct {
	capacity int
	slice    time.Duration

	mu     sync.Mutex
	slices [sliceCount]sketch[K]
}

// Item is a key and how often it came.
type Item[K comparable] struct {
	Key K
	// Count is at most Error too much. It may be too little by what came in
	// slices in which the key was rarer than all that were kept.
	Count, Error int64
}

// New makes a Top that keeps so many keys, 1 to CapacityMax, for each tenth of
// the window, which is at least 10 ns. In each tenth it has every key that makes up
// more than 1/capacity of what came.
func New[K comparable](capacity int, window time.Duration) (*Top[K], error) {
	if capacity < 1 || capacity > CapacityMax {
		return nil, fmt.Errorf("top: capacity is %d: want 1 to %d", capacity, CapacityMax)
	}
	if window < sliceCount {
		return nil, fmt.Errorf("top: window is %v: want at least %v", window, time.Duration(sliceCount))
	}
	return &Top[K]{capacity: capacity, slice: window / sliceCount}, nil
}

// Add counts a key, n times, n above 0, at the time now of a clock that does not
// step back.
func (t *Top[K]) Add(now time.Duration, key K, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number := int64(now / t.slice)
	s := &t.slices[number%sliceCount]
	if s.number != number || s.at == nil {
		s.reset(number, t.capacity)
	}
	s.add(key, n, t.capacity)
}

// Most returns the n keys that came most often within the window before now,
// the most frequent first.
func (t *Top[K]) Most(now time.Duration, n int) []Item[K] {
	sums := map[K]*Item[K]{}
	t.mu.Lock()
	oldest := int64(now/t.slice) - sliceCount
	for i := range t.slices {
		if s := &t.slices[i]; s.number <= oldest {
			continue
		}
		for _, e := range t.slices[i].heap {
			sum := sums[e.Key]
			if sum == nil {
				sum = &Item[K]{Key: e.Key}
				sums[e.Key] = sum
			}
			sum.Count, sum.Error = sum.Count+e.Count, sum.Error+e.Error
		}
	}
	t.mu.Unlock()
	all := make([]Item[K], 0, len(sums))
	for _, sum := range sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b Item[K]) int { return cmp.Compare(b.Count, a.Count) })
	return all[:min(n, len(all))]
}

// sketch is Space-Saving over one slice: when it is full, a new key takes the
// place of the rarest and inherits its count, as an error.
type sketch[K comparable] struct {
	number int64
	at     map[K]int // where a key is in heap
	heap   []Item[K] // the rarest first
}

func (s *sketch[K]) reset(number int64, capacity int) {
	s.number, s.heap = number, s.heap[:0]
	if s.at == nil {
		s.at = make(map[K]int, min(capacity, 64))
	}
	clear(s.at)
}

func (s *sketch[K]) add(key K, n int64, capacity int) {
	if i, ok := s.at[key]; ok {
		s.heap[i].Count += n
		heap.Fix(s, i)
		return
	}
	if len(s.heap) < capacity {
		heap.Push(s, Item[K]{Key: key, Count: n})
		return
	}
	rarest := &s.heap[0]
	delete(s.at, rarest.Key)
	*rarest = Item[K]{Key: key, Count: rarest.Count + n, Error: rarest.Count}
	s.at[key] = 0
	heap.Fix(s, 0)
}

// Len, Less, Swap, Push and Pop are heap.Interface's.
func (s *sketch[K]) Len() int           { return len(s.heap) }
func (s *sketch[K]) Less(i, j int) bool { return s.heap[i].Count < s.heap[j].Count }
func (s *sketch[K]) Swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.at[s.heap[i].Key], s.at[s.heap[j].Key] = i, j
}

func (s *sketch[K]) Push(x any) {
	item := x.(Item[K])
	s.at[item.Key] = len(s.heap)
	s.heap = append(s.heap, item)
}

func (s *sketch[K]) Pop() any {
	last := s.heap[len(s.heap)-1]
	delete(s.at, last.Key)
	s.heap = s.heap[:len(s.heap)-1]
	return last
}
