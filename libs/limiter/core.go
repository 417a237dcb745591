package limiter

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// core is the data path without I/O. Whoever drives it tells the time (on one
// monotonic clock), carries asks to the store and brings the replies back. Safe
// for concurrent use, a call at a time.
type core struct {
	table  *table.Table[record]
	out    outbox
	pods   func() int // live pods of the region, at least 1
	paced  bool       // a call to the store costs something, and other pods compete for it
	random atomic.Uint64
	tell   func(rule *limit.Rule, requests, short int64) // of a shadow rule
}

// newCore makes a core whose table has the given bounds and number of shards.
// seed begins its random numbers, and so the names of attempts in logs: two
// pods must not share one.
func newCore(bounds table.Bounds, shards int, seed uint64, pods func() int, paced bool, tell func(*limit.Rule, int64, int64)) (*core, error) {
	c := &core{pods: pods, paced: paced, tell: tell}
	c.random.Store(seed)
	records, err := table.New(bounds, shards, table.Hooks[record]{
		Pinned: (*record).pinned,
		Evicted: func(subject limit.Subject, r *record) {
			for i := range r.states {
				c.out.giveBack(subject, &r.states[i], r.states[i].lease.held)
			}
			r.reset()
		},
	})
	c.table = records
	return c, err
}

// next is a random number: SplitMix64 over a counter.
func (c *core) next() uint64 {
	z := c.random.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// step is what is to be done next for a call.
type step uint8

const (
	stepDone step = iota + 1 // the decision is made
	stepAsk                  // carry call.flight to the store, then apply
	stepWait                 // another call's reply will wake this one, with the step to resume with
	stepGo                   // this subject has paid: on to the next (to resume with, never returned)
)

// call is one request on its way. It is reused; the zero call is ready.
type call struct {
	request  *limit.Request
	decision *limit.Decision
	groups   []group
	at       int       // the group that is being decided
	payments []payment // parallel to the request's charges
	flight   flight    // the ask that this call carries while its step is stepAsk
	wakes    []wake    // what apply leaves: calls to be resumed
	ready    chan step // for the shell: a waiting call is woken here
}

// group is the charges of one subject, from first up to end.
type group struct {
	first, end int
	shard      *table.Shard[record]
	entry      *table.Entry[record]
	by         limit.DecidedBy // how it paid; 0: not yet, or nothing to pay
}

// payment is how a charge was paid, so that it can be handed back.
type payment struct {
	from   source
	window time.Duration // of a lease: lease.window
	at     time.Duration // of the store: Result.At
	member uint64        // of a log
}

type source uint8

const (
	fromNobody source = iota
	fromLease
	fromStore
)

// wake is a call that waited, and the step to resume it with.
type wake struct {
	call *call
	step step
}

// enforced reports whether a charge must be paid: a shadow rule's is counted,
// but no request waits for it.
func enforced(c *limit.Charge) bool { return c.Cost > 0 && c.Rule.Mode != limit.Shadow }

// decide takes a request down the path. Requests of several subjects are looked
// at as a whole first, so that one that is refused in the process charges nobody.
func (c *core) decide(now time.Duration, request *limit.Request, decision *limit.Decision, call *call) step {
	call.begin(request, decision)
	charges := request.Charges
	for first := 0; first < len(charges); {
		g := group{first: first, end: first + 1, shard: c.table.Shard(&charges[first].Subject)}
		for g.end < len(charges) && charges[g.end].Subject == charges[first].Subject {
			g.end++
		}
		call.groups = append(call.groups, g)
		first = g.end
	}
	if len(call.groups) > 1 {
		for i := range call.groups {
			g := &call.groups[i]
			g.shard.Lock()
			g.entry = g.shard.Get(&charges[g.first].Subject)
			refused := c.look(now, &g.entry.Record, call.charges(g), call.outcomes(g)) == refused
			g.shard.Unlock()
			if refused {
				return c.refuse(now, call, i)
			}
		}
	}
	return c.advance(now, call)
}

// fast decides a request of one subject that needs no store, and reports
// whether it did; if not, it has changed nothing. It is decide without a call.
func (c *core) fast(now time.Duration, request *limit.Request, d *limit.Decision) bool {
	charges := request.Charges
	for i := 1; i < len(charges); i++ {
		if charges[i].Subject != charges[0].Subject {
			return false
		}
	}
	d.Reset(request)
	if len(charges) == 0 {
		d.Verdict, d.DecidedBy = limit.Allowed, limit.ByNoRule
		return true
	}
	g := group{shard: c.table.Shard(&charges[0].Subject)}
	g.shard.Lock()
	defer g.shard.Unlock()
	g.entry = g.shard.Get(&charges[0].Subject)
	r := &g.entry.Record
	switch c.look(now, r, charges, d.Outcomes) {
	case lacking:
		return false
	case refused:
		c.blame(now, r, charges, d.Outcomes)
		name(d)
		return true
	}
	d.Verdict, d.DecidedBy = limit.Allowed, max(limit.ByNoRule, c.spend(now, r, charges, d.Outcomes, nil, true))
	if shadowed(charges) {
		c.tally(now, r, charges)
		g.shard.Mark(g.entry)
	}
	return true
}

// resume goes on with a call that was woken.
func (c *core) resume(now time.Duration, call *call, with step) step {
	switch with {
	case stepGo:
		call.at++
		return c.advance(now, call)
	case stepDone:
		return c.refuse(now, call, call.at)
	}
	return with
}

// advance decides groups from call.at on, as far as it goes without the store.
func (c *core) advance(now time.Duration, call *call) step {
	for ; call.at < len(call.groups); call.at++ {
		switch step := c.enter(now, call, &call.groups[call.at]); step {
		case stepGo:
		case stepDone:
			return c.refuse(now, call, call.at)
		default:
			return step
		}
	}
	return c.admit(now, call)
}

// enter decides one group in the process, or sees to it that the store is
// asked. stepDone means that it refused.
func (c *core) enter(now time.Duration, call *call, g *group) step {
	charges, outcomes := call.charges(g), call.outcomes(g)
	g.shard.Lock()
	defer g.shard.Unlock()
	g.entry = g.shard.Get(&charges[0].Subject)
	r := &g.entry.Record
	switch c.look(now, r, charges, outcomes) {
	case refused:
		c.blame(now, r, charges, outcomes)
		return stepDone
	case paid:
		g.by = c.spend(now, r, charges, outcomes, call.payments[g.first:g.end], true)
		return stepGo
	}
	if logged(charges) {
		c.askAlone(now, r, call, g)
		return stepAsk
	}
	c.demanded(now, r, charges)
	return c.enqueue(now, r, call, g)
}

// apply takes the store's reply to call.flight: a result, or an error if it
// gave none. It returns the step of the call itself; those in call.wakes are to
// be resumed too, each only once, and may be gone as soon as they are.
func (c *core) apply(now time.Duration, call *call, err error) step {
	g := &call.groups[call.at]
	call.wakes = call.wakes[:0]
	if err != nil && call.decision.Cause == nil {
		call.decision.Cause = err
	}
	g.shard.Lock()
	g.entry = g.shard.Again(g.entry, &call.request.Charges[g.first].Subject)
	r := &g.entry.Record
	var own step
	if call.flight.alone {
		own = c.settleAlone(now, r, call, g, err)
	} else {
		own = c.settleQueue(now, r, call, g, err)
	}
	g.shard.Unlock()
	return c.resume(now, call, own)
}

// admit ends a call that nobody refused: its shadow rules are counted.
func (c *core) admit(now time.Duration, call *call) step {
	d := call.decision
	d.Verdict, d.DecidedBy = limit.Allowed, limit.ByNoRule
	for i := range call.groups {
		g := &call.groups[i]
		d.DecidedBy = max(d.DecidedBy, g.by)
		c.count(now, g, call.charges(g))
	}
	return stepDone
}

// refuse ends a call at the group that refused it. What earlier groups paid
// goes back.
func (c *core) refuse(now time.Duration, call *call, at int) step {
	d := call.decision
	d.Outcomes = d.Outcomes[:call.groups[at].end]
	name(d)
	for i := range at {
		c.takeBack(now, call, &call.groups[i])
	}
	return stepDone
}

// name says in a refused decision who refused it: the first enforced rule that
// was short, else the first closed one without an answer.
func name(d *limit.Decision) {
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		if o.Short && o.Rule.Mode != limit.Shadow {
			d.Verdict, d.DecidedBy, d.Refused, d.Cause = limit.Denied, o.DecidedBy, i, nil
			return
		}
		if o.DecidedBy == limit.ByFailClosed && d.Refused < 0 {
			d.Verdict, d.DecidedBy, d.Refused = limit.Unavailable, o.DecidedBy, i
		}
	}
}

