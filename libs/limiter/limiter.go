package limiter

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// Config is what a Limiter is made of.
type Config struct {
	Store  store.Store  // required
	Bounds table.Bounds // of the local records; zero: table.DefaultBounds

	// Pods is the number of live pods that share the store, at least 1; leases
	// and pauses are sized by it. It is called on the path of requests. nil: 1.
	Pods func() int

	// Unpaced says that a call to the store costs next to nothing (it is in this
	// process): a rule that was found short is asked again as soon as what is
	// known allows.
	Unpaced bool

	// Budget is how long a decision may have waited when it begins to wait for one
	// more answer of the store: so it takes less than Budget and the store's timeout
	// together, however many subjects it asks for. What is left is then decided by
	// the fail modes. 0: no bound.
	Budget time.Duration

	Observer Observer             // nil: nobody
	Logger   *slog.Logger         // nil: slog.Default
	Now      func() time.Duration // a monotonic clock; nil: the system's
}

// An Observer is told what no Decision shows. Its methods are called on the
// path of requests: they must not block. Safe for concurrent use.
type Observer interface {
	// Shadow tells what a shadow rule said of admitted requests, in sums that
	// are at most 100 ms old: how many it has seen since it last told, and how
	// many of them it would have refused.
	Shadow(rule *limit.Rule, requests, short int64)
	// Dropped tells how many errands (tokens to hand back, shadow charges) were
	// given up: too many waited, or the store did not answer.
	Dropped(n int64)
	// Waited tells how long a decision took that needed more than one look: it
	// waited for the store, or found that it is not to be asked.
	Waited(d time.Duration)
}

// Limiter decides requests. Safe for concurrent use.
type Limiter struct {
	core     *Core
	store    store.Store
	observer Observer
	log      *slog.Logger
	now      func() time.Duration

	calls  sync.Pool       // of *Call
	ctx    context.Context // of asks: a caller that leaves fails nobody
	cancel context.CancelFunc
	kick   chan struct{} // errands wait
	closed chan struct{} // Close was called
	idle   chan struct{} // the last errand has been run
	close  sync.Once
	logged atomic.Int64 // the second in which a malformed ask was last logged
}

const (
	// tableShards is enough that two requests in flight rarely meet at a lock.
	tableShards = 64
	// errandsAtOnce are carried in parallel: behind a network they are slow.
	errandsAtOnce = 16
)

