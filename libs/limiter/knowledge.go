package limiter

import (
	"math"
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// knowledge is what the store's last reply says of a counter: it cannot hold
// more than it held then and has refilled since. So a request that lacks more
// than that bound is refused without a call; one that lacks less is not.
type knowledge struct {
	level     float64       // what was left then, fractions included; +Inf: no bound
	remaining int64         // whole tokens left then, 0 if nothing is known
	at        time.Duration // the pod's time just before the ask was sent
	store     time.Duration // the store's time of the reply
	free      time.Duration // windows and logs: the pod's time from which level is no bound
	trusted   time.Duration // the pod's time until which it is believed
	paced     time.Duration // and until which it is believed on, while one request asks
	reset     time.Duration // the pod's time at which nothing is used any more
	valid     bool
}

const (
	// knowledgeTrust is how long a reply is believed: tokens that other pods
	// hand back, or a counter that support resets, stay unseen no longer.
	knowledgeTrust = time.Second
	// knowledgePace is how long a reply that is out of date is believed on while
	// one request asks.
	knowledgePace = 50 * time.Millisecond
)

// learn takes a reply over, unless a newer one was seen and is still trusted
// (after a step back of the store's clock all replies look old for a while). Of
// two replies from the same microsecond the one with less left is the later.
// sent is the pod's time before the ask was sent, need what it needed.
func (k *knowledge) learn(sent, at time.Duration, r *limit.Rule, l limit.Limit, need int64, reply *store.Outcome) {
	level, free := float64(reply.Remaining), sent+reply.Reset
	switch r.Algorithm {
	case limit.TokenBucket:
		// Remaining is whole tokens; Reset, rounded up to 1 µs, has the fraction.
		level = float64(l.Burst) - float64(max(0, reply.Reset-time.Microsecond))/float64(time.Microsecond)*l.Rate.PerMicrosecond()
	case limit.SlidingLog:
		if !reply.Short || reply.Never {
			level = math.Inf(1) // when its oldest attempt ends is not in the reply
			break
		}
		level, free = float64(need-1), sent+reply.Retry
	}
	if k.valid && sent < k.trusted && (at < k.store || at == k.store && level >= k.level) {
		return
	}
	*k = knowledge{
		level: level, remaining: reply.Remaining, at: sent, store: at,
		free: free, trusted: sent + knowledgeTrust, reset: sent + reply.Reset, valid: true,
	}
}

// bound is the most that the counter can hold now.
func (k *knowledge) bound(now time.Duration, l limit.Limit) float64 {
	switch {
	case !k.valid:
		return math.Inf(1)
	case l.Window == 0:
		return k.tokens().LevelAt(now, l)
	case now >= k.free:
		return math.Inf(1)
	}
	return k.level
}

func (k *knowledge) tokens() bucket.Tokens { return bucket.Tokens{Level: k.level, At: k.at} }

// excludes reports whether n tokens cannot be there.
func (k *knowledge) excludes(now time.Duration, l limit.Limit, n int64) bool {
	return k.believed(now) && k.bound(now, l) < float64(n)
}

// believed reports whether the reply is not too old to refuse by.
func (k *knowledge) believed(now time.Duration) bool { return now < max(k.trusted, k.paced) }

// asked keeps what is out of date believed for the others while one asks.
func (k *knowledge) asked(now time.Duration) {
	if k.valid && now >= k.trusted {
		k.paced = now + knowledgePace
	}
}

// wait is the time until n tokens, which cannot be there, could be: by then they
// are, if nobody else takes any.
func (k *knowledge) wait(now time.Duration, l limit.Limit, n int64) time.Duration {
	if l.Window > 0 {
		return k.free - now
	}
	return k.tokens().Wait(now, l, float64(n)) + time.Microsecond // by which level may be too high
}
