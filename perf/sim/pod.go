package sim

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// pod is a core and its connection to its region's store.
type pod struct {
	id      int
	w       *World
	region  *region
	core    *limiter.Core
	offset  time.Duration // of its clock
	drift   float64       // its clock runs at 1 + drift
	lag     time.Duration // it learns of a new limit so much later
	down    string        // "drained" or "crashed"
	waiting map[*limiter.Call]*request
	calls   []*limiter.Call // for reuse
}

// request is one that is being decided.
type request struct {
	parts    []Part
	class    *Class
	at       time.Duration
	limits   limit.Request
	decision limit.Decision
}

// AddPods adds n pods to a region.
func (w *World) AddPods(to, n int) {
	r := w.regions[to]
	for range n {
		p := &pod{id: len(w.pods), w: w, region: r, waiting: map[*limiter.Call]*request{}}
		p.lag = time.Duration(w.rng.Float64() * float64(w.cfg.Lag))
		if w.cfg.Drift > 0 {
			p.drift = w.cfg.Drift * (2*w.rng.Float64() - 1)
			p.offset = time.Duration(w.rng.Int64N(int64(24 * time.Hour)))
		}
		var err error
		p.core, err = limiter.NewCore(limiter.CoreConfig{
			Bounds: table.Bounds{IPs: w.cfg.Accounts, Users: w.cfg.Accounts, Accounts: w.cfg.Accounts}, Shards: 1,
			Seed: w.cfg.Seed<<16 + uint64(p.id), Pods: func() int { return max(1, r.live) }, Paced: true, Tell: w.tell,
		})
		if err != nil {
			w.fail(err)
			return
		}
		w.pods = append(w.pods, p)
		r.live++
		var sweep func()
		sweep = func() {
			if p.down == "" {
				p.core.Sweep(p.now())
				p.errands()
				w.after(limiter.SweepEvery, sweep)
			}
		}
		w.after(time.Duration(w.rng.Float64()*float64(limiter.SweepEvery)), sweep)
	}
}

// now is the pod's clock.
func (p *pod) now() time.Duration {
	return p.w.now + p.offset + time.Duration(p.drift*float64(p.w.now))
}

// Told is what a shadow rule has said: of how many admitted requests, and how
// many of them it would have refused.
type Told struct{ Requests, Short int64 }

func (w *World) tell(rule *limit.Rule, requests, short int64) {
	told := w.told[rule.ID]
	w.told[rule.ID] = Told{told.Requests + requests, told.Short + short}
}

// Arrive sends a request of a class to a pod. The parts of one subject are
// beside each other, the subjects in the order of their kinds.
func (w *World) Arrive(pod int, class string, parts ...Part) {
	p, c := w.pods[pod], w.class(class)
	cost := parts[0].Cost
	c.Offered += cost
	if w.started {
		c.Requests++
	}
	entitled := w.oracle.entitled(w.now, parts)
	if entitled {
		c.Entitled += cost
	}
	w.series.add(w.now, w.cfg.Slot, func(s *Slot) {
		s.Offered += cost
		if entitled {
			s.Entitled += cost
		}
	})
	w.asked++
	r := &request{parts: parts, class: c, at: w.now}
	for _, part := range parts {
		v := part.Key.at(p.region.id, w.now-p.lag)
		r.limits.Charges = append(r.limits.Charges, limit.Charge{Subject: part.Key.Subject, Rule: v.rule, Limit: v.limit, Cost: part.Cost, Revision: v.revision})
	}
	p.check(r)
}

func (p *pod) check(r *request) {
	if p.core.DecideLocally(p.now(), &r.limits, &r.decision) {
		p.settle(r)
	} else {
		call := p.newCall()
		p.waiting[call] = r
		p.step(call, p.core.Decide(p.now(), &r.limits, &r.decision, call))
	}
	p.errands()
}

func (p *pod) newCall() *limiter.Call {
	if n := len(p.calls); n > 0 {
		call := p.calls[n-1]
		p.calls = p.calls[:n-1]
		return call
	}
	return &limiter.Call{}
}

