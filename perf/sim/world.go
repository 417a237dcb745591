package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
)

// Config is a world's: the zero Config is the 0.4 ms without jitter.
type Config struct {
	Pods    int
	RTT     time.Duration // of a call to the store; zero: 0.4 ms
	Jitter  float64       // each way takes RTT/2 · (1 ± Jitter)
	Seed    uint64
	Timeout time.Duration // of a call to the store; zero: 5 ms
	Start   time.Duration // steady figures begin here
}

// Key is one rule of one subject.
type Key struct {
	Subject limit.Subject
	Rule    *limit.Rule
	meter   *meter // nil: nobody looks at it
}

// Limit is the key's limit, as its rule says now.
func (k *Key) Limit() limit.Limit { return k.Rule.Limit }

// Part is what a request takes from a key.
type Part struct {
	Key  *Key
	Cost int64
}

// World is one run: a store, pods, clients and what is measured.
type World struct {
	clock
	cfg     Config
	rng     *rand.Rand
	store   *memory.Store
	pods    []*pod
	live    int
	oracle  oracle
	keys    map[tagged]*Key
	classes map[string]*Class
	started bool

	// Fault, if not nil, is asked before each call: what it returns instead of
	// nil is what the pod gets; ErrTimeout after the timeout, else at once. lost
	// says that the store has carried the call out all the same.
	Fault func(now time.Duration, subject limit.Subject) (err error, lost bool)
	// Skew steps the store's clock.
	Skew time.Duration

	asks, gives    int64 // calls since Start, and those of hand-backs alone
	asked, settled int64
	by             map[limit.DecidedBy]int64
	longest        time.Duration // that a request waited
	unknown        int64         // calls that failed
}

// tagged finds a key from an ask's entry.
type tagged struct {
	subject limit.Subject
	tag     uint32
}

// Class sums the requests of one kind, in tokens of their first part.
type Class struct{ Offered, Admitted, Entitled int64 }

// NewWorld makes a world with its pods.
func NewWorld(cfg Config) (*World, error) {
	if cfg.RTT == 0 {
		cfg.RTT = 400 * time.Microsecond
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Millisecond
	}
	w := &World{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), oracle: oracle{}, keys: map[tagged]*Key{},
		classes: map[string]*Class{}, by: map[limit.DecidedBy]int64{},
	}
	var err error
	if w.store, err = memory.New(memory.Config{Shards: 1, Now: func() time.Duration { return time.Hour + w.now + w.Skew }}); err != nil {
		return nil, err
	}
	w.at(cfg.Start, func() { w.started = true })
	return w, w.AddPods(cfg.Pods)
}

// NewKey makes a key of the account; watched ones are measured and verified.
func (w *World) NewKey(account, rule string, l limit.Limit, watched bool) *Key {
	subject, err := limit.NewSubject("sim", limit.Account, account)
	if err != nil {
		panic(err) // an empty name in a scenario
	}
	k := &Key{Subject: subject, Rule: &limit.Rule{
		Domain: "sim", ID: rule, Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: l,
		Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountRequests,
		Tag: limit.TagOf("sim", rule, limit.TokenBucket),
	}}
	if watched {
		k.meter = &meter{limit: l, start: w.cfg.Start}
	}
	w.keys[tagged{subject, k.Rule.Tag}] = k
	return k
}

func (w *World) oneWay() time.Duration {
	return time.Duration(float64(w.cfg.RTT) / 2 * (1 + w.cfg.Jitter*(2*w.rng.Float64()-1)))
}

// Poisson lets do happen at a rate a second between from and to.
func (w *World) Poisson(rate float64, from, to time.Duration, do func()) {
	gap := func() time.Duration { return time.Duration(w.rng.ExpFloat64() / rate * float64(time.Second)) }
	var next func()
	next = func() {
		if w.now < to {
			do()
			w.after(gap(), next)
		}
	}
	w.at(from+gap(), next)
}

