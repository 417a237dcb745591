package sim

import (
	"context"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/table"
)

// region is a store, the way to it, and the part of the limits it holds.
type region struct {
	w     *World
	id    int
	share limit.Share
	store *memory.Store
	live  int           // pods
	skew  time.Duration // of the store's clock
	drift float64       // the store's clock runs at 1 + drift
	fault func() fate   // nil: every call is answered
}

// fate is what becomes of a call.
type fate uint8

const (
	answered  fate = iota
	refused        // at once, and not carried out
	askLost        // it times out, and was not carried out
	replyLost      // it times out, and was carried out all the same
)

// epoch is the store's time at the begin of a run.
const epoch = time.Hour

func newRegion(w *World, id int, share limit.Share) (*region, error) {
	r := &region{w: w, id: id, share: share}
	return r, r.start()
}

// start gives the region an empty store.
func (r *region) start() (err error) {
	r.store, err = memory.New(memory.Config{Shards: 1, Now: r.clock, Bounds: table.Bounds{IPs: 1 << 18, Users: 1 << 18, Accounts: 1 << 18}})
	return err
}

// restart lets the store forget everything: each counter is full again.
func (r *region) restart() {
	r.w.excused = true
	if err := r.start(); err != nil {
		r.w.fail(err)
	}
	for _, k := range r.w.keys {
		for _, m := range k.of(r.id) {
			m.forgotten(r.clock())
		}
	}
}

// clock is the store's.
func (r *region) clock() time.Duration {
	return epoch + r.w.now + time.Duration(r.drift*float64(r.w.now)) + r.skew
}

// step sets the store's clock forward or back by d.
func (r *region) step(d time.Duration) {
	r.w.excused = true
	before := r.clock()
	r.skew += d
	for _, k := range r.w.keys {
		for _, m := range k.of(r.id) {
			m.stepped(before, r.clock())
		}
	}
}

// call carries an ask over the network and its reply back. What takes longer
// than the timeout is a timeout.
func (r *region) call(ask *store.Ask, result *store.Result, reply func(error)) {
	w := r.w
	there, back := w.oneWay(), w.oneWay()
	w.after(there, func() {
		fate := answered
		if r.fault != nil {
			fate = r.fault()
		}
		if fate == answered && there+back > w.cfg.Timeout {
			fate = replyLost
		}
		if fate == answered || fate == replyLost {
			r.take(ask, result)
		}
		var err error
		switch fate {
		case refused:
			err = store.ErrUnavailable
		case askLost, replyLost:
			err, back = store.ErrTimeout, w.cfg.Timeout-there
		}
		if err != nil {
			w.unknown++
			r.lose(ask, result, fate)
		}
		w.after(back, func() { reply(err) })
	})
}

// lose measures what a call that failed cost: the grant, or what it brought back.
func (r *region) lose(ask *store.Ask, result *store.Result, fate fate) {
	for i := range ask.Entries {
		e := &ask.Entries[i]
		n := e.Give
		if fate == replyLost {
			n = result.Outcomes[i].Granted
		}
		for _, m := range r.meters(ask, i) {
			m.lose(r.clock(), n)
		}
	}
}

// take lets the store answer and measures what it charged and took back.
func (r *region) take(ask *store.Ask, result *store.Result) {
	before := make([]float64, len(ask.Entries))
	for i := range ask.Entries {
		if ask.Entries[i].Give > 0 {
			before[i] = r.left(ask, i)
		}
	}
	if err := r.store.Take(context.Background(), ask, result); err != nil {
		r.w.fail(err)
		return
	}
	asks := false
	for i := range ask.Entries {
		e, o := &ask.Entries[i], &result.Outcomes[i]
		asks = asks || e.Want > 0
		took := 0.0
		if e.Give > 0 {
			took = min(float64(e.Give), max(0, left(e, o)+float64(o.Granted)-before[i]))
			if float64(e.Give)-took < 3*e.Limit.Rate.PerMicrosecond() { // of what Reset rounds away
				took = float64(e.Give)
			}
		}
		for _, m := range r.meters(ask, i) {
			if e.Give > 0 {
				m.giveBack(r.clock(), e.Give, took, e.Member)
			}
			if o.Granted > 0 {
				m.charge(r.clock(), o.Granted, e.Member)
			}
		}
	}
	r.w.called(ask.Subject, asks)
}

func (r *region) meters(ask *store.Ask, i int) []*meter {
	if k := r.w.byTag[tagged{ask.Subject, ask.Entries[i].Rule.Tag}]; k != nil {
		return k.of(r.id)
	}
	return nil
}

// left is what a counter holds.
func (r *region) left(ask *store.Ask, i int) float64 {
	e := ask.Entries[i]
	peek := store.Ask{Subject: ask.Subject, Entries: []store.Entry{{Rule: e.Rule, Limit: e.Limit}}}
	var result store.Result
	if err := r.store.Take(context.Background(), &peek, &result); err != nil {
		r.w.fail(err)
		return 0
	}
	return left(&e, &result.Outcomes[0])
}

// left is what a reply says that a counter holds: of a bucket, Reset has the
// fraction.
func left(e *store.Entry, o *store.Outcome) float64 {
	if e.Limit.Window > 0 {
		return float64(o.Remaining)
	}
	return float64(e.Limit.Burst) - float64(o.Reset)/float64(time.Microsecond)*e.Limit.Rate.PerMicrosecond()
}

// called counts a call for a subject; asks says that it was not of hand-backs alone.
func (w *World) called(subject limit.Subject, asks bool) {
	w.series.add(w.now, w.cfg.Slot, func(s *Slot) { s.Calls++ })
	if !w.started {
		return
	}
	w.asks++
	if !asks {
		w.gives++
	}
	if c := w.owners[subject]; c != nil {
		c.Calls++
	}
}
