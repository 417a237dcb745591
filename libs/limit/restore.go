package limit

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"time"
)

// RestoreSubject makes the subject whose Domain, Kind, ID and Hashed these are,
// as another process has sent them. An error names what no subject has.
func RestoreSubject(domain string, kind Kind, id string, hashed bool) (Subject, error) {
	if len(id) > idMax || hashed && len(id) != sha256.Size {
		return Subject{}, fmt.Errorf("subject id has %d bytes: want at most %d, or the %d of a hash", len(id), idMax, sha256.Size)
	}
	s, err := NewSubject(domain, kind, id)
	if err != nil || !hashed {
		return s, err
	}
	s.hashed = true
	s.hash = maphash.Comparable(seed, Subject{domain: domain, id: id, kind: kind, hashed: true})
	return s, nil
}

// Validate reports a limit that no rule of this algorithm can have: the error
// names the field, its value and what is allowed.
func (l Limit) Validate(a Algorithm) error {
	within := func(field string, n, most int64) error {
		if n < 1 || n > most {
			return fmt.Errorf("%s is %d: want 1 to %d", field, n, most)
		}
		return nil
	}
	switch {
	case a == TokenBucket && (l.Count != 0 || l.Window != 0):
		return fmt.Errorf("a %s has rate and burst, no count or window", a)
	case a == TokenBucket:
		if err := l.Rate.Validate(); err != nil {
			return err
		}
		return within("burst", l.Burst, BurstMax)
	case l.Rate != 0 || l.Burst != 0:
		return fmt.Errorf("a %s has count and window, no rate or burst", a)
	case l.Window < WindowMin || l.Window > WindowMax || l.Window%time.Microsecond != 0:
		return fmt.Errorf("window is %v: want %v to %v in whole microseconds", l.Window, WindowMin, WindowMax)
	case a == SlidingLog:
		return within("count", l.Count, LogCountMax)
	}
	return within("count", l.Count, CountMax)
}
