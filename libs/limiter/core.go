package limiter

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// Core is the data path without I/O. Whoever drives it tells the time (on one
// monotonic clock), carries asks to the store and brings the replies back, as
// Limiter does. Safe for concurrent use, each Call by one goroutine at a time.
type Core struct {
	table  *table.Table[record]
	out    outbox
	book   book
	cfg    CoreConfig
	random atomic.Uint64
}

// CoreConfig is what a Core is made of; every field but Budget is required.
type CoreConfig struct {
	Bounds table.Bounds
	Shards int           // of the table: a power of two; with 1 a run can be repeated exactly
	Seed   uint64        // of its random numbers, and so of the names of attempts in logs: two pods must not share one
	Pods   func() int    // live pods of the region, at least 1
	Paced  bool          // a call to the store costs something: what was found short is not asked for again at once
	Budget time.Duration // how long a decision may have waited and wait for one more reply; 0: no bound
	Tell   func(rule *limit.Rule, requests, short int64)
}

// NewCore makes a core. An error names a bound of the table that is out of range.
func NewCore(cfg CoreConfig) (*Core, error) {
	c := &Core{cfg: cfg}
	c.random.Store(cfg.Seed)
	c.out.member, c.out.book = c.next, &c.book
	records, err := table.New(cfg.Bounds, cfg.Shards, table.Hooks[record]{
		Pinned: (*record).pinned,
		Evicted: func(subject limit.Subject, r *record) {
			for i := range r.states {
				s := &r.states[i]
				c.out.giveBack(subject, s, s.lease.held)
				c.out.tell(subject, s)
			}
			r.reset()
		},
	})
	if err != nil {
		return nil, err
	}
	c.table = records
	return c, nil
}

// pods is the number of live pods, whatever it is said to be.
func (c *Core) pods() int { return max(1, c.cfg.Pods()) }

// next is a random number: SplitMix64 over a counter.
func (c *Core) next() uint64 {
	z := c.random.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Step is what is to be done next for a call.
type Step uint8

// The steps.
const (
	StepDone Step = iota + 1 // the decision is made
	StepAsk                  // carry Call.Ask to the store, then Apply
	StepWait                 // another call's reply will wake this one, with the step to Resume with
	StepGo                   // this subject has paid: on to the next (to resume with, never returned)
)

// Call is one request on its way. It may be reused when its decision is made;
// the zero Call is ready.
type Call struct {
	request  *limit.Request
	decision *limit.Decision
	groups   []group
	began    time.Duration
	at       int       // the group that is being decided
	payments []payment // parallel to the request's charges
	flight   flight    // the ask that this call carries while its step is StepAsk
	wakes    []Wake    // what Apply leaves: calls to be resumed
	ready    chan Step // for the shell: a waiting call is woken here
}

// Ask is what is to be carried to the store while the step is StepAsk.
func (call *Call) Ask() *store.Ask { return &call.flight.ask }

// Result is where the store's reply to Ask is put.
func (call *Call) Result() *store.Result { return &call.flight.result }

// Wakes are the calls that Apply has settled, until the next Apply.
func (call *Call) Wakes() []Wake { return call.wakes }

// group is the charges of one subject, from first up to end.
type group struct {
	first, end int
	shard      *table.Shard[record]
	entry      *table.Entry[record]
	by         limit.DecidedBy // how it paid; 0: not yet, or nothing to pay
}

// Wake is a call that waited, and the step to resume it with.
type Wake struct {
	Call *Call
	With Step
}

// enforced reports whether a charge must be paid before the request passes.
func enforced(c *limit.Charge) bool { return c.Cost > 0 && c.Rule.Waits() }

// Decide takes a request down the path. Requests of several subjects are looked
// at as a whole first, so that one that is refused in the process charges nobody.
func (c *Core) Decide(now time.Duration, request *limit.Request, decision *limit.Decision, call *Call) Step {
	call.begin(now, request, decision)
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
			if refused {
				c.blame(now, &g.entry.Record, call.charges(g), call.outcomes(g))
			}
			g.shard.Unlock()
			if refused {
				return c.refuse(now, call, i)
			}
		}
	}
	return c.advance(now, call)
}

// DecideLocally decides a request of one subject that needs no store, and reports
// whether it did; if not, it has charged nothing. It is
// Decide without a Call.
func (c *Core) DecideLocally(now time.Duration, request *limit.Request, d *limit.Decision) bool {
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
	if anyDeferred(charges) {
		c.tally(now, r, charges)
		g.shard.Mark(g.entry)
	}
	return true
}

// Resume goes on with a call that was woken.
func (c *Core) Resume(now time.Duration, call *Call, with Step) Step {
	switch with {
	case StepGo:
		call.at++
		return c.advance(now, call)
	case StepDone:
		return c.refuse(now, call, call.at)
	}
	return with
}

