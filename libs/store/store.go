// Package store is the contract between the data path and whatever holds the
// counters: the seam that a Redis Cluster, the process's own memory and the
// checker service stand behind. libs/store/storetest says it as tests.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// Store holds counters.
type Store interface {
	// Take settles the counters of ONE subject: first what is handed back,
	// then the charge, all or nothing.
	//
	// A refusal is a Result, not an error. An error means that nothing is known
	// about the charge: it may have been made, so Take is never retried. The
	// error wraps ErrTimeout, ErrUnavailable or ErrInvalid.
	//
	// result is overwritten; its memory is reused. ask is only read. Safe for
	// concurrent use.
	Take(ctx context.Context, ask *Ask, result *Result) error
}

// The classes of failure.
var (
	// ErrTimeout: the store was asked and did not answer in time.
	ErrTimeout = errors.New("store timeout")
	// ErrUnavailable: the store could not be asked.
	ErrUnavailable = errors.New("store unavailable")
	// ErrInvalid: the ask is malformed, which is a bug of the caller; nothing was charged.
	ErrInvalid = errors.New("invalid ask")
)

// EntriesMax bounds the entries of one ask, and so the rules that a request can
// meet for one subject: a record stays small, and the script for it within
// Lua's 200 local variables.
const EntriesMax = 12

// Ask is one call to a store.
type Ask struct {
	Subject limit.Subject
	Entries []Entry
}

// Entry is one rule of an ask. Tokens stand for counts where the rule is a
// window or a log.
type Entry struct {
	Rule  *limit.Rule
	Limit limit.Limit // effective: override and share applied

	// Give tokens are handed back before anything is taken, never above full.
	// They were granted at GivenFrom on the store's clock (Result.At). They are
	// ignored where the counter is gone, was last written before GivenFrom (a
	// failover lost the grant), or is another window's by now. An ask of gives
	// alone always succeeds.
	Give      int64
	GivenFrom time.Duration

	// Need tokens must be there in every enforced entry, or nothing is taken
	// from any (gives still count). Then min(Want, whole tokens there) are
	// granted; a log grants its Need only. 0 <= Need <= Want. How much is worth
	// lending is the pod's business: it knows its demand.
	//
	// A shadow entry refuses nothing. If the request passes and its Need is
	// there it is granted min(Want, whole tokens there), whatever its
	// algorithm: charges that no request waited for come in sums.
	Need, Want int64

	// Member names the attempt in a log: a charge adds it, a Give of any number
	// removes it. One entry does not do both.
	Member uint64
}

// Result is a store's reply. Outcomes are in the order of the entries.
type Result struct {
	At       time.Duration // the store's clock, since Epoch, in whole microseconds
	Allowed  bool          // every enforced entry had its Need
	Outcomes []Outcome
}

// Outcome is what became of an entry.
type Outcome struct {
	Granted   int64         // tokens taken; 0 if refused
	Remaining int64         // whole tokens left
	Retry     time.Duration // until Need will be there if nobody else takes it, rounded up to 1 µs; 0 if it was, or Never
	Reset     time.Duration // until the bucket is full, the window ends or the log is empty, rounded up to 1 µs
	Never     bool          // Need is above the limit's size
	Short     bool          // Need was not there: this entry refuses (or, in shadow, would)
}

// Epoch is the zero of a store's clock: microseconds since it fit a float64 and
// a packed record exactly, for 285 years.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Validate reports a malformed ask as an error that wraps ErrInvalid and names
// the rule, the field and its value. A store checks before it writes anything.
func (a *Ask) Validate() error {
	if a.Subject == (limit.Subject{}) {
		return fmt.Errorf("%w: no subject", ErrInvalid)
	}
	if len(a.Entries) == 0 || len(a.Entries) > EntriesMax {
		return fmt.Errorf("%w: %d entries, want 1 to %d", ErrInvalid, len(a.Entries), EntriesMax)
	}
	for i := range a.Entries {
		e := &a.Entries[i]
		switch {
		case e.Rule == nil:
			return fmt.Errorf("%w: entry %d has no rule", ErrInvalid, i)
		case e.Give < 0 || e.Give > limit.CountMax:
			return fmt.Errorf("%w: rule %s: give is %d, want 0 to %d", ErrInvalid, e.Rule.ID, e.Give, limit.CountMax)
		case e.Need < 0 || e.Need > limit.CountMax:
			return fmt.Errorf("%w: rule %s: need is %d, want 0 to %d", ErrInvalid, e.Rule.ID, e.Need, limit.CountMax)
		case e.Want < e.Need || e.Want > limit.CountMax:
			return fmt.Errorf("%w: rule %s: want is %d, want need (%d) to %d", ErrInvalid, e.Rule.ID, e.Want, e.Need, limit.CountMax)
		case e.Give > 0 && e.Want > 0 && e.Rule.Algorithm == limit.SlidingLog:
			return fmt.Errorf("%w: rule %s: a log's entry gives %d and wants %d, want one of them", ErrInvalid, e.Rule.ID, e.Give, e.Want)
		case e.Limit.Size() < 1:
			return fmt.Errorf("%w: rule %s: limit %v allows nothing", ErrInvalid, e.Rule.ID, e.Limit)
		}
		for j := range i {
			if a.Entries[j].Rule.Tag == e.Rule.Tag {
				return fmt.Errorf("%w: rules %s and %s share tag %#x", ErrInvalid, a.Entries[j].Rule.ID, e.Rule.ID, e.Rule.Tag)
			}
		}
	}
	return nil
}
