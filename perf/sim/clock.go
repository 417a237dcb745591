package sim

import (
	"container/heap"
	"time"
)

// clock is virtual time and what is to happen in it.
type clock struct {
	now    time.Duration
	events events
	order  uint64
}

type event struct {
	at    time.Duration
	order uint64 // ties run in the order in which they were set: a run can be repeated
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func (c *clock) at(t time.Duration, do func()) {
	c.order++
	heap.Push(&c.events, event{t, c.order, do})
}

func (c *clock) after(d time.Duration, do func()) { c.at(c.now+d, do) }

// run lets everything happen that is to happen until then.
func (c *clock) run(until time.Duration) {
	for len(c.events) > 0 && c.events[0].at <= until {
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		e.do()
	}
	c.now = until
}