func (call *call) begin(request *limit.Request, decision *limit.Decision) {
	call.request, call.decision = request, decision
	call.groups, call.payments, call.at = call.groups[:0], call.payments[:0], 0
	decision.Reset(request)
	call.payments = slices.Grow(call.payments, len(request.Charges))[:len(request.Charges)]
	clear(call.payments)
}

func (call *call) charges(g *group) []limit.Charge   { return call.request.Charges[g.first:g.end] }
func (call *call) outcomes(g *group) []limit.Outcome { return call.decision.Outcomes[g.first:g.end] }

// logged reports whether a group charges a log, which lends nothing.
func logged(charges []limit.Charge) bool {
	for i := range charges {
		if charges[i].Rule.Algorithm == limit.SlidingLog && enforced(&charges[i]) {
			return true
		}
	}
	return false
}

// flight is an ask on its way to the store and back.
type flight struct {
	ask     store.Ask
	result  store.Result
	sent    time.Duration
	tallies []tally // parallel to the ask's entries: what a shadow entry sums up
	charges []int   // of a call that asks alone: each entry's charge
	alone   bool    // the ask is for one request, not for the queue
}

func (f *flight) begin(now time.Duration, subject limit.Subject, alone bool) {
	f.ask.Subject, f.ask.Entries = subject, f.ask.Entries[:0]
	f.tallies, f.charges = f.tallies[:0], f.charges[:0]
	f.sent, f.alone = now, alone
}