// Burst lets do happen n times within span from t on.
func (w *World) Burst(t, span time.Duration, n int64, do func()) {
	for range n {
		w.at(t+time.Duration(w.rng.Int64N(int64(span))), do)
	}
}

// call carries an ask over the network and its reply back.
func (w *World) call(ask *store.Ask, result *store.Result, reply func(error)) {
	w.after(w.oneWay(), func() {
		var err error
		lost := false
		if w.Fault != nil {
			err, lost = w.Fault(w.now, ask.Subject)
		}
		if err == nil || lost {
			w.take(ask, result)
		}
		back := w.oneWay()
		if err != nil {
			w.unknown++
			for i := range ask.Entries {
				if m := w.meterOf(ask, i); m != nil && lost {
					m.lose(w.now, result.Outcomes[i].Granted)
				} else if m != nil {
					m.lose(w.now, ask.Entries[i].Give)
				}
			}
			if errors.Is(err, store.ErrTimeout) {
				back = w.cfg.Timeout
			}
		}
		w.after(back, func() { reply(err) })
	})
}

// take lets the store answer and measures what it charged and took back.
func (w *World) take(ask *store.Ask, result *store.Result) {
	before := make([]float64, len(ask.Entries))
	for i := range ask.Entries {
		if ask.Entries[i].Give > 0 {
			before[i] = w.level(ask, i)
		}
	}
	if err := w.store.Take(context.Background(), ask, result); err != nil {
		panic(err) // the core made a malformed ask
	}
	asks := false
	for i := range ask.Entries {
		e, o, m := &ask.Entries[i], &result.Outcomes[i], w.meterOf(ask, i)
		asks = asks || e.Want > 0
		if m == nil {
			continue
		}
		if e.Give > 0 {
			m.giveBack(w.now, e.Give, min(float64(e.Give), float64(e.Limit.Burst)-before[i]))
		}
		if o.Granted > 0 {
			m.charge(w.now, o.Granted)
		}
	}
	if w.started {
		w.asks++
		if !asks {
			w.gives++
		}
	}
}

func (w *World) meterOf(ask *store.Ask, i int) *meter {
	if k := w.keys[tagged{ask.Subject, ask.Entries[i].Rule.Tag}]; k != nil {
		return k.meter
	}
	return nil
}

// level is what a bucket holds, exactly: Reset has the fraction.
func (w *World) level(ask *store.Ask, i int) float64 {
	e := ask.Entries[i]
	peek := store.Ask{Subject: ask.Subject, Entries: []store.Entry{{Rule: e.Rule, Limit: e.Limit}}}
	var result store.Result
	if err := w.store.Take(context.Background(), &peek, &result); err != nil {
		panic(err) // a peek is well formed
	}
	return float64(e.Limit.Burst) - float64(result.Outcomes[0].Reset)/float64(time.Microsecond)*e.Limit.Rate.PerMicrosecond()
}

// verify checks what must hold in every run and names each key that breaks it.
func (w *World) verify() error {
	var errs []error
	if w.asked != w.settled {
		errs = append(errs, fmt.Errorf("%d requests are undecided", w.asked-w.settled))
	}
	for _, k := range w.keys {
		m := k.meter
		if m == nil {
			continue
		}
		if m.charged != m.admitted+m.given+m.lost+m.out {
			errs = append(errs, fmt.Errorf("%v %s: charged %d, but admitted %d, given back %d, lost %d, out %d", k.Subject, k.Rule.ID, m.charged, m.admitted, m.given, m.lost, m.out))
		}
		microsecond := 1e-6 + m.limit.Rate.PerMicrosecond() // the store's clock counts whole ones
		if m.excess > microsecond {
			errs = append(errs, fmt.Errorf("%v %s: charged %.6f above burst + rate · t", k.Subject, k.Rule.ID, m.excess))
		}
		if over := m.overshootAny(); over > float64(m.outTop)+microsecond {
			errs = append(errs, fmt.Errorf("%v %s: admitted %.3f above burst + rate · t with at most %d on lease", k.Subject, k.Rule.ID, over, m.outTop))
		}
	}
	return errors.Join(errs...)
}