// step does for a call what its step says.
func (p *pod) step(call *limiter.Call, step limiter.Step) {
	switch step {
	case limiter.StepDone:
		p.settle(p.waiting[call])
		delete(p.waiting, call)
		p.calls = append(p.calls, call)
	case limiter.StepAsk:
		p.region.call(call.Ask(), call.Result(), func(err error) {
			if p.down != "" {
				p.late(call.Ask(), call.Result(), err)
				return
			}
			next := p.core.Apply(p.now(), call, err)
			for _, wake := range call.Wakes() {
				p.step(wake.Call, p.core.Resume(p.now(), wake.Call, wake.With))
			}
			p.step(call, next)
			p.errands()
		})
	}
}

// settle measures a decided request.
func (p *pod) settle(r *request) {
	w, d := p.w, &r.decision
	w.settled++
	w.by[d.DecidedBy]++
	w.waits.add(w.now-r.at, subjects(r.parts), w.cfg.RTT)
	if d.Verdict != limit.Allowed {
		return
	}
	cost := r.parts[0].Cost
	r.class.Admitted += cost
	w.series.add(w.now, w.cfg.Slot, func(s *Slot) { s.Admitted += cost })
	for i, part := range r.parts {
		if part.Key.Rule.Mode == limit.Shadow {
			continue
		}
		a, by := admission{w.now, part.Cost, p.id}, d.Outcomes[i].DecidedBy
		paid := by == limit.ByLease || by == limit.ByStore
		if !paid && part.Key.Rule.FailMode == limit.FailClosed {
			w.unpaid++
		}
		for _, m := range part.Key.of(p.region.id) {
			if paid {
				m.admit(p.region.clock(), a)
			} else {
				m.log = append(m.log, a)
			}
		}
	}
}

func subjects(parts []Part) int {
	n := 1
	for i := 1; i < len(parts); i++ {
		if parts[i].Key.Subject != parts[i-1].Key.Subject {
			n++
		}
	}
	return n
}

// errands carries what is in the core's outbox to the store.
func (p *pod) errands() {
	for _, e := range p.core.Errands() {
		e.Sent = p.now()
		result := &store.Result{}
		p.region.call(&e.Ask, result, func(err error) {
			switch {
			case p.down == "crashed":
			case err != nil:
				p.core.Unsettled(&e)
			default:
				p.core.Settle(p.now(), &e, result)
			}
		})
	}
}

// Stop drains a pod, which hands everything back, or crashes it, which loses it.
// What waits at it is gone with its connection.
func (w *World) Stop(id int, how string) {
	p := w.pods[id]
	p.down = how
	p.region.live--
	w.settled += int64(len(p.waiting))
	clear(p.waiting)
	p.core.Drain(p.now())
	if how == "drained" {
		p.errands()
		return
	}
	for _, e := range p.core.Errands() {
		for i := range e.Ask.Entries {
			for _, m := range p.region.meters(&e.Ask, i) {
				m.lose(p.region.clock(), e.Ask.Entries[i].Give)
			}
		}
	}
}

// late takes a reply to a pod that has stopped meanwhile: one that drained
// hands the grant back, one that crashed has lost it.
func (p *pod) late(ask *store.Ask, result *store.Result, err error) {
	if err != nil {
		return
	}
	back := store.Ask{Subject: ask.Subject}
	for i := range ask.Entries {
		e, granted := &ask.Entries[i], result.Outcomes[i].Granted
		if granted == 0 {
			continue
		}
		back.Entries = append(back.Entries, store.Entry{Rule: e.Rule, Limit: e.Limit, Give: granted, GivenFrom: result.At, Member: e.Member})
		for _, m := range p.region.meters(ask, i) {
			if p.down == "crashed" {
				m.lose(p.region.clock(), granted)
			}
		}
	}
	if p.down == "drained" && len(back.Entries) > 0 {
		p.region.call(&back, &store.Result{}, func(error) {})
	}
}
