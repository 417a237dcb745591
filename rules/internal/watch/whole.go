package watch

import (
	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// whole is a ruleset as it is sent.
type whole struct {
	at       position // what comes after it
	revision int64
	parts    []event
	bytes    int
}

// staleness is what share of its bytes may come after a whole that is sent again,
// as a divisor: those who come are sent a quarter more at most.
const staleness = 4

// snapshot returns the whole as it is or as it was a moment ago; made says that it
// had to be encoded. Who asks meanwhile waits for that.
func (d *domain) snapshot() (w *whole, made bool, err error) {
	d.encoding.Lock()
	defer d.encoding.Unlock()
	d.mu.RLock()
	w, rules := d.whole, d.rules
	fresh := &whole{at: d.end(), revision: d.revision}
	useful := w != nil && d.useful(w)
	d.mu.RUnlock()
	if useful {
		return w, false, nil
	}
	for i, all := 0, cut(rules.Source()); i < len(all); i++ {
		e, err := encodePart(all[i], i < len(all)-1)
		if err != nil {
			return nil, false, err
		}
		fresh.parts = append(fresh.parts, e)
		fresh.bytes += len(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if fresh.at >= d.start { // else there was a reset meanwhile
		d.whole = fresh
	}
	return fresh, true, nil
}

// useful reports whether little enough came after a whole, and is far from being
// dropped. mu is held.
func (d *domain) useful(w *whole) bool {
	if w.at < d.first || w.at < d.start {
		return false
	}
	since := d.records[w.at-d.first:]
	bytes := 0
	for i := range since {
		bytes += len(since[i].event)
	}
	return bytes <= w.bytes/staleness && bytes <= d.bounds.bytes/2 && len(since) <= d.bounds.changes/2
}

// cut divides a ruleset into parts of about partBytes, at least one.
func cut(set *rulesv1.Ruleset) []*rulesv1.Ruleset {
	c := &cutter{set: set}
	c.begin()
	share(c, set.GetPlans(), func(p *rulesv1.Ruleset) *[]*rulesv1.Plan { return &p.Plans })
	share(c, set.GetRoutes(), func(p *rulesv1.Ruleset) *[]*rulesv1.Route { return &p.Routes })
	share(c, set.GetRules(), func(p *rulesv1.Ruleset) *[]*rulesv1.Rule { return &p.Rules })
	share(c, set.GetOverrides(), func(p *rulesv1.Ruleset) *[]*rulesv1.Override { return &p.Overrides })
	share(c, set.GetCandidates(), func(p *rulesv1.Ruleset) *[]*rulesv1.Candidate { return &p.Candidates })
	return c.parts
}

type cutter struct {
	set   *rulesv1.Ruleset
	parts []*rulesv1.Ruleset
	part  *rulesv1.Ruleset // the last of parts
	bytes int              // of part
}

func (c *cutter) begin() {
	c.part = &rulesv1.Ruleset{Domain: c.set.GetDomain(), Revision: c.set.GetRevision()}
	c.parts = append(c.parts, c.part)
	c.bytes = 0
}

// share adds the items of one list to the parts.
func share[M proto.Message](c *cutter, items []M, list func(*rulesv1.Ruleset) *[]M) {
	for _, item := range items {
		size := proto.Size(item)
		if c.bytes > 0 && c.bytes+size > partBytes {
			c.begin()
		}
		to := list(c.part)
		*to = append(*to, item)
		c.bytes += size
	}
}
