package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// answer is what a group's stages in the process come to.
type answer uint8

const (
	paid    answer = iota + 1 // the lease can pay every charge, or there is none to pay
	lacking                   // the store must be asked
	refused
)

// look takes a group's charges down the stages and says what they come to. It
// spends nothing.
func (c *Core) look(now time.Duration, r *record, charges []limit.Charge, outcomes []limit.Outcome) answer {
	result := paid
	for i := range charges {
		ch, o := &charges[i], &outcomes[i]
		if *o = ch.Undecided(); ch.Rule.Mode == limit.Shadow {
			continue
		}
		if ch.Rule.Check == limit.CheckAfter {
			if s := r.state(now, ch, &c.out); ch.Banned || s.mitigated > now {
				s.mitigate(now, ch, o)
				result = refused
			}
			continue
		}
		r.state(now, ch, &c.out).look(now, ch, o)
		switch {
		case o.Short:
			result = refused
		case o.DecidedBy == limit.ByStore:
			result = max(result, lacking)
		}
	}
	if result == refused {
		c.unspent(now, r, charges, outcomes)
	}
	return result
}

// unspent says of the rules that could have paid a refused request what they
// still hold.
func (c *Core) unspent(now time.Duration, r *record, charges []limit.Charge, outcomes []limit.Outcome) {
	for i := range charges {
		if o := &outcomes[i]; o.DecidedBy == limit.ByLease {
			s := r.state(now, &charges[i], &c.out)
			s.describe(now, o, s.known.bound(now, s.limit), 0)
			o.DecidedBy = 0
		}
	}
}

// demanded counts a group's charges as demand.
func (c *Core) demanded(now time.Duration, r *record, charges []limit.Charge) {
	for i := range charges {
		if ch := &charges[i]; enforced(ch) {
			r.state(now, ch, &c.out).demand.add(now, ch.Cost)
		}
	}
}

// blame counts a refused request as demand of the rule that stopped it, and of
// no other: a flooded route leases no tokens of its account.
func (c *Core) blame(now time.Duration, r *record, charges []limit.Charge, outcomes []limit.Outcome) {
	for i := range charges {
		if ch := &charges[i]; outcomes[i].Short && enforced(ch) {
			if ch.Banned {
				s := r.state(now, ch, &c.out)
				c.out.giveBack(ch.Subject, s, s.lease.release(now, 0))
			} else {
				r.state(now, ch, &c.out).demand.add(now, min(ch.Cost, ch.Limit.Size()))
			}
			return
		}
	}
}

// build makes the ask for the record's queue: what its head lacks, all or
// nothing; what the others lack; what rules run low on for the demand to come;
// what no demand supports any more goes back with it; and charges that no
// request waits for.
func (c *Core) build(now time.Duration, r *record, head *Call) {
	f := &head.flight
	charges := head.charges(&head.groups[head.at])
	f.begin(now, charges[0].Subject, false)
	for i := range charges {
		if ch := &charges[i]; enforced(ch) {
			s := r.state(now, ch, &c.out)
			if need := max(0, ch.Cost-s.lease.held); need > 0 {
				s.known.asked(now)
				f.add(s, store.Entry{Need: need, Want: max(need, s.target(now, c.pods())-s.lease.held)}, tally{})
			}
		}
	}
	for i := range r.states {
		if len(f.ask.Entries) == store.EntriesMax {
			break
		}
		// A state that the asking request's ruleset has not reached may have a limit
		// that is no more: an ask by it would refill the counter at the old rate.
		if s := &r.states[i]; !f.has(s) && s.revision >= charges[0].Revision {
			c.rideAlong(now, s, f)
		}
	}
}

