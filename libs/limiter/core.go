package limiter

import (
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// core is the data path without I/O. Whoever drives it tells the time (on one
// monotonic clock), carries asks to the store and brings the replies back.
// Safe for concurrent use, a call at a time.
type core struct {
	table  *table.Table[record]
	member atomic.Uint64 // the last name of an attempt in a log
}

// newCore makes a core whose table has the given bounds and number of shards.
// seed begins the names of attempts in logs: two pods must not share one.
func newCore(bounds table.Bounds, shards int, seed uint64) (*core, error) {
	records, err := table.New(bounds, shards, func(_ limit.Subject, r *record) {
		clear(r.states)
		r.states = r.states[:0]
	})
	if err != nil {
		return nil, err
	}
	c := &core{table: records}
	c.member.Store(seed)
	return c, nil
}

// call is one request on its way. It is reused; the zero call is ready.
type call struct {
	request  *limit.Request
	decision *limit.Decision
	groups   []group
	asking   int // the group that ask is for
	now      time.Duration

	ask     store.Ask    // to be carried to the store while the step is stepAsk
	result  store.Result // its reply
	charged []int        // for each entry of ask: its charge, an index of the group's

	// What is left to do when the request is decided, for whoever has time.
	// They are made anew: nothing of the call is reused in them.
	later []errand
}

// group is the charges of one subject.
type group struct {
	first, end int // in the request's charges
	asks       bool
	shard      *table.Shard[record]
	entry      *table.Entry[record]
	at         time.Duration // the store's time of its grant; 0: none
	member     uint64        // the name of its attempt in logs; 0: it needs none
}

// errand is an ask whose reply no request waits for: a hand-back, or the
// charges of shadow rules.
type errand struct {
	ask     *store.Ask
	charges []limit.Charge // parallel to the ask's entries
	sent    time.Duration
}

// step is what is to be done next.
type step uint8

const (
	stepDone step = iota + 1 // the decision is made
	stepAsk                  // carry call.ask to the store, then apply
)

// decide looks at every subject in the process. It charges nothing: if it
// returns stepAsk, the first subject's ask is ready.
func (c *core) decide(now time.Duration, request *limit.Request, decision *limit.Decision, call *call) step {
	call.begin(now, request, decision)
	refused := false
	for first := 0; first < len(request.Charges) && !refused; {
		g := group{first: first, end: first + 1}
		for g.end < len(request.Charges) && request.Charges[g.end].Subject == request.Charges[first].Subject {
			g.end++
		}
		refused = c.look(now, call, &g)
		call.groups = append(call.groups, g)
		first = g.end
	}
	if refused {
		return call.refuse()
	}
	return c.next(call, 0)
}

// look takes a group down the stages in the process and reports whether one refused.
func (c *core) look(now time.Duration, call *call, g *group) (refused bool) {
	subject := call.request.Charges[g.first].Subject
	g.shard = c.table.Shard(subject)
	g.shard.Lock()
	g.entry = g.shard.Get(subject)
	for i := g.first; i < g.end; i++ {
		ch := &call.request.Charges[i]
		call.decision.Outcomes = append(call.decision.Outcomes, limit.Outcome{Rule: ch.Rule, Limit: ch.Limit, Cost: ch.Cost, Banned: ch.Banned})
		o := &call.decision.Outcomes[i]
		if ch.Rule.Mode == limit.Shadow {
			continue
		}
		g.entry.Record.state(now, ch).look(now, ch, o)
		refused = refused || o.Short
		g.asks = g.asks || asks(ch)
	}
	g.shard.Unlock()
	return refused
}

// asks reports whether a charge needs the store: a shadow rule goes along, but
// makes no request wait.
func asks(c *limit.Charge) bool { return c.Cost > 0 && c.Rule.Mode != limit.Shadow }

// next prepares the ask of the first group from i on that has one.
func (c *core) next(call *call, i int) step {
	for ; i < len(call.groups); i++ {
		if call.groups[i].asks {
			call.asking = i
			c.prepare(call, &call.groups[i])
			return stepAsk
		}
	}
	return c.admit(call)
}

func (c *core) prepare(call *call, g *group) {
	charges := call.request.Charges[g.first:g.end]
	call.ask.Subject = charges[0].Subject
	call.ask.Entries, call.charged = call.ask.Entries[:0], call.charged[:0]
	for i := range charges {
		ch := &charges[i]
		if ch.Cost == 0 {
			continue
		}
		e := store.Entry{Rule: ch.Rule, Limit: ch.Limit, Need: ch.Cost, Want: ch.Cost}
		if ch.Rule.Algorithm == limit.SlidingLog {
			if g.member == 0 {
				g.member = c.member.Add(1)
			}
			e.Member = g.member
		}
		call.ask.Entries = append(call.ask.Entries, e)
		call.charged = append(call.charged, g.first+i)
	}
}

// apply takes the store's reply to call.ask: a result, or an error if it gave none.
func (c *core) apply(call *call, err error) step {
	g := &call.groups[call.asking]
	d := call.decision
	if err != nil {
		if d.Cause == nil {
			d.Cause = err
		}
		if !fail(call.request.Charges[g.first:g.end], d.Outcomes[g.first:g.end]) {
			return call.refuse()
		}
		return c.next(call, call.asking+1)
	}
	c.learn(call, g)
	if !call.result.Allowed {
		return call.refuse()
	}
	g.at = call.result.At
	return c.next(call, call.asking+1)
}

// learn takes a group's result into its record and outcomes.
func (c *core) learn(call *call, g *group) {
	g.shard.Lock()
	g.entry = g.shard.Again(g.entry, call.ask.Subject)
	for i, j := range call.charged {
		ch := &call.request.Charges[j]
		g.entry.Record.state(call.now, ch).learn(call.now, call.result.At, ch, &call.result.Outcomes[i], &call.decision.Outcomes[j])
	}
	g.shard.Unlock()
}

// admit ends a call that nobody refused. What the shadow rules of subjects that
// were not asked would have said is left for later.
func (c *core) admit(call *call) step {
	d := call.decision
	d.Verdict, d.DecidedBy = limit.Allowed, limit.ByNoRule
	for i := range call.groups {
		g := &call.groups[i]
		switch {
		case g.at > 0:
			d.DecidedBy = max(d.DecidedBy, limit.ByStore)
		case g.asks:
			d.DecidedBy = max(d.DecidedBy, limit.ByFallback)
		default:
			c.shadow(call, g)
		}
	}
	return stepDone
}

// shadow leaves the ask of a group of nothing but shadow rules for later.
func (c *core) shadow(call *call, g *group) {
	c.prepare(call, g)
	if len(call.charged) == 0 {
		return
	}
	e := errand{ask: &store.Ask{Subject: call.ask.Subject.Clone(), Entries: append([]store.Entry(nil), call.ask.Entries...)}, sent: call.now}
	for _, j := range call.charged {
		e.charges = append(e.charges, call.request.Charges[j])
	}
	call.later = append(call.later, e)
}

// settle takes the reply to an errand.
func (c *core) settle(e *errand, result *store.Result) {
	shard := c.table.Shard(e.ask.Subject)
	shard.Lock()
	r := &shard.Get(e.ask.Subject).Record
	for i := range e.charges {
		var ignored limit.Outcome
		s := r.state(e.sent, &e.charges[i])
		s.refund(e.sent, &e.charges[i], e.ask.Entries[i].Give)
		s.learn(e.sent, result.At, &e.charges[i], &result.Outcomes[i], &ignored)
	}
	shard.Unlock()
}

func (call *call) begin(now time.Duration, request *limit.Request, decision *limit.Decision) {
	call.request, call.decision, call.now = request, decision, now
	call.groups, call.later = call.groups[:0], call.later[:0]
	*decision = limit.Decision{Outcomes: decision.Outcomes[:0], Refused: -1}
}

// refuse ends a call: the first enforced rule that is short, or closed without
// an answer, refused it. What was granted before is to be handed back.
func (call *call) refuse() step {
	d := call.decision
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		if o.Rule.Mode == limit.Shadow {
			continue
		}
		if o.Short {
			d.Verdict, d.DecidedBy, d.Refused, d.Cause = limit.Denied, o.DecidedBy, i, nil
			break
		}
		if o.DecidedBy == limit.ByFailClosed {
			d.Verdict, d.DecidedBy, d.Refused = limit.Unavailable, o.DecidedBy, i
			break
		}
	}
	for i := range call.groups {
		if g := &call.groups[i]; g.at > 0 {
			call.handBack(g)
		}
	}
	return stepDone
}

// handBack leaves the return of what a group was granted for later.
func (call *call) handBack(g *group) {
	e := errand{ask: &store.Ask{}, sent: call.now}
	for i := g.first; i < g.end; i++ {
		ch := &call.request.Charges[i]
		if ch.Cost == 0 || call.decision.Outcomes[i].Short {
			continue // a shadow rule that was short was charged nothing
		}
		e.ask.Subject = ch.Subject.Clone()
		e.charges = append(e.charges, *ch)
		e.ask.Entries = append(e.ask.Entries, store.Entry{Rule: ch.Rule, Limit: ch.Limit, Give: ch.Cost, GivenFrom: g.at, Member: g.member})
	}
	if len(e.charges) > 0 {
		call.later = append(call.later, e)
	}
}
