package client

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
)

// localMax bounds the buckets of Local fallbacks. Beyond, those that were not used
// of late are forgotten: whoever they counted starts with a full one.
const localMax = 1 << 16

// keptMax is the longest key, in bytes, that a bucket keeps as it is. Longer ones, up to
// what a request can hold, are kept as digests, which no key that is kept is as long as.
const keptMax = sha256.Size - 1

// closedRetry is the wait told with a refusal by Closed: a checker that went away is
// asked again about once a second.
const closedRetry = time.Second

// Fallback is what becomes of requests of a rule while no checker answers. The zero
// Fallback is Open.
type Fallback struct {
	closed bool
	limit  limit.Limit // of a Local one
}

// Open admits.
func Open() Fallback { return Fallback{} }

// Closed refuses.
func Closed() Fallback { return Fallback{closed: true} }

// Local admits what a token bucket in this process has for the key: rate tokens a
// second, burst at once. Several processes admit as much each.
func Local(rate float64, burst int64) Fallback {
	return Fallback{limit: limit.Limit{Rate: limit.Rate(rate), Burst: burst}}
}

func (f Fallback) validate(of string) error {
	switch l := f.limit; {
	case l == (limit.Limit{}):
		return nil
	case !(l.Rate >= limit.RateMin && l.Rate <= limit.RateMax):
		return fmt.Errorf("client: fallback of %s: rate %v: want one a year to 10,000,000 a second", of, l.Rate)
	case l.Burst < 1 || l.Burst > limit.BurstMax:
		return fmt.Errorf("client: fallback of %s: burst %d: want 1 to %d", of, l.Burst, limit.BurstMax)
	}
	return nil
}

// fallbacks decide in the place of a checker. Safe for concurrent use.
type fallbacks struct {
	other Fallback
	rules map[string]Fallback

	mu          sync.Mutex
	fresh, aged map[counter]bucket.Tokens // half of localMax each; what is used moves to fresh
}

type counter struct{ rule, key string }

func counterOf(e *Entry) counter {
	if len(e.Key) <= keptMax {
		return counter{e.Rule, e.Key}
	}
	sum := sha256.Sum256([]byte(e.Key))
	return counter{e.Rule, string(sum[:])}
}

func newFallbacks(other Fallback, rules map[string]Fallback) (*fallbacks, error) {
	if err := other.validate("all rules"); err != nil {
		return nil, err
	}
	f := &fallbacks{other: other, rules: make(map[string]Fallback, len(rules)), fresh: map[counter]bucket.Tokens{}}
	for id, rule := range rules {
		if err := rule.validate(id); err != nil {
			return nil, err
		}
		f.rules[id] = rule
	}
	return f, nil
}

func (f *fallbacks) of(rule string) Fallback {
	if own, ok := f.rules[rule]; ok {
		return own
	}
	return f.other
}

// decide admits a request if all its entries do, and charges it then.
func (f *fallbacks) decide(now time.Duration, entries []Entry) Decision {
	d := Decision{Allowed: true, DecidedBy: ByFallback}
	for i := range entries {
		if f.of(entries[i].Rule).closed {
			return Decision{Unavailable: true, DecidedBy: ByFallback, Refused: entries[i].Rule, RetryAfter: closedRetry}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	never := false
	for i := range entries {
		e := &entries[i]
		l := f.of(e.Rule).limit
		need := max(e.Cost, 1)
		if l.Burst == 0 || f.take(now, l, e, 0) >= float64(need) {
			continue
		}
		if d.Allowed {
			d.Allowed, d.Refused = false, e.Rule
		}
		if need > l.Burst {
			never = true // and no wait is its
			continue
		}
		d.RetryAfter = max(d.RetryAfter, f.fresh[counterOf(e)].Wait(now, l, float64(need)))
	}
	if never {
		d.RetryAfter = 0
	}
	for i := range entries {
		if l := f.of(entries[i].Rule).limit; d.Allowed && l.Burst > 0 {
			f.take(now, l, &entries[i], max(entries[i].Cost, 1))
		}
	}
	return d
}

// take takes n tokens from an entry's bucket, and returns how many are left.
func (f *fallbacks) take(now time.Duration, l limit.Limit, e *Entry, n int64) float64 {
	name := counterOf(e)
	b, ok := f.fresh[name]
	if !ok {
		if b, ok = f.aged[name]; !ok {
			b = bucket.Full(now, l)
		}
		if len(f.fresh) >= localMax/2 {
			f.aged, f.fresh = f.fresh, map[counter]bucket.Tokens{}
		}
	}
	b = b.Take(now, l, n)
	f.fresh[name] = b
	return b.LevelAt(now, l)
}
