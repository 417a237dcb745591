package ruleset

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// AppendCharges appends what one rule, named by its id, charges a request of this
// cost by this key, with the override in force at now applied: the charge of the
// rule, and behind it, in shadow, that of what it is compared with while an edit of
// it is being rolled out. It is for callers that know which rules a request meets;
// plan and route class are theirs to check. ok is false where there is no such
// rule; the error says why the key cannot be one of it.
func (s *Ruleset) AppendCharges(to []limit.Charge, now time.Time, rule, key string, cost int64) (charges []limit.Charge, ok bool, err error) {
	shown, other := s.byID[rule].shown()
	if shown == nil {
		return to, false, nil
	}
	id, err := s.how.naming.identityID(shown.Kind, key)
	if err != nil {
		return to, true, err
	}
	subject, err := limit.NewSubject(s.Domain(), shown.Kind, id)
	if err != nil {
		return to, true, err
	}
	exceptions := s.exceptions.get(subject)
	to = append(to, s.charge(now, subject, exceptions, shown, cost))
	if other != nil && other.Kind == shown.Kind {
		to = append(to, s.charge(now, subject, exceptions, other, cost))
	}
	return to, true, nil
}
