package limiter

import (
	"math"
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// knowledge is what the store's last reply says of a counter: it cannot hold
// more than it held then and has refilled since. So a request whose cost is
// above that bound is refused without a call; one of a lower cost is not.
type knowledge struct {
	level   float64       // what was left then, fractions included; +Inf: no bound
	at      time.Duration // the pod's time just before the ask was sent
	store   time.Duration // the store's time of the reply
	free    time.Duration // windows and logs: the pod's time from which level is no bound
	trusted time.Duration // the pod's time until which it is believed
	reset   time.Duration // at this pod's time nothing is used any more
	valid   bool
}

const (
	// knowledgeTrust is how long a reply is believed: tokens that other pods
	// hand back, or a counter that support resets, stay unseen no longer.
	knowledgeTrust = time.Second
	// knowledgePace is how long the others go on believing a reply that is
	// out of date while one request asks.
	knowledgePace = 50 * time.Millisecond
)

// learn takes a reply over, unless a newer one was seen and is still trusted
// (after a step back of the store's clock all replies look old for a while). Of
// two replies from the same microsecond the one with less left is the later.
func (k *knowledge) learn(sent, at time.Duration, c *limit.Charge, reply *store.Outcome) {
	level, free := float64(reply.Remaining), sent+reply.Reset
	switch c.Rule.Algorithm {
	case limit.TokenBucket:
		// Remaining is whole tokens; Reset, rounded up to 1 µs, has the fraction.
		level = float64(c.Limit.Burst) - float64(max(0, reply.Reset-time.Microsecond))/float64(time.Microsecond)*c.Limit.Rate.PerMicrosecond()
	case limit.SlidingLog:
		if !reply.Short || reply.Never {
			level = math.Inf(1) // when its oldest attempt ends is not in the reply
			break
		}
		level, free = float64(c.Cost-1), sent+reply.Retry
	}
	if k.valid && sent < k.trusted && (at < k.store || at == k.store && level >= k.level) {
		return
	}
	*k = knowledge{level: level, at: sent, store: at, free: free, trusted: sent + knowledgeTrust, reset: sent + reply.Reset, valid: true}
}

// bound is the most that the counter can hold now.
func (k *knowledge) bound(now time.Duration, l limit.Limit) float64 {
	switch {
	case !k.valid:
		return math.Inf(1)
	case l.Window == 0:
		return bucket.Tokens{Level: k.level, At: k.at}.LevelAt(now, l)
	case now >= k.free:
		return math.Inf(1)
	}
	return k.level
}

// excludes reports whether cost cannot be there. Knowledge that is out of date
// excludes nothing for the first who would have been refused: he asks.
func (k *knowledge) excludes(now time.Duration, l limit.Limit, cost int64) bool {
	if k.bound(now, l) >= float64(cost) {
		return false
	}
	if now < k.trusted {
		return true
	}
	k.trusted = now + knowledgePace
	return false
}

// wait is the time until an excluded cost could be there.
func (k *knowledge) wait(now time.Duration, l limit.Limit, cost int64) time.Duration {
	if l.Window > 0 {
		return k.free - now
	}
	return bucket.Tokens{Level: k.level, At: k.at}.Wait(now, l, float64(cost))
}

// describe says what is left as far as it is known: at most this much.
func (k *knowledge) describe(now time.Duration, l limit.Limit, o *limit.Outcome) {
	bound := k.bound(now, l)
	if o.Known = !math.IsInf(bound, 1); !o.Known {
		return
	}
	o.Remaining = bucket.Whole(bound)
	o.Reset = max(0, k.reset-now)
}
