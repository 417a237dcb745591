package ruleset

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Bounds of an override's texts, in bytes.
const (
	authorMax = 128
	reasonMax = 1024
)

// claim is an override's part of the time of a rule and subject, which no other
// may share: at any moment it must be clear which one applies.
type claim struct {
	path      string
	exception exception
}

// target is the counter that an override is about.
type target struct {
	rule    int
	subject limit.Subject
}

// addOverrides checks the overrides and makes them.
func (b *builder) addOverrides() {
	claims := map[target][]claim{}
	var order []target
	for i, o := range b.set.GetOverrides() {
		path := fmt.Sprintf("overrides[%d]", i)
		b.texts(path, o)
		from, to := b.times(path, o)
		at, ok := b.target(path, o)
		if !ok {
			continue
		}
		rule := b.rules[at.rule]
		e := exception{rule: rule, limit: rule.Limit, banned: o.GetDeny(), from: from, to: to}
		said := amounts{o.Rate, o.Burst, o.Limit, o.GetWindow()}
		switch {
		case e.banned && said != (amounts{}):
			b.fault(path+".deny", true, "refuses every request: no limit may stand beside it")
		case !e.banned && said == (amounts{}) && !b.misread(path, "deny", "rate", "burst", "limit", "window"):
			b.fault(path, nil, "changes nothing: want rate, burst, limit, window or deny")
		default:
			e.limit = b.amounts(path, rule, rule.Limit, said, false)
		}
		if claims[at] == nil {
			order = append(order, at)
		}
		claims[at] = append(claims[at], claim{path, e})
	}
	for _, at := range order {
		b.addExceptions(at.subject, claims[at])
	}
}

// misread reports whether one of the fields has a fault already.
func (b *builder) misread(path string, fields ...string) bool {
	return slices.ContainsFunc(fields, func(field string) bool { return b.faulted[path+"."+field] })
}

func (b *builder) texts(path string, o *rulesv1.Override) {
	if n := len(o.GetAuthor()); n > authorMax {
		b.fault(path+".author", o.GetAuthor(), "has %d bytes: at most %d are allowed", n, authorMax)
	}
	if n := len(o.GetReason()); n > reasonMax {
		b.fault(path+".reason", o.GetReason(), "has %d bytes: at most %d are allowed", n, reasonMax)
	}
}

// times returns when an override applies; the zero time is no bound.
func (b *builder) times(path string, o *rulesv1.Override) (from, to time.Time) {
	at := func(field string, stamp *timestamppb.Timestamp) time.Time {
		if stamp == nil {
			return time.Time{}
		}
		if !stamp.IsValid() {
			b.fault(path+field, nil, "is no time from year 1 to 9999")
		}
		return stamp.AsTime()
	}
	from, to = at(".starts_at", o.GetStartsAt()), at(".expires_at", o.GetExpiresAt())
	if o.GetExpiresAt() != nil && !to.After(from) {
		b.fault(path+".expires_at", to.Format(time.RFC3339), "want a time after starts_at")
	}
	return from, to
}

// target returns whose counter of which rule an override is about.
func (b *builder) target(path string, o *rulesv1.Override) (target, bool) {
	rule, ok := b.declared["rules/"+o.GetRule()]
	if !ok {
		b.fault(path+".rule", o.GetRule(), "want the id of one of the rules")
		return target{}, false
	}
	kind := b.rules[rule].Kind
	if kind == 0 {
		return target{}, false // the fault is in the rule
	}
	id, err := b.next.naming.identityID(kind, o.GetKey())
	if err != nil {
		b.fault(path+".key", o.GetKey(), "%v", err)
		return target{}, false
	}
	subject, err := limit.NewSubject(b.set.GetDomain(), kind, id)
	if err != nil {
		return target{}, false // the fault is in the domain
	}
	return target{rule, subject}, true
}

// addExceptions adds the overrides of one rule and subject, in the order of
// their times, and faults those that overlap.
func (b *builder) addExceptions(subject limit.Subject, claims []claim) {
	slices.SortStableFunc(claims, func(x, y claim) int { return x.exception.from.Compare(y.exception.from) })
	last := claims[0] // of those so far, the one that ends last
	for _, c := range claims {
		if end := last.exception.to; c.path != last.path && (end.IsZero() || end.After(c.exception.from)) {
			b.fault(c.path, nil, "overlaps in time with %s, which has the same rule and key", last.path)
		}
		if end := c.exception.to; end.IsZero() || !last.exception.to.IsZero() && end.After(last.exception.to) {
			last = c
		}
		b.next.exceptions[subject] = append(b.next.exceptions[subject], c.exception)
	}
}
