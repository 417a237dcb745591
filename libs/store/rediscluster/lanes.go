package rediscluster

import (
	"runtime"
	"sync"
)

// How calls to a shard share the way there. The system calls and wake-ups of a
// call that goes by itself cost client and server more than the call, so what is
// ready to go goes together.
const (
	// laneCount bounds the batches on their way to a shard: while so many are, who
	// comes waits for the first of them to come back.
	laneCount = 4
	// batchMax bounds the calls of a batch, which are answered together: they take the
	// server less than half a millisecond.
	batchMax = 32
)

// batch is calls that go together.
type batch struct {
	calls []*call
	over  bool // it has come back, or is overdue: it holds no lane
}

// lanes take the calls of one shard there. Nobody waits for company: a call that
// finds a free lane leaves at once, those that find none leave together when one
// comes back. Safe for concurrent use.
type lanes struct {
	send func([]*call) // returns when each is answered, or another goroutine sees to that

	mu      sync.Mutex
	waiting []*call
	busy    int
}

// submit sends a call as soon as there is a lane for it.
func (l *lanes) submit(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, c)
	l.open()
}

// open takes one more lane, if there is one. It is called under the lock.
func (l *lanes) open() {
	if l.busy < laneCount {
		l.busy++
		go l.run()
	}
}

// run sends batch after batch on one lane, until nobody waits.
func (l *lanes) run() {
	for b := l.next(nil); b != nil; b = l.next(b) {
		l.send(b.calls)
		if len(b.calls) > 1 { // under load, those who were just answered may be about to ask again: they come along
			runtime.Gosched()
		}
	}
}

// next is the batch that leaves when last has come back; nil: the lane is given up.
func (l *lanes) next(last *batch) *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last != nil {
		if last.over {
			return nil
		}
		last.over = true
	}
	n := min(len(l.waiting), batchMax)
	if n == 0 {
		l.busy--
		return nil
	}
	b := &batch{calls: append([]*call(nil), l.waiting[:n]...)}
	for _, c := range b.calls {
		c.batch = b
	}
	rest := copy(l.waiting, l.waiting[n:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	return b
}

// overdue tells that a call was not answered in time. If it is on its way, its batch
// holds its lane no longer: whom it waits for may be gone, while another node serves
// the shard.
func (l *lanes) overdue(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.batch == nil || c.batch.over {
		return
	}
	c.batch.over = true
	l.busy--
	if len(l.waiting) > 0 {
		l.open()
	}
}
