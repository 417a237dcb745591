package envoy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
)

// chargesMax bounds the counters of a request: descriptorsMax descriptors that
// name a rule or two each, or fewer that meet many.
const chargesMax = 64

// ask is a call on its way to the engine. Its memory is used again.
type ask struct {
	set *ruleset.Ruleset
	now time.Time

	charges []decide.Charge // each counter once
	of      [][]int         // of each descriptor, its charges
	words   words           // of one descriptor
	matched limit.Request   // by the rules, of one descriptor

	unreadable error // a value that nobody can be, nil for none
	refused    int   // the descriptor that has it
}

// reset forgets what was asked, and makes room for so many descriptors.
func (a *ask) reset(descriptors int) {
	*a = ask{charges: a.charges[:0], of: slices.Grow(a.of[:0], descriptors)[:descriptors], words: a.words, matched: a.matched}
	for i := range a.of {
		a.of[i] = a.of[i][:0]
	}
}

// read finds the charges of all descriptors. The error wraps a *fault or
// decide.ErrNoRules.
func (s *Service) read(q *pb.RateLimitRequest, a *ask) (err error) {
	if q.GetDomain() == "" {
		return &fault{"domain", "is missing"}
	}
	n := len(q.GetDescriptors())
	if n < 1 || n > descriptorsMax {
		return &fault{"descriptors", fmt.Sprintf("are %d: want 1 to %d", n, descriptorsMax)}
	}
	a.reset(n)
	a.set, a.now, err = s.engine.Rules(q.GetDomain())
	if errors.Is(err, decide.ErrNotFound) {
		s.notes.count(unknownDomain)
		s.notes.once(unknownDomain, q.GetDomain())
		return nil
	}
	for i := 0; err == nil && i < n; i++ {
		why, bad := s.descriptor(q, i, a)
		if bad == nil {
			s.notes.count(why)
		} else if value, ok := errors.AsType[*unreadable](bad); ok {
			s.notes.once(unreadableValue, value.Error())
			s.notes.count(unreadableValue)
			if a.unreadable == nil {
				a.unreadable, a.refused = value, i
			}
		} else {
			err = fmt.Errorf("descriptors[%d].%w", i, bad)
		}
	}
	return err
}

// descriptor finds the charges of the i-th descriptor, and says what became of it.
// The error is a *fault or an *unreadable.
func (s *Service) descriptor(q *pb.RateLimitRequest, i int, a *ask) (outcome, error) {
	d := q.GetDescriptors()[i]
	hits, peek, err := hitsOf(q, d)
	if err != nil {
		return 0, err
	}
	if err := a.words.read(d); err != nil {
		return 0, err
	}
	why, err := s.match(a, &a.words)
	if err != nil {
		return 0, err
	}
	return why, a.add(i, d.GetLimit(), hits, peek)
}

// hitsOf returns how many hits a descriptor adds; peek says that it adds none and
// asks about one.
func hitsOf(q *pb.RateLimitRequest, d *ratelimitv3.RateLimitDescriptor) (hits int64, peek bool, err error) {
	if d.GetIsNegativeHits() {
		return 0, false, &fault{"is_negative_hits", "hits are not handed back"}
	}
	hits = max(1, int64(q.GetHitsAddend()))
	if own := d.GetHitsAddend(); own != nil {
		hits = int64(min(own.GetValue(), uint64(limit.CostMax)+1)) //nolint:gosec // small
	}
	return max(1, hits), hits == 0, nil
}

// match puts what one hit of a descriptor charges into a.matched. The error is an
// *unreadable; why says what else keeps it from meeting a rule.
func (s *Service) match(a *ask, w *words) (why outcome, err error) {
	a.matched.Reset()
	if w.unknown != "" {
		s.notes.once(unknownKey, w.unknown)
		return unknownKey, nil
	}
	who, err := w.identities(a.set.Naming())
	switch {
	case errors.Is(err, errNetwork):
		s.notes.once(wideNetwork, err.Error())
		return wideNetwork, nil
	case err != nil:
		return 0, err
	case who == identities{}:
		return noIdentity, nil
	case len(w.rules) > 0:
		return s.byName(a, w, &who), nil
	}
	return s.bySelectors(a, w, &who)
}