// New makes a limiter over a store and starts its one goroutine, which runs
// errands. Close ends it. An error names the field of cfg that is wrong.
func New(cfg Config) (*Limiter, error) {
	if cfg.Store == nil {
		return nil, errors.New("limiter: no store")
	}
	if cfg.Bounds == (table.Bounds{}) {
		cfg.Bounds = table.DefaultBounds
	}
	if cfg.Pods == nil {
		cfg.Pods = func() int { return 1 }
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Now == nil {
		start := time.Now()
		cfg.Now = func() time.Duration { return time.Since(start) }
	}
	core, err := NewCore(CoreConfig{
		Bounds: cfg.Bounds, Shards: tableShards, Seed: rand.Uint64(),
		Pods: cfg.Pods, Paced: !cfg.Unpaced, Budget: cfg.Budget, Tell: cfg.Observer.Shadow,
	})
	if err != nil {
		return nil, err
	}
	l := &Limiter{
		core:     core,
		store:    cfg.Store,
		observer: cfg.Observer,
		log:      cfg.Logger,
		now:      cfg.Now,
		calls:    sync.Pool{New: func() any { return &Call{ready: make(chan Step, 1)} }},
		kick:     make(chan struct{}, 1),
		closed:   make(chan struct{}),
		idle:     make(chan struct{}),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.run()
	return l, nil
}

// Check decides a request and overwrites decision with the answer. It never
// fails: what the store does not answer is decided by each rule's fail mode.
//
// It returns at once where the process can decide. Otherwise it waits for the
// store: for the ask that is in flight for the subject, if there is one, and for
// its own, each bounded by the store's timeout; where rules that turn out empty
// hold up requests ahead of it, for one more each; and for no other once it has
// waited for Config.Budget. ctx is for values only: its end does not end a charge
// that is on its way.
func (l *Limiter) Check(_ context.Context, request *limit.Request, decision *limit.Decision) {
	if !l.core.DecideLocally(l.now(), request, decision) {
		l.check(request, decision)
	}
	if l.core.out.waiting.Load() > 0 {
		select {
		case l.kick <- struct{}{}:
		default:
		}
	}
}

// check is Check for what needs more than one look.
func (l *Limiter) check(request *limit.Request, decision *limit.Decision) {
	call, begin := l.calls.Get().(*Call), l.now()
	step := l.core.Decide(begin, request, decision, call)
	for step != StepDone {
		if step == StepWait {
			step = l.core.Resume(l.now(), call, <-call.ready)
			continue
		}
		err := l.take(context.Background(), call.Ask(), call.Result())
		step = l.core.Apply(l.now(), call, err)
		for _, w := range call.wakes {
			w.Call.ready <- w.With
		}
	}
	call.request, call.decision = nil, nil
	l.calls.Put(call)
	l.observer.Waited(l.now() - begin + request.Waited)
}

func (l *Limiter) take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	err := l.store.Take(ctx, ask, result)
	if errors.Is(err, store.ErrInvalid) {
		l.complain(err)
	}
	return err
}

// Stats returns what the limiter has done. It is cheap enough for each scrape.
func (l *Limiter) Stats() Stats { return l.core.Stats() }

// run hands back and tells what no request carries, until Close.
func (l *Limiter) run() {
	defer close(l.idle)
	tick := time.NewTicker(SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.kick:
		case <-tick.C:
			l.core.Sweep(l.now())
		case <-l.closed:
			for {
				all := l.core.Drain(l.now())
				if l.errands() == 0 || all {
					return
				}
			}
		}
		l.errands()
	}
}

// errands carries what is in the outbox to the store and returns how many that were.
func (l *Limiter) errands() int {
	errands := l.core.Errands()
	if len(errands) == 1 {
		l.errand(&errands[0])
	} else {
		var group errgroup.Group
		group.SetLimit(errandsAtOnce)
		for i := range errands {
			group.Go(func() error { l.errand(&errands[i]); return nil })
		}
		_ = group.Wait() // nothing in it fails
	}
	if dropped := l.core.out.dropped.Swap(0); dropped > 0 {
		l.observer.Dropped(dropped)
	}
	return len(errands)
}

func (l *Limiter) errand(e *Errand) {
	var result store.Result
	e.Sent = l.now()
	if err := l.take(l.ctx, &e.Ask, &result); err != nil {
		l.core.out.dropped.Add(1)
		if l.ctx.Err() == nil {
			l.core.Unsettled(e)
		}
		return
	}
	l.core.Settle(l.now(), e, &result)
}

// complain logs a malformed ask, which is a bug of this process, at most once a
// second: it may come with every request.
func (l *Limiter) complain(err error) {
	second := int64(l.now()/time.Second) + 1
	if l.logged.Swap(second) != second {
		l.log.Error("the store refused a malformed ask", "error", err)
	}
}

// Close hands everything back that this pod holds and ends the limiter's
// goroutine. It is called when no request is checked any more: what is leased
// afterwards is lost until it refills. When ctx ends first, the remaining
// errands fail and ctx's error is returned.
func (l *Limiter) Close(ctx context.Context) error {
	l.close.Do(func() { close(l.closed) })
	defer l.cancel()
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
		l.cancel()
		<-l.idle
		return ctx.Err()
	}
}

type nobody struct{}

func (nobody) Shadow(*limit.Rule, int64, int64) {}
func (nobody) Dropped(int64)                    {}
func (nobody) Waited(time.Duration)             {}
