package ruleset

import (
	"cmp"
	"fmt"
	"hash/fnv"
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

// override is an exception as it was written, and what it does.
type override struct {
	source  *rulesv1.Override // never modified
	order   int               // of its source's
	subject limit.Subject
	counted counted     // whose counters it is about
	does    []exception // of the rule, then of its candidate
}

// claim is an override's part of the time of a rule and subject, which no other
// may share: at any moment it must be clear which one applies.
type claim struct {
	path      string
	exception exception
}

// target is the counter that an override is about.
type target struct {
	rule    *limit.Rule
	subject limit.Subject
}

// addOverrides checks the overrides and makes them.
func (b *builder) addOverrides() {
	made := b.next.overrides.edit(hashText)
	effects := b.next.exceptions.edit(limit.Subject.Hash)
	claims := map[target][]claim{}
	var order []target
	for i, o := range b.set.GetOverrides() {
		path := fmt.Sprintf("overrides[%d]", i)
		key := cmp.Or(o.GetId(), fmt.Sprintf("#%d", i))
		if made.get(key) != nil {
			b.fault(path+".id", o.GetId(), "want an id that no other override has")
		}
		one := b.override(path, key, o)
		if one == nil {
			continue
		}
		one.order = i
		made.put(key, one)
		effects.put(one.subject, one.beside(effects.get(one.subject)))
		at := target{one.counted.rule, one.subject}
		if claims[at] == nil {
			order = append(order, at)
		}
		claims[at] = append(claims[at], claim{path, one.does[0]})
	}
	for _, at := range order {
		b.shareTime(claims[at])
	}
	b.next.overrides, b.next.exceptions = made.cow, effects.cow
}

// override checks an override and makes it; nil if it cannot be told what it is
// about. It is good only if no fault was found.
func (b *builder) override(path, key string, o *rulesv1.Override) *override {
	b.texts(path, o)
	from, to := b.times(path, o)
	subject, about, ok := b.target(path, o)
	if !ok {
		return nil
	}
	e := exception{override: key, rule: about.rule, limit: about.rule.Limit, banned: o.GetDeny(), from: from, to: to}
	said := amounts{o.Rate, o.Burst, o.Limit, o.GetWindow()}
	switch {
	case e.banned && said != (amounts{}):
		b.fault(path+".deny", true, "refuses every request: no limit may stand beside it")
	case !e.banned && said == (amounts{}) && !b.misread(path, "deny", "rate", "burst", "limit", "window"):
		b.fault(path, nil, "changes nothing: want rate, burst, limit, window or deny")
	default:
		e.limit = b.amounts(path, about.rule, about.rule.Limit, said, false)
	}
	made := &override{source: o, subject: subject, counted: about, does: []exception{e}}
	if about.candidate == nil {
		return made
	}
	// What does not fit the candidate leaves it its own limit: it is the
	// candidate that is looked at, and the override may yet be changed.
	quiet := &builder{set: b.set, next: b.next, faulted: map[string]bool{}}
	e.rule = about.candidate
	if e.limit = quiet.amounts(path, e.rule, e.rule.Limit, said, false); len(quiet.faults) == 0 {
		made.does = append(made.does, e)
	}
	return made
}

// hashText spreads the ids of overrides over the parts of a cow.
func hashText(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // a hash takes everything
	return h.Sum64()
}

// misread reports whether one of the fields has a fault already.
func (b *builder) misread(path string, fields ...string) bool {
	return slices.ContainsFunc(fields, func(field string) bool { return b.faulted[path+"."+field] })
}

// text faults what a file cannot hold, nor a database: control characters.
func (b *builder) text(path, text string) {
	if odd := notText([]byte(text)); odd != nil {
		b.fault(path, text, "has a %s: want text", odd.Value)
	}
}

func (b *builder) texts(path string, o *rulesv1.Override) {
	b.text(path+".key", o.GetKey())
	b.text(path+".author", o.GetAuthor())
	b.text(path+".reason", o.GetReason())
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

// target returns whose counters of which rule an override is about.
func (b *builder) target(path string, o *rulesv1.Override) (limit.Subject, counted, bool) {
	about := b.next.byID[o.GetRule()]
	if about.rule == nil {
		b.fault(path+".rule", o.GetRule(), "want the id of one of the rules")
		return limit.Subject{}, about, false
	}
	kind := about.rule.Kind
	if kind == 0 {
		return limit.Subject{}, about, false // the fault is in the rule
	}
	id, err := b.next.how.naming.identityID(kind, o.GetKey())
	if err != nil {
		b.fault(path+".key", o.GetKey(), "%v", err)
		return limit.Subject{}, about, false
	}
	subject, err := limit.NewSubject(b.set.GetDomain(), kind, id)
	return subject, about, err == nil // else the fault is in the domain
}

// shareTime faults overrides of one rule and subject that overlap.
func (b *builder) shareTime(claims []claim) {
	slices.SortStableFunc(claims, func(x, y claim) int { return x.exception.from.Compare(y.exception.from) })
	last := claims[0] // of those so far, the one that ends last
	for _, c := range claims {
		if end := last.exception.to; c.path != last.path && (end.IsZero() || end.After(c.exception.from)) {
			b.fault(c.path, nil, "overlaps in time with %s, which has the same rule and key", last.path)
		}
		if end := c.exception.to; end.IsZero() || !last.exception.to.IsZero() && end.After(last.exception.to) {
			last = c
		}
	}
}

// overlaps reports whether two exceptions of a rule claim the same time.
func (e *exception) overlaps(o *exception) bool {
	before := func(x, y *exception) bool { return !x.to.IsZero() && !x.to.After(y.from) }
	return e.rule == o.rule && !before(e, o) && !before(o, e)
}
