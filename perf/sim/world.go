package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// Config is a world's: the zero Config, with Pods, is one region and the issue's
// 0.4 ms to the store, without jitter.
type Config struct {
	Pods     int           // of each region
	Shares   []limit.Share // of the limits, one a region; none: one region holds all
	RTT      time.Duration // of a call to the store; zero: 0.4 ms
	Jitter   float64       // each way takes RTT/2 · (1 ± Jitter)
	Timeout  time.Duration // of a call to the store; zero: 5 ms
	Lag      time.Duration // a pod learns of a new limit within it
	Drift    float64       // pods' clocks run at 1 ± Drift, and begin at times of their own
	Accounts int           // records that a pod keeps at most; zero: 65,536
	Seed     uint64
	Start    time.Duration // steady figures begin here
	Slot     time.Duration // of the time series; zero: none is kept
}

// World is one run: regions with a store and pods each, clients, and what is
// measured.
type World struct {
	clock
	cfg     Config
	rng     *rand.Rand
	regions []*region
	pods    []*pod
	keys    []*Key
	byTag   map[tagged]*Key
	oracle  oracle
	classes map[string]*Class
	owners  map[limit.Subject]*Class // whose calls are counted apart
	started bool
	sampled *Key // whose tokens out the series show
	series  series
	broken  error // what a scenario or the core did that cannot be

	asks, gives    int64 // calls since Start, and those of hand-backs alone
	asked, settled int64
	by             map[limit.DecidedBy]int64
	told           map[string]Told // by the rule's ID
	waits          waits
	unknown        int64 // calls that failed
	unpaid         int64 // admissions of closed rules that nothing paid for
	excused        bool  // a store's clock was set, or it has forgotten everything
	edited         bool  // a limit was
	revision       int64 // of the newest edit
	trips          int   // to the store that a request may wait for, a subject
}

// tagged finds a key from an ask's entry.
type tagged struct {
	subject limit.Subject
	tag     uint32
}

// Class sums the requests of one kind, in tokens of their first part.
type Class struct {
	Offered, Admitted, Entitled int64
	Requests, Calls             int64 // since Start; calls for the subjects that the class owns
}

// NewWorld makes a world with its regions and pods.
func NewWorld(cfg Config) (*World, error) {
	if cfg.RTT == 0 {
		cfg.RTT = 400 * time.Microsecond
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Millisecond
	}
	if cfg.Accounts == 0 {
		cfg.Accounts = 1 << 16
	}
	if len(cfg.Shares) == 0 {
		cfg.Shares = []limit.Share{limit.WholeShare}
	}
	w := &World{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), oracle: oracle{}, byTag: map[tagged]*Key{},
		classes: map[string]*Class{}, owners: map[limit.Subject]*Class{}, by: map[limit.DecidedBy]int64{}, told: map[string]Told{}, trips: 2,
	}
	for id, share := range cfg.Shares {
		r, err := newRegion(w, id, share)
		if err != nil {
			return nil, err
		}
		w.regions = append(w.regions, r)
		w.AddPods(id, cfg.Pods)
	}
	w.at(cfg.Start, func() { w.started = true })
	if cfg.Slot > 0 {
		w.at(cfg.Slot, w.sample)
	}
	return w, w.broken
}

// fail notes what cannot be: the run is worth nothing.
func (w *World) fail(err error) { w.broken = errors.Join(w.broken, err) }

func (w *World) class(name string) *Class {
	c := w.classes[name]
	if c == nil {
		c = &Class{}
		w.classes[name] = c
	}
	return c
}

// slowest is the longest that a call can be on its way, both ways together.
func (w *World) slowest() time.Duration {
	return time.Duration(float64(w.cfg.RTT) * (1 + w.cfg.Jitter))
}

func (w *World) oneWay() time.Duration {
	return time.Duration(float64(w.cfg.RTT) / 2 * (1 + w.cfg.Jitter*(2*w.rng.Float64()-1)))
}

// healthy reports whether every call was answered, by a store that remembers and
// whose clock was not set.
func (w *World) healthy() bool { return w.unknown == 0 && !w.excused }

// finish lets all that is on its way land and hands everything back that the
// pods hold.
func (w *World) finish() {
	for range 2 {
		w.run(w.now + 4*(w.slowest()+w.cfg.Timeout))
		for _, p := range w.pods {
			if p.down == "" {
				p.core.Drain(p.now())
				p.errands()
			}
		}
	}
	w.run(w.now + 4*(w.slowest()+w.cfg.Timeout))
}

// verify checks what must hold in every run and names each key that breaks it.
func (w *World) verify() error {
	errs := []error{w.broken}
	if w.asked != w.settled {
		errs = append(errs, fmt.Errorf("%d requests are undecided", w.asked-w.settled))
	}
	if w.unpaid > 0 {
		errs = append(errs, fmt.Errorf("%d requests passed a closed rule that nothing paid for", w.unpaid))
	}
	// A nanosecond for each way's rounding.
	if most := time.Duration(w.trips) * (w.slowest() + 2); w.unknown == 0 && w.waits.longest > most {
		errs = append(errs, fmt.Errorf("a request waited %v a subject, more than %d round trips of %v", w.waits.longest, w.trips, w.slowest()))
	}
	for _, k := range w.keys {
		for _, m := range k.meters {
			errs = append(errs, m.verify(w.healthy()))
		}
		errs = append(errs, k.whole.verify(w.healthy()))
	}
	return errors.Join(append(errs, w.recount())...)
}