// byName charges the rules that a descriptor names.
func (s *Service) byName(a *ask, w *words, who *identities) outcome {
	why := matched
	for _, rule := range w.rules {
		found, known := a.charge(rule, who)
		switch {
		case !known:
			s.notes.once(unknownRule, rule)
			why = unknownRule
		case !found && why == matched:
			why = noIdentity
		}
	}
	return why
}

// charge appends what a rule charges the identity that it counts by; found is
// false where nobody has one, known where there is no such rule.
func (a *ask) charge(rule string, who *identities) (found, known bool) {
	for kind := limit.IP; kind <= limit.Account; kind++ {
		if who[kind] == "" {
			continue
		}
		n := len(a.matched.Charges)
		charges, ok, err := a.set.AppendCharges(a.matched.Charges, a.now, rule, who[kind], 1)
		switch {
		case !ok:
			return false, false
		case err != nil: // no key of the kind that the rule counts by
		case charges[n].Subject.Kind() == kind:
			a.matched.Charges = charges
			return true, true
		default:
			a.matched.Charges = charges[:n]
		}
	}
	return false, true
}

// bySelectors charges every rule that a request of this plan and class meets.
func (s *Service) bySelectors(a *ask, w *words, who *identities) (outcome, error) {
	route, ok, err := w.class(a.set)
	if err != nil {
		return 0, err
	}
	if !ok {
		s.notes.once(unknownRoute, w.route)
		return unknownRoute, nil
	}
	caller := ruleset.Caller{Plan: w.plan}
	if who[limit.Account] == "" && w.plan == "" {
		caller.Plan = ruleset.PlanAnonymous
	}
	subjects := [...]*limit.Subject{limit.IP: &caller.IP, limit.User: &caller.User, limit.Account: &caller.Account}
	for kind := limit.IP; kind <= limit.Account; kind++ {
		if who[kind] == "" {
			continue
		}
		if *subjects[kind], err = limit.NewSubject(a.set.Domain(), kind, who[kind]); err != nil {
			return 0, &unreadable{kind.String(), err.Error()}
		}
	}
	a.set.Match(a.now, route, &caller, &a.matched)
	if len(a.matched.Charges) == 0 {
		return noRule, nil
	}
	return matched, nil
}

// add takes the charges that a descriptor has matched into the request, as often
// as it hits. A counter that another descriptor charges too is charged once, the
// larger of both: they speak of the same request.
func (a *ask) add(descriptor int, override *ratelimitv3.RateLimitDescriptor_RateLimitOverride, hits int64, peek bool) error {
	for i := range a.matched.Charges {
		c := decide.Charge{Charge: a.matched.Charges[i], Peek: peek}
		if c.Cost *= hits; c.Cost > limit.CostMax {
			return &unreadable{"hits_addend", "times the cost of the route is more than a request can cost"}
		}
		if override != nil {
			if err := overrule(&c.Charge, override); err != nil {
				return &fault{"limit", err.Error()}
			}
		}
		place, err := a.merge(&c)
		if err != nil {
			return err
		}
		a.of[descriptor] = append(a.of[descriptor], place)
	}
	return nil
}

// merge returns the place of a charge.
func (a *ask) merge(c *decide.Charge) (int, error) {
	for i := range a.charges {
		o := &a.charges[i]
		switch {
		case o.Rule != c.Rule || o.Subject != c.Subject:
			continue
		case o.Limit != c.Limit || o.Banned != c.Banned:
			return 0, &fault{"limit", fmt.Sprintf("is not that of another descriptor that meets rule %s too", c.Rule.Name())}
		case o.Peek && !c.Peek:
			*o = *c
		case o.Peek == c.Peek:
			o.Cost = max(o.Cost, c.Cost)
		}
		return i, nil
	}
	if len(a.charges) == chargesMax {
		return 0, &fault{"entries", fmt.Sprintf("meet, with those of the descriptors before, more than %d rules", chargesMax)}
	}
	a.charges = append(a.charges, *c)
	return len(a.charges) - 1, nil
}
