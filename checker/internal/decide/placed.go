package decide

import (
	"fmt"
	"slices"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// placed is charges in the limiter's order, and whose they are.
type placed struct {
	request limit.Request
	items   []item // of each charge
}

// item is whose charge one is.
type item struct {
	entry int
	shown bool // else it is what the entry's rule is compared with, in shadow
}

func (p *placed) reset() {
	p.request.Reset()
	p.items = p.items[:0]
}

// add puts a charge behind the others of its subject, or behind those of the
// kinds that are asked before.
func (p *placed) add(of item, c *limit.Charge) error {
	at, same := 0, 0
	for i := range p.request.Charges {
		o := &p.request.Charges[i]
		switch {
		case o.Subject == c.Subject && o.Rule == c.Rule:
			return &FieldError{fmt.Sprintf("entries[%d]", of.entry), "", fmt.Sprintf("has the rule and key of entries[%d]: want each once", p.items[i].entry)}
		case o.Subject == c.Subject:
			same, at = same+1, i+1
		case same == 0 && o.Subject.Kind() <= c.Subject.Kind():
			at = i + 1
		}
	}
	if same == store.EntriesMax {
		return &FieldError{"entries", "", fmt.Sprintf("has more than %d of one key", store.EntriesMax)}
	}
	p.request.Charges = slices.Insert(p.request.Charges, at, *c)
	p.items = slices.Insert(p.items, at, of)
	return nil
}

// begin makes room for the outcomes of so many entries.
func (a *Answer) begin(entries int) {
	a.at = slices.Grow(a.at[:0], entries)[:entries]
	a.asked.reset()
	a.peeked.reset()
}

// index finds the outcome of each entry: those of what was asked come first, those
// of peeks behind them.
func (a *Answer) index() {
	a.items = append(a.asked.items[:len(a.Decision.Outcomes)-len(a.peeked.items)], a.peeked.items...)
	for i := range a.at {
		a.at[i] = -1
	}
	for at, item := range a.items {
		if item.shown {
			a.at[item.entry] = at
		}
	}
}
