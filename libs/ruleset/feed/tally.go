package feed

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

const (
	// countsMax is how many counts a report may hold.
	countsMax = 8192
	// retiredMax is how many versions are still told of after they went out of force:
	// the last counts of an edit that was given up explain why.
	retiredMax = 256
)

// version names what is counted together: a rule or a candidate of it.
type version struct {
	rule   string
	number int64
}

// count is of one version. It fills a cache line, so that two rules' counts do not
// slow each other down.
type count struct {
	evaluated, refused atomic.Int64
	_                  [48]byte
}

func (c *count) add(requests, refused int64) {
	c.evaluated.Add(requests)
	if refused > 0 {
		c.refused.Add(refused)
	}
}

// Tally counts what each version of a rule decides, from the start of the process
// on. Counting is one look-up and one or two atomic additions, and allocates nothing
// once a rule has been met. Safe for concurrent use.
type Tally struct {
	met sync.Map // *limit.Rule of rulesets in use → *count

	mu      sync.Mutex
	inForce []*limit.Rule
	counts  map[version]*count
	retired []version // no longer in force, the latest last
}

// Count counts the rules that a request met, once each. A rule that was not asked, or
// that its counter gave no answer for, has decided nothing. Rules in shadow are told
// by Shadow.
func (t *Tally) Count(d *limit.Decision) {
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		switch {
		case o.Rule.Mode == limit.Shadow || o.DecidedBy == 0 || o.DecidedBy == limit.ByFallback || o.DecidedBy == limit.ByFailClosed:
		case o.Short:
			t.of(o.Rule).add(1, 1)
		default:
			t.of(o.Rule).add(1, 0)
		}
	}
}

// Shadow counts requests that a rule in shadow looked at, and those of them that it
// would have refused.
func (t *Tally) Shadow(rule *limit.Rule, requests, short int64) { t.of(rule).add(requests, short) }

func (t *Tally) of(rule *limit.Rule) *count {
	if known, ok := t.met.Load(rule); ok {
		return known.(*count)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.countOf(versionOf(rule))
	t.met.Store(rule, c)
	return c
}

func (t *Tally) countOf(v version) *count {
	c := t.counts[v]
	if c == nil {
		c = new(count)
		if t.counts == nil {
			t.counts = map[version]*count{}
		}
		t.counts[v] = c
	}
	return c
}

func versionOf(rule *limit.Rule) version { return version{rule.Name(), rule.Version} }

// follow goes by the rules that are in force from now on, with versions that are on
// their way. What was counted of others is told for a while.
func (t *Tally) follow(rules []*limit.Rule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Equal(rules, t.inForce) {
		return // only overrides have changed
	}
	t.inForce = rules
	t.met.Clear() // of rules that are no longer met; the others are found again
	inForce := make(map[version]bool, len(rules))
	for _, rule := range rules {
		inForce[versionOf(rule)] = true
	}
	t.retired = slices.DeleteFunc(t.retired, func(v version) bool { return inForce[v] })
	for v := range t.counts {
		if !inForce[v] && !slices.Contains(t.retired, v) {
			t.retired = append(t.retired, v)
		}
	}
	for len(t.retired) > retiredMax {
		delete(t.counts, t.retired[0])
		t.retired = t.retired[1:]
	}
}

// report returns the counts so far, of versions that were met.
func (t *Tally) report() []*rulesv1.RuleCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*rulesv1.RuleCounts
	for v, c := range t.counts {
		// Refusals first: between the two loads both may grow, and there are never more
		// refusals than requests.
		refused := c.refused.Load()
		if evaluated := c.evaluated.Load(); evaluated > 0 && len(all) < countsMax {
			all = append(all, &rulesv1.RuleCounts{Rule: v.rule, Version: v.number, Evaluated: evaluated, Refused: refused})
		}
	}
	return all
}
