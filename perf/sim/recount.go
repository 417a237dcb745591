package sim

import (
	"errors"
	"fmt"
)

// recount compares what the pods themselves have counted, which is what operators
// see, with what was measured: of each rule that requests wait for, what was spent
// of the tokens that the store granted. A crash takes with it what it held.
func (w *World) recount() error {
	crashed := false
	spent, held := map[string]int64{}, map[string]int64{}
	for _, p := range w.pods {
		crashed = crashed || p.down == "crashed"
		for _, r := range p.core.Stats().Rules {
			spent[r.ID] += r.Leased - r.Returned - r.Lost - r.Held
			held[r.ID] += r.Held
		}
	}
	admitted := map[string]int64{}
	for _, k := range w.keys {
		if k.Rule.Waits() {
			admitted[k.Rule.ID] += k.whole.admitted
		}
	}
	var errs []error
	for rule, want := range admitted {
		if spent[rule] < want || spent[rule] > want && !crashed {
			errs = append(errs, fmt.Errorf("rule %s: the pods count %d tokens as spent, %d were admitted", rule, spent[rule], want))
		}
		if held[rule] != 0 {
			errs = append(errs, fmt.Errorf("rule %s: the pods count %d tokens as held when all have been handed back", rule, held[rule]))
		}
	}
	return errors.Join(errs...)
}