// rideAlong adds what else a rule of the subject has for the store.
func (c *Core) rideAlong(now time.Duration, s *state, f *flight) {
	if !s.rule.Waits() {
		if s.uncounted.tokens > 0 && !s.counting {
			entry, sum := s.tell(c.next())
			f.add(s, entry, sum)
		}
		return
	}
	s.void(now)
	target := s.target(now, c.pods())
	ahead := target - s.waiting
	low := ahead > 0 && 2*s.lease.held < ahead && now >= s.hold.until
	switch {
	case s.waiting > s.lease.held || low:
		f.add(s, store.Entry{Want: target - s.lease.held}, tally{})
	case s.lease.surplus(now, target, 0):
		f.add(s, store.Entry{Give: s.lease.release(now, target), GivenFrom: s.lease.from}, tally{})
	}
}

func (f *flight) add(s *state, e store.Entry, t tally) {
	e.Rule, e.Limit = s.rule, s.limit
	f.ask.Entries = append(f.ask.Entries, e)
	f.tallies = append(f.tallies, t)
}

func (f *flight) has(s *state) bool {
	for i := range f.ask.Entries {
		if f.ask.Entries[i].Rule.Tag == s.rule.Tag {
			return true
		}
	}
	return false
}

// learn takes a reply to an ask for the queue, or to an errand, into the record.
func (c *Core) learn(now, sent time.Duration, r *record, ask *store.Ask, tallies []tally, result *store.Result) {
	for i := range ask.Entries {
		e, o := &ask.Entries[i], &result.Outcomes[i]
		s := r.find(e.Rule.Tag)
		if !e.Rule.Waits() {
			c.told(now, s, e, o, tallies[i], result.Allowed)
			continue
		}
		c.book.settled(e, o)
		if s == nil || s.limit != e.Limit { // edited meanwhile
			c.out.giveBack(ask.Subject, &state{rule: e.Rule, limit: e.Limit, lease: lease{from: result.At}}, o.Granted)
			continue
		}
		s.known.learn(sent, result.At, e.Rule, e.Limit, e.Need, o)
		s.recovered(now)
		switch {
		case e.Want == 0:
		case !result.Allowed:
			if o.Short {
				c.pause(now, s, e.Need)
			}
		default:
			s.hold = hold{}
			s.granted(now, sent, result.At, o)
			if o.Granted < e.Want && o.Remaining == 0 {
				c.pause(now, s, 1)
			}
		}
	}
}

// told takes the reply to charges that no request waited for. Those of an ask
// that was refused are kept for the next: they were not counted.
func (c *Core) told(now time.Duration, s *state, e *store.Entry, o *store.Outcome, t tally, allowed bool) {
	switch {
	case !allowed:
		c.retell(s, t)
		return
	case e.Rule.Mode == limit.Shadow:
		c.cfg.Tell(e.Rule, t.requests, t.short(o.Granted))
	case s != nil && s.limit == e.Limit:
		s.counted(now, e, o, c.pods())
	}
	if s != nil {
		s.counting = false
	}
}

// untold puts the charges of an ask back that was not answered; what it brought
// back is lost.
func (c *Core) untold(r *record, ask *store.Ask, tallies []tally) {
	c.book.lose(ask)
	for i := range ask.Entries {
		if e := &ask.Entries[i]; !e.Rule.Waits() && e.Want > 0 {
			c.retell(r.find(e.Rule.Tag), tallies[i])
		}
	}
}

// retell keeps charges for the next ask; those of a rule that is gone, or that
// requests wait for by now, are dropped.
func (c *Core) retell(s *state, t tally) {
	if s == nil || s.rule.Waits() {
		c.out.dropped.Add(1)
		return
	}
	s.counting, s.unheard = false, true
	s.uncounted.add(t)
}

// granted takes a grant into the lease.
func (s *state) granted(now, sent, at time.Duration, o *store.Outcome) {
	if s.limit.Window == 0 {
		s.grant(now, at, o.Granted, 0, 0)
		return
	}
	s.grant(now, at, o.Granted, bucket.WindowStart(at, s.limit.Window), sent+o.Reset)
}

// pause holds a rule that the store found short, if others compete for it.
func (c *Core) pause(now time.Duration, s *state, need int64) {
	if c.cfg.Paced {
		s.counts.holds.Add(1)
		random := float64(c.next()>>11) / (1 << 53)
		s.hold = hold{until: now + pause(s.limit, c.pods(), random), need: need}
	}
}