// advance decides groups from call.at on, as far as it goes without the store.
func (c *Core) advance(now time.Duration, call *Call) Step {
	for ; call.at < len(call.groups); call.at++ {
		switch step := c.enter(now, call, &call.groups[call.at]); step {
		case StepGo:
		case StepDone:
			return c.refuse(now, call, call.at)
		default:
			return step
		}
	}
	return c.admit(now, call)
}

// enter decides one group in the process, or sees to it that the store is
// asked. StepDone means that it refused.
func (c *Core) enter(now time.Duration, call *Call, g *group) Step {
	charges, outcomes := call.charges(g), call.outcomes(g)
	g.shard.Lock()
	defer g.shard.Unlock()
	g.entry = g.shard.Get(&charges[0].Subject)
	r := &g.entry.Record
	switch c.look(now, r, charges, outcomes) {
	case refused:
		c.blame(now, r, charges, outcomes)
		return StepDone
	case paid:
		g.by = c.spend(now, r, charges, outcomes, call.paid(g), true)
		return StepGo
	}
	if c.spent(now, call.began) {
		return c.failCall(now, r, call, errBudget)
	}
	if logged(charges) {
		c.askAlone(now, r, call, g)
		return StepAsk
	}
	c.demanded(now, r, charges)
	return c.enqueue(now, r, call, g)
}

// Apply takes the store's reply to call's ask: a result, or an error if it gave
// none. It returns the step of the call itself; those in its wakes are to be
// resumed too, each only once.
func (c *Core) Apply(now time.Duration, call *Call, err error) Step {
	c.book.asks.Add(1)
	g := &call.groups[call.at]
	clear(call.wakes)
	call.wakes = call.wakes[:0]
	g.shard.Lock()
	g.entry = g.shard.Again(g.entry, &call.request.Charges[g.first].Subject)
	r := &g.entry.Record
	var own Step
	if call.flight.alone {
		own = c.settleAlone(now, r, call, g, err)
	} else {
		own = c.settleQueue(now, r, call, err)
	}
	g.shard.Unlock()
	return c.Resume(now, call, own)
}

// admit ends a call that nobody refused: what no request waits for is counted.
func (c *Core) admit(now time.Duration, call *Call) Step {
	d := call.decision
	d.Verdict, d.DecidedBy = limit.Allowed, limit.ByNoRule
	for i := range call.groups {
		g := &call.groups[i]
		d.DecidedBy = max(d.DecidedBy, g.by)
		c.count(now, g, call.charges(g))
	}
	return StepDone
}

// refuse ends a call at the group that refused it. What earlier groups paid
// goes back.
func (c *Core) refuse(now time.Duration, call *Call, at int) Step {
	d := call.decision
	d.Outcomes = d.Outcomes[:call.groups[at].end]
	name(d)
	for i := range at {
		c.takeBack(now, call, &call.groups[i])
	}
	return StepDone
}

// name says in a refused decision who refused it: the first closed rule without
// an answer, else the first enforced one that was short.
func name(d *limit.Decision) {
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		if o.DecidedBy == limit.ByFailClosed {
			d.Verdict, d.DecidedBy, d.Refused = limit.Unavailable, o.DecidedBy, i
			return
		}
		if o.Short && o.Rule.Mode != limit.Shadow && d.Refused < 0 {
			d.Verdict, d.DecidedBy, d.Refused = limit.Denied, o.DecidedBy, i
		}
	}
	if d.DecidedBy != limit.ByFallback {
		d.Cause = nil // what could not be asked did not decide
	}
}

func (call *Call) begin(now time.Duration, request *limit.Request, decision *limit.Decision) {
	call.request, call.decision, call.began = request, decision, now-request.Waited
	call.groups, call.payments, call.at = call.groups[:0], call.payments[:0], 0
	decision.Reset(request)
	call.payments = slices.Grow(call.payments, len(request.Charges))[:len(request.Charges)]
	clear(call.payments)
}

func (call *Call) charges(g *group) []limit.Charge   { return call.request.Charges[g.first:g.end] }
func (call *Call) outcomes(g *group) []limit.Outcome { return call.decision.Outcomes[g.first:g.end] }
func (call *Call) paid(g *group) []payment           { return call.payments[g.first:g.end] }

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
	tallies []tally // parallel to the ask's entries: what an entry sums up that no request waits for
	charges []int   // of a call that asks alone: each entry's charge
	alone   bool    // the ask is for one request, not for the queue
}

func (f *flight) begin(now time.Duration, subject limit.Subject, alone bool) {
	f.ask.Subject, f.ask.Entries = subject, f.ask.Entries[:0]
	f.tallies, f.charges = f.tallies[:0], f.charges[:0]
	f.sent, f.alone = now, alone
}
