package limiter

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// Errand is an ask whose reply no request waits for: tokens that go back, or
// charges of shadow rules and of those that count after. Its driver sets Sent, the time just before it is
// sent.
type Errand struct {
	Ask     store.Ask
	Sent    time.Duration
	tallies []tally // parallel to the ask's entries: what an entry sums up that no request waits for
}

// errandsMax bounds the errands that wait. A sweep collects no more than there is
// room for; of what cannot wait (an edit, an eviction) the excess is dropped and
// counted: tokens that do not go back are lost to the caller until they refill.
const errandsMax = 4096

// outbox holds the errands until somebody has time for them. Its lock is taken
// under a shard's, never the other way around.
type outbox struct {
	mu      sync.Mutex
	errands []Errand
	waiting atomic.Int64 // len(errands), for a look without the lock
	dropped atomic.Int64
	member  func() uint64 // names an attempt in a log
	book    *book
}

func (o *outbox) add(e Errand) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.errands) >= errandsMax {
		o.dropped.Add(1)
		o.book.lose(&e.Ask)
		return
	}
	e.Ask.Subject = e.Ask.Subject.Clone()
	o.errands = append(o.errands, e)
	o.waiting.Add(1)
}

// room reports whether the outbox takes another errand.
func (o *outbox) room() bool { return o.waiting.Load() < errandsMax }

// tell adds the errand that tells the charges that no request waits for.
func (o *outbox) tell(subject limit.Subject, s *state) {
	if s.uncounted.tokens > 0 {
		entry, sum := s.tell(o.member())
		o.add(Errand{Ask: store.Ask{Subject: subject, Entries: []store.Entry{entry}}, tallies: []tally{sum}})
	}
}

// take empties the outbox.
func (o *outbox) take() []Errand {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.errands
	o.errands = nil
	o.waiting.Store(0)
	return e
}

// giveBack adds the errand that hands n tokens of a lease back.
func (o *outbox) giveBack(subject limit.Subject, s *state, n int64) {
	if n > 0 {
		entry := store.Entry{Rule: s.rule, Limit: s.limit, Give: n, GivenFrom: s.lease.from}
		o.add(Errand{Ask: store.Ask{Subject: subject, Entries: []store.Entry{entry}}, tallies: make([]tally, 1)})
	}
}

// tally sums charges up that no request waits for.
type tally struct {
	tokens, requests int64
}

// tallyPart is the part of a limit's size that a tally may reach before it is
// told at once: a sum near the size would look like a burst that never was.
const tallyPart = 4

func (t *tally) add(more tally) {
	t.tokens += more.tokens
	t.requests += more.requests
}

// full reports whether the charges must be told at once. Of a rule that counts
// after, every pod may hold so much back: together they hold no more.
func (s *state) full(pods int) bool {
	part := int64(tallyPart)
	if s.rule.Check == limit.CheckAfter && s.rule.Mode != limit.Shadow {
		part *= int64(pods)
	}
	return s.uncounted.tokens > 0 && s.uncounted.tokens*part >= s.limit.Size()
}

// take empties the tally.
func (t *tally) take() tally {
	sum := *t
	*t = tally{}
	return sum
}

// short is how many of the requests the rule would have refused, for what the
// store granted of their sum.
func (t tally) short(granted int64) int64 {
	if t.tokens == 0 {
		return 0
	}
	return int64(math.Round(float64(t.requests) * float64(t.tokens-granted) / float64(t.tokens)))
}
