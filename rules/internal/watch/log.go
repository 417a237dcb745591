package watch

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Why a place in the log cannot be read on from.
var (
	errAnew   = errors.New("the whole is new")     // all watchers are sent the whole
	errBehind = errors.New("the log begins later") // this watcher was too slow
	errTooBig = errors.New("the change is too big to be one message")
)

// position is a place in the log of a domain: the number of the change that comes
// next.
type position int64

// anew is the place of a watcher that has to be sent the whole.
const anew position = -1

// record is one change of a domain in the log.
type record struct {
	from, to int64 // revisions
	event    event
	at       time.Time // when this instance learned of it
}

// bounds are those of a log.
type bounds struct{ changes, bytes int }

// domain is what there is to send of one domain. Safe for concurrent use.
type domain struct {
	name   string
	bounds bounds

	mu       sync.RWMutex
	rules    *ruleset.Ruleset // at the end of the log
	revision int64            // of rules
	records  []record         // of the positions from first on, each from the revision of the one before
	first    position
	start    position      // before it the whole is another one
	bytes    int           // of records
	wake     chan struct{} // closed with the next change
	whole    *whole        // the last that was encoded; nil for none

	encoding sync.Mutex // held while the whole is encoded
}

func newDomain(name string, b bounds, rules *ruleset.Ruleset) *domain {
	return &domain{name: name, bounds: b, rules: rules, revision: rules.Revision(), wake: make(chan struct{})}
}

// reset makes rules the whole, whatever was before.
func (d *domain) reset(rules *ruleset.Ruleset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rules, d.revision = rules, rules.Revision()
	d.start = d.end() + 1 // who was at the end is not any more
	d.first, d.records, d.bytes, d.whole = d.start, nil, 0, nil
	d.rouse()
}

// change appends what leads to rules. A change that does not follow on what is
// there, or that is no message of its own, makes rules the whole.
func (d *domain) change(from, to int64, changes []*rulesv1.Change, rules *ruleset.Ruleset, at time.Time) error {
	e, err := encodeChanges(from, to, changes)
	if err == nil && len(e) > changeBytesMax {
		err = errTooBig
	}
	d.mu.Lock()
	follows := d.revision == from && to > from
	if err != nil || !follows {
		d.mu.Unlock()
		d.reset(rules)
		return err
	}
	defer d.mu.Unlock()
	d.records = append(d.records, record{from: from, to: to, event: e, at: at})
	d.bytes += len(e)
	for len(d.records) > d.bounds.changes || d.bytes > d.bounds.bytes {
		d.bytes -= len(d.records[0].event)
		d.records[0] = record{} // the array lives on
		d.records = d.records[1:]
		d.first++
	}
	d.rules, d.revision = rules, to
	d.rouse()
	return nil
}

// rouse wakes all who wait. mu is held.
func (d *domain) rouse() {
	close(d.wake)
	d.wake = make(chan struct{})
}

// end is the position of the next change. mu is held.
func (d *domain) end() position { return d.first + position(len(d.records)) }

// next returns the record at a position. If there is none yet wake is not nil, and
// is closed when there may be one. The error is errAnew or errBehind.
func (d *domain) next(at position) (r record, wake <-chan struct{}, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	switch {
	case at < d.start:
		return record{}, nil, errAnew
	case at < d.first:
		return record{}, nil, errBehind
	case at == d.end():
		return record{}, d.wake, nil
	}
	return d.records[at-d.first], nil, nil
}

// locate returns the position after a revision, anew if that is none that the log
// knows. If it is ahead of the log wake is not nil, and closed with the next change.
func (d *domain) locate(revision int64) (at position, wake <-chan struct{}) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	switch {
	case revision <= 0:
		return anew, nil
	case revision == d.revision:
		return d.end(), nil
	case revision > d.revision:
		return anew, d.wake
	}
	i, found := slices.BinarySearchFunc(d.records, revision, func(r record, revision int64) int { return cmp.Compare(r.from, revision) })
	if !found {
		return anew, nil
	}
	return d.first + position(i), nil
}

// head returns the revision of the domain.
func (d *domain) head() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.revision
}
