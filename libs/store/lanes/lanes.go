// Package lanes takes calls to a server in batches that nobody waits for. The system
// calls and wake-ups of a call that goes by itself cost client and server more than the
// call, so what is ready to go goes together.
package lanes

import (
	"runtime"
	"sync"
)

// Count bounds the batches on their way to a server: while so many are, who comes waits
// for the first of them to come back.
const Count = 4

// batch is calls that go together.
type batch struct {
	over bool // it has come back, or is overdue: it holds no lane
}

// Seat is a call's place in a batch: a call embeds it. It is under the lock of the
// lanes, and its zero value is that of a call that has not left.
type Seat struct{ batch *batch }

// Seated returns the seat.
func (s *Seat) Seated() *Seat { return s }

// Call is what travels.
type Call interface{ Seated() *Seat }

// Lanes take the calls to one server there. Nobody waits for company: a call that
// finds a free lane leaves at once, those that find none leave together when one
// comes back. Safe for concurrent use.
type Lanes[C Call] struct {
	send func([]C)
	most int

	mu      sync.Mutex
	waiting []C
	busy    int
}

// New makes lanes whose batches hold at most so many calls. send takes a batch there:
// it returns when each call is answered, or another goroutine sees to that. The slice
// is its own.
func New[C Call](most int, send func([]C)) Lanes[C] { return Lanes[C]{send: send, most: most} }

// Submit sends a call as soon as there is a lane for it.
func (l *Lanes[C]) Submit(c C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, c)
	l.open()
}

// open takes one more lane, if there is one. It is called under the lock.
func (l *Lanes[C]) open() {
	if l.busy < Count {
		l.busy++
		go l.run()
	}
}

// run sends batch after batch on one lane, until nobody waits.
func (l *Lanes[C]) run() {
	for b, calls := l.next(nil); b != nil; b, calls = l.next(b) {
		together := len(calls) > 1
		l.send(calls)
		if together { // under load, those who were just answered may be about to ask again: they come along
			runtime.Gosched()
		}
	}
}

// next is the batch that leaves when last has come back; nil: the lane is given up.
func (l *Lanes[C]) next(last *batch) (*batch, []C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last != nil {
		if last.over {
			return nil, nil
		}
		last.over = true
	}
	n := min(len(l.waiting), l.most)
	if n == 0 {
		l.busy--
		return nil, nil
	}
	b, calls := &batch{}, append([]C(nil), l.waiting[:n]...)
	for _, c := range calls {
		c.Seated().batch = b
	}
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return b, calls
}

// Overdue tells that a call was not answered in time. If it is on its way, its batch
// holds its lane no longer: whom it waits for may be gone, while another server answers
// in its place.
func (l *Lanes[C]) Overdue(c C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := c.Seated().batch
	if b == nil || b.over {
		return
	}
	b.over = true
	l.busy--
	if len(l.waiting) > 0 {
		l.open()
	}
}
