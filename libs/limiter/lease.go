package limiter

import (
	"math"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// The constants of the lease, found by simulation over four sizes of limit and
// forty patterns of traffic.
const (
	leaseShort  = 50 * time.Millisecond  // demand that a lease covers always
	leaseAmple  = 500 * time.Millisecond // demand that it covers while the counter is ample
	leaseLife   = time.Second            // after it a surplus goes back with the next ask
	leaseGrace  = 500 * time.Millisecond // and after this much more by an ask of its own
	lendReserve = 100                    // leases that a window holds besides the one it lends
	demandSlot  = 10 * time.Millisecond  // demand of the running slot does not count yet
	demandFade  = 500 * time.Millisecond // time constant of the demand's average
	demandKeep  = 0.9801986733067553     // what of the average survives a slot: exp(−demandSlot ÷ demandFade)
)

// lease is what this pod holds of a counter, paid for in the store.
type lease struct {
	held    int64
	from    time.Duration // store time of the newest grant
	expires time.Duration // pod time from which a surplus goes back
	window  time.Duration // store time at which the window that it counts in began; 0 for a bucket's
	ends    time.Duration // pod time at which that window ends; 0: never
}

// lacks is what must come from the store for cost more; the queue goes first.
func (s *state) lacks(cost int64) int64 {
	if s.rule.Algorithm == limit.SlidingLog {
		return cost
	}
	return max(0, min(cost, s.waiting+cost-s.lease.held))
}

// spend takes n tokens of an admitted charge from the lease.
func (s *state) spend(n int64) { s.lease.held -= n }

// unspend puts n tokens of a charge back, of a request that another subject
// refused. window tells where they were taken from: what one window has counted
// is of no use in the next.
func (s *state) unspend(now time.Duration, n int64, window time.Duration) {
	s.void(now)
	if s.lease.window != window || window != 0 && now >= s.lease.ends {
		s.counts.lost.Add(n)
		return
	}
	s.lease.held += n
	s.lease.expires = min(s.lease.expires, now)
}

// void drops a window's lease when its window has ended.
func (s *state) void(now time.Duration) {
	if s.lease.ends > 0 && now >= s.lease.ends {
		s.dropLease()
	}
}

func (s *state) dropLease() {
	s.counts.lost.Add(s.lease.held)
	s.lease = lease{}
}

// grant adds what the store granted at its time at. window and ends are those
// of a fixed window, else 0. What is left of another window is void, whichever
// is the later: the store's clock may have stepped back. A grant lasts at least
// for those who waited for it, who look at the same time.
func (s *state) grant(now, at time.Duration, n int64, window, ends time.Duration) {
	if n == 0 {
		return
	}
	l := &s.lease
	if window != l.window {
		s.dropLease()
	}
	if ends > 0 {
		ends = max(ends, now+1)
	}
	l.held, l.from, l.expires, l.window, l.ends = l.held+n, at, now+leaseLife, window, ends
}

// release takes what is above keep off the lease, to be handed back.
func (l *lease) release(now time.Duration, keep int64) int64 {
	n := max(0, l.held-keep)
	l.held -= n
	l.expires = now + leaseLife
	return n
}

// releaseAll takes all that fits the limit off the lease, to be handed back. A limit
// that has become smaller has no room for the rest.
func (s *state) releaseAll(now time.Duration) int64 {
	held := s.lease.release(now, 0)
	n := min(held, s.limit.Size())
	s.counts.lost.Add(held - n)
	return n
}

// surplus reports whether the lease has held more than keep for its life and grace.
func (l *lease) surplus(now time.Duration, keep int64, grace time.Duration) bool {
	return l.held > keep && now >= l.expires+grace
}

// ahead is how many tokens to hold for requests yet to come, for the demand
// that this pod has seen: 50 ms of it always, and half a second as long as
// every pod could take as much and leave half of the counter. No pod plans for
// more than a bucket's own rate. A window is lent from only while it holds
// lendReserve such leases: near its end a quota is counted exactly. A log lends
// nothing.
func (s *state) ahead(now time.Duration, pods int) int64 {
	rate, left := s.demand.rate(now), s.known.remaining/int64(2*pods)
	switch s.rule.Algorithm {
	case limit.TokenBucket:
		rate = min(rate, float64(s.limit.Rate))
		ample := min(int64(rate*leaseAmple.Seconds()+0.9), left)
		return max(int64(rate*leaseShort.Seconds()+0.5), ample)
	case limit.FixedWindow:
		return min(int64(rate*leaseAmple.Seconds()+0.9), left, s.known.remaining/(lendReserve+1))
	}
	return 0
}

// target is what the lease should be: for those who wait, and ahead. While more
// wait than would be held ahead, a burst is on: what it needs comes first, on
// every pod.
func (s *state) target(now time.Duration, pods int) int64 {
	ahead := s.ahead(now, pods)
	if s.waiting > ahead {
		ahead = 0
	}
	return s.waiting + ahead
}

// demand is a decaying average of charges over closed slots. The running slot
// is left out: a lease is for requests yet to come, and a burst that is over
// before its slot closes must not make every pod lease for a future it has not.
type demand struct {
	slot         int64
	running, avg float64 // tokens a slot
}

func (d *demand) roll(now time.Duration) {
	slot := int64(now / demandSlot)
	closed := slot - d.slot
	if closed <= 0 {
		return
	}
	d.avg = d.avg*demandKeep + d.running*(1-demandKeep)
	if closed > 1 {
		d.avg *= math.Exp(-float64(closed-1) * float64(demandSlot) / float64(demandFade))
	}
	d.slot, d.running = slot, 0
}

func (d *demand) add(now time.Duration, cost int64) {
	d.roll(now)
	d.running += float64(cost)
}

// rate is the demand in tokens a second.
func (d *demand) rate(now time.Duration) float64 {
	d.roll(now)
	return d.avg / demandSlot.Seconds()
}
