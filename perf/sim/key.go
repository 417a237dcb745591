package sim

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/counter"
)

// Key is one rule of one subject.
type Key struct {
	Subject limit.Subject
	Rule    *limit.Rule // as it is now
	w       *World
	seen    [][]version // by region, the oldest first
	meters  []*meter    // by region; none if there is only one
	whole   *meter      // over all regions
}

// version is what a rule says in a region from a time on.
type version struct {
	at       time.Duration
	revision int64
	rule     *limit.Rule
	limit    limit.Limit
}

// Part is what a request takes from a key.
type Part struct {
	Key  *Key
	Cost int64
}

// NewKey makes a key of a subject, measured and verified: a token bucket or a
// fixed window, enforced and open, unless an option says otherwise.
func (w *World) NewKey(id, rule string, l limit.Limit, options ...func(*limit.Rule)) *Key {
	r := &limit.Rule{
		Domain: "sim", ID: rule, Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: l,
		Mode: limit.Enforce, Check: limit.CheckBefore, FailMode: limit.FailOpen, Counts: limit.CountRequests,
	}
	if l.Window > 0 {
		r.Algorithm = limit.FixedWindow
	}
	for _, option := range options {
		option(r)
	}
	if r.Algorithm == limit.FixedWindow {
		w.trips = 3 // a grant that arrives when its window has ended is void, and asked for again
	}
	r.Tag = limit.TagOf(r.Domain, r.ID, r.Algorithm)
	subject, err := limit.NewSubject(r.Domain, r.Kind, id)
	if err != nil {
		w.fail(err)
	}
	whole := l
	if len(w.regions) > 1 {
		whole.Burst = 0
		if l.Window > 0 {
			w.fail(fmt.Errorf("rule %s: a window or log is no region's, it has one home", rule))
		}
	}
	k := &Key{Subject: subject, Rule: r, w: w, seen: make([][]version, len(w.regions))}
	for _, region := range w.regions {
		part := region.share.Of(l, r.Largest)
		k.seen[region.id] = []version{{rule: r, limit: part}}
		if len(w.regions) > 1 {
			k.meters = append(k.meters, newMeter(w, fmt.Sprintf("%v %s in region %d", subject, rule, region.id), r, part))
			whole.Burst += part.Burst // a floored burst is more than the share's
		}
	}
	k.whole = newMeter(w, fmt.Sprintf("%v %s", subject, rule), r, whole)
	w.keys = append(w.keys, k)
	w.byTag[tagged{subject, r.Tag}] = k
	return k
}

// Options of a key.
func kind(k limit.Kind) func(*limit.Rule) { return func(r *limit.Rule) { r.Kind = k } }
func largest(n int64) func(*limit.Rule)   { return func(r *limit.Rule) { r.Largest = n } }
func shadow(r *limit.Rule)                { r.Mode = limit.Shadow }
func closed(r *limit.Rule)                { r.FailMode = limit.FailClosed }
func after(r *limit.Rule)                 { r.Check = limit.CheckAfter }
func slidingLog(r *limit.Rule)            { r.Algorithm = limit.SlidingLog }

// Limit is the key's over all regions, as its rule says now.
func (k *Key) Limit() limit.Limit { return k.Rule.Limit }

// rate is x times the key's rate, a second.
func (k *Key) rate(x float64) float64 { return x * float64(k.Limit().Rate) }

// at is the key's version in a region as of t.
func (k *Key) at(region int, t time.Duration) *version {
	versions := k.seen[region]
	for i := len(versions) - 1; i > 0; i-- {
		if versions[i].at <= t {
			return &versions[i]
		}
	}
	return &versions[0]
}

// of is what measures the key in a region.
func (k *Key) of(region int) []*meter {
	if k.meters == nil {
		return []*meter{k.whole}
	}
	return []*meter{k.meters[region], k.whole}
}

// Edit gives the key's rule another limit. Pods learn of it within Config.Lag.
func (w *World) Edit(k *Key, l limit.Limit) {
	rule := *k.Rule
	rule.Limit = l
	rule.Version++
	k.Rule = &rule
	for _, r := range w.regions {
		w.revise(k, r)
	}
	if k.meters == nil {
		return
	}
	w.follow(k.whole, l)
}

// Move gives a region another share of every limit. Whoever moves shares lets
// the regions that lose come first, and the others when the pods have learned.
func (w *World) Move(region int, share limit.Share) {
	r := w.regions[region]
	r.share = share
	for _, k := range w.keys {
		w.revise(k, r)
	}
}

// revise makes the key's version of now in a region.
func (w *World) revise(k *Key, r *region) {
	w.edited = true
	w.trips = 3 // an edit voids the lease that was asked for
	l := r.share.Of(k.Rule.Limit, k.Rule.Largest)
	w.revision++
	k.seen[r.id] = append(k.seen[r.id], version{w.now, w.revision, k.Rule, l})
	w.follow(k.of(r.id)[0], l)
}

// follow tells a meter that the limit is another: until nobody can send the old
// one any more, the larger of both bounds.
func (w *World) follow(m *meter, l limit.Limit) {
	m.widen(l)
	w.after(w.cfg.Lag+w.slowest(), func() { m.narrow(w.regions[0].clock()) })
}

// oracle is one exact counter for each key, no pods and no network: what a
// request is entitled to.
type oracle map[*Key]*counter.Counter

func (o oracle) entitled(now time.Duration, parts []Part) bool {
	var entries [store.EntriesMax]store.Entry
	passes := true
	for i, p := range parts {
		e := &entries[i]
		*e = store.Entry{Rule: p.Key.Rule, Limit: p.Key.Limit(), Need: p.Cost, Want: p.Cost, Member: uint64(now)}
		c := o[p.Key]
		if c == nil {
			fresh := counter.Fresh(epoch+now, e)
			c = &fresh
			o[p.Key] = c
		}
		c.Prepare(epoch+now, e)
		passes = passes && (e.Rule.Mode == limit.Shadow || c.Holds(epoch+now, e))
	}
	if !passes {
		return false
	}
	for i, p := range parts {
		if e := &entries[i]; o[p.Key].Holds(epoch+now, e) {
			o[p.Key].Take(epoch+now, e)
		}
	}
	return true
}
