package convergence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

const (
	settleTimeout = time.Minute     // for the pods to have the last revision
	late          = 5 * time.Second // what no change may take
	listPage      = 1000
)

// Scenario is edits in a row, and what fails meanwhile.
type Scenario struct {
	Name  string
	Edits int
	Every time.Duration // from one edit to the next; 0: each when the one before is acknowledged
	fault func(ctx context.Context, f *Fleet) error
	mend  func(ctx context.Context, f *Fleet) error
}

// Fails reports whether something fails meanwhile.
func (s *Scenario) Fails() bool { return s.fault != nil }

// Scenarios returns all: edits is how many come in a row where nothing fails.
func Scenarios(edits int) []Scenario {
	const pace = 10 * time.Millisecond // so that an outage lasts for many edits
	return []Scenario{
		{Name: "all is well", Edits: edits},
		{Name: "all is well, 10 edits/s", Edits: max(edits/5, 1), Every: 100 * time.Millisecond}, // no edit waits for the one before
		{
			Name: "an instance is killed", Edits: edits, Every: pace,
			fault: func(_ context.Context, f *Fleet) error { f.instances[0].kill(); return nil },
			mend:  func(ctx context.Context, f *Fleet) error { return f.instances[0].start(ctx) },
		},
		{
			Name: "PostgreSQL is killed", Edits: edits, Every: pace,
			fault: func(_ context.Context, f *Fleet) error { f.postgres.Kill(); return nil },
			mend:  func(ctx context.Context, f *Fleet) error { return f.postgres.Restart(ctx) },
		},
	}
}

// outage is from a fault until it is mended.
const outage = time.Second

// Result is what became of a scenario.
type Result struct {
	Applied    []time.Duration // from asking until a pod goes by it, of each edit and pod; sorted
	Late       int             // of these, above 5 s
	Unanswered int             // edits that were made though their answer was lost: they have no time
	OutOfOrder int             // times that a pod went to a revision that is not after the one before
	Skipped    int             // revisions that a pod did not go by one by one: it was sent the whole instead
	Watches    int64           // that pods began anew
}

// Quantile returns what a share of the edits and pods took at most.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.Applied) == 0 {
		return 0
	}
	return r.Applied[min(int(q*float64(len(r.Applied))), len(r.Applied)-1)]
}

// Play plays a scenario. Its error says what was lost: a pod that does not have in
// the end what was acknowledged.
func (f *Fleet) Play(ctx context.Context, s Scenario) (*Result, error) {
	watches := f.watches()
	for _, p := range f.pods {
		p.diary.clear()
	}
	mended := make(chan error, 1)
	var edits []edit
	r := &Result{}
	tick := time.NewTicker(max(s.Every, 1))
	defer tick.Stop()
	for n := range s.Edits {
		if n == s.Edits/4 && s.fault != nil {
			if err := s.fault(ctx, f); err != nil {
				return nil, err
			}
			time.AfterFunc(outage, func() { mended <- s.mend(ctx, f) })
		}
		e, err := f.edit(ctx, n)
		if err != nil {
			return nil, err
		}
		if e.revision == 0 {
			r.Unanswered++
		} else {
			edits = append(edits, e)
		}
		if s.Every > 0 {
			<-tick.C
		}
	}
	if s.fault != nil {
		if err := <-mended; err != nil {
			return nil, fmt.Errorf("mending: %w", err)
		}
	}
	if err := f.converge(ctx); err != nil {
		return nil, err
	}
	for _, p := range f.pods {
		r.add(edits, p.diary.notes())
	}
	slices.Sort(r.Applied)
	r.Watches = f.watches() - watches
	return r, nil
}

func (f *Fleet) watches() int64 {
	var n int64
	for _, p := range f.pods {
		n += p.Status().Watches
	}
	return n
}

// add counts how a pod took the edits.
func (r *Result) add(edits []edit, notes []adoption) {
	for i := 1; i < len(notes); i++ {
		if notes[i].revision <= notes[i-1].revision {
			r.OutOfOrder++
		}
		r.Skipped += int(max(notes[i].revision-notes[i-1].revision-1, 0))
	}
	for _, e := range edits {
		at := slices.IndexFunc(notes, func(a adoption) bool { return a.revision >= e.revision })
		if at < 0 {
			continue // converge says so
		}
		took := notes[at].at.Sub(e.asked)
		r.Applied = append(r.Applied, took)
		if took > late {
			r.Late++
		}
	}
}

// converge waits until all pods have the last revision, and compares what they go by
// with what was acknowledged and with what the service has.
func (f *Fleet) converge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	all, err := f.instances[len(f.instances)-1].rules.ListRules(ctx, &rulesv1.ListRulesRequest{Domain: domain, PageSize: listPage})
	if err != nil {
		return err
	}
	if err := f.settle(ctx, all.GetRevision()); err != nil {
		return err
	}
	there := map[string]*rulesv1.Rule{}
	for _, rule := range all.GetRules() {
		there[rule.GetId()] = rule
	}
	var lost []error
	for id, rate := range f.rates {
		if there[id].GetRate() != rate || there[id].GetVersion() != f.versions[id] {
			lost = append(lost, fmt.Errorf("the service has %v: rate %v at version %d was acknowledged", there[id], rate, f.versions[id]))
		}
	}
	for n, p := range f.pods {
		if err := same(p.Current().Source(), all.GetRevision(), there); err != nil {
			lost = append(lost, fmt.Errorf("pod %d: %w", n, err))
		}
	}
	return errors.Join(lost...)
}

// same compares what a pod goes by with the rules of a revision.
func same(has *rulesv1.Ruleset, revision int64, rules map[string]*rulesv1.Rule) error {
	if has.GetRevision() != revision || len(has.GetRules()) != len(rules) {
		return fmt.Errorf("it has %d rules at revision %d: want %d at %d", len(has.GetRules()), has.GetRevision(), len(rules), revision)
	}
	for _, rule := range has.GetRules() {
		if !proto.Equal(rule, rules[rule.GetId()]) {
			return fmt.Errorf("it goes by %v: want %v", rule, rules[rule.GetId()])
		}
	}
	return nil
}
