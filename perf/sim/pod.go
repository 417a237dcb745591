package sim

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// pod is a core and its connection to the store.
type pod struct {
	id      int
	w       *World
	core    *limiter.Core
	down    string // "drained" or "crashed"
	waiting map[*limiter.Call]*request
	calls   []*limiter.Call // for reuse
}

// request is one that waits for the store.
type request struct {
	parts    []Part
	class    *Class
	at       time.Duration
	limits   limit.Request
	decision limit.Decision
}

// AddPods adds n pods to the region.
func (w *World) AddPods(n int) error {
	for range n {
		p := &pod{id: len(w.pods), w: w, waiting: map[*limiter.Call]*request{}}
		var err error
		p.core, err = limiter.NewCore(limiter.CoreConfig{
			Bounds: table.Bounds{IPs: 1 << 16, Users: 1 << 16, Accounts: 1 << 16}, Shards: 1,
			Seed: w.cfg.Seed<<16 + uint64(p.id), Pods: func() int { return w.live }, Paced: true,
			Tell: func(*limit.Rule, int64, int64) {},
		})
		if err != nil {
			return err
		}
		w.pods = append(w.pods, p)
		w.live++
		var sweep func()
		sweep = func() {
			if p.down == "" {
				p.core.Sweep(w.now)
				p.errands()
				w.after(limiter.SweepEvery, sweep)
			}
		}
		w.after(time.Duration(w.rng.Float64()*float64(limiter.SweepEvery)), sweep)
	}
	return nil
}

// Arrive sends a request of a class to a pod.
func (w *World) Arrive(pod int, class string, parts ...Part) {
	c := w.classes[class]
	if c == nil {
		c = &Class{}
		w.classes[class] = c
	}
	c.Offered += parts[0].Cost
	if w.oracle.entitled(w.now, parts) {
		c.Entitled += parts[0].Cost
	}
	w.asked++
	r := &request{parts: parts, class: c, at: w.now}
	for _, p := range parts {
		r.limits.Charges = append(r.limits.Charges, limit.Charge{Subject: p.Key.Subject, Rule: p.Key.Rule, Limit: p.Key.Limit(), Cost: p.Cost})
	}
	w.pods[pod].check(r)
}

func (p *pod) check(r *request) {
	if p.core.DecideLocally(p.w.now, &r.limits, &r.decision) {
		p.settle(r)
	} else {
		call := p.newCall()
		p.waiting[call] = r
		p.step(call, p.core.Decide(p.w.now, &r.limits, &r.decision, call))
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
		p.w.call(call.Ask(), call.Result(), func(err error) {
			if p.down != "" {
				p.late(call.Ask(), call.Result(), err)
				return
			}
			next := p.core.Apply(p.w.now, call, err)
			for _, wake := range call.Wakes() {
				p.step(wake.Call, p.core.Resume(p.w.now, wake.Call, wake.With))
			}
			p.step(call, next)
		})
	}
}

// settle measures a decided request.
func (p *pod) settle(r *request) {
	w, d := p.w, &r.decision
	w.settled++
	w.by[d.DecidedBy]++
	w.longest = max(w.longest, w.now-r.at)
	if d.Verdict != limit.Allowed {
		return
	}
	r.class.Admitted += r.parts[0].Cost
	for i, part := range r.parts {
		m := part.Key.meter
		if m == nil {
			continue
		}
		if d.Outcomes[i].DecidedBy == limit.ByFallback {
			m.log = append(m.log, admission{w.now, part.Cost, p.id})
			continue
		}
		m.admit(w.now, part.Cost, p.id)
	}
}

// errands carries what is in the core's outbox to the store.
func (p *pod) errands() {
	for _, e := range p.core.Errands() {
		e.Sent = p.w.now
		result := &store.Result{}
		p.w.call(&e.Ask, result, func(err error) {
			if err == nil {
				p.core.Settle(p.w.now, &e, result)
			}
		})
	}
}

// Stop drains a pod, which hands everything back, or crashes it, which loses it.
func (w *World) Stop(id int, how string) {
	p := w.pods[id]
	p.down = how
	w.live--
	for call, r := range p.waiting {
		w.settled++
		delete(p.waiting, call)
		_ = r
	}
	p.core.Drain(w.now)
	if how == "drained" {
		p.errands()
		return
	}
	for _, e := range p.core.Errands() {
		for i := range e.Ask.Entries {
			if m := w.meterOf(&e.Ask, i); m != nil {
				m.lose(w.now, e.Ask.Entries[i].Give)
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
		back.Entries = append(back.Entries, store.Entry{Rule: e.Rule, Limit: e.Limit, Give: granted, GivenFrom: result.At})
		if m := p.w.meterOf(ask, i); m != nil && p.down == "crashed" {
			m.lose(p.w.now, granted)
		}
	}
	if p.down == "drained" && len(back.Entries) > 0 {
		p.w.call(&back, &store.Result{}, func(error) {})
	}
}
