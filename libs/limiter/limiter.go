package limiter

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/table"
)

// Config is what a Limiter is made of.
type Config struct {
	Store    store.Store      // required
	Bounds   table.Bounds     // of the local records; zero: table.DefaultBounds
	Observer Observer         // nil: nobody
	Logger   *slog.Logger     // nil: slog.Default
	Now      func() time.Time // nil: time.Now; its monotonic reading is used
}

// An Observer is told what no Decision shows. Its methods are called on the
// path of requests: they must not block. Safe for concurrent use.
type Observer interface {
	// Shadow tells what a shadow rule said of an admitted request: whether, if
	// it were enforced, the request would have been refused.
	Shadow(rule *limit.Rule, short bool)
	// Dropped tells that an errand (a hand-back, or the charges of shadow
	// rules) was given up: the queue was full, or the store did not answer.
	Dropped()
}

// Limiter decides requests. Safe for concurrent use.
type Limiter struct {
	core     *core
	store    store.Store
	observer Observer
	log      *slog.Logger
	now      func() time.Duration

	calls   sync.Pool // of *call
	errands chan errand
	ctx     context.Context // of asks: a caller that leaves fails nobody
	cancel  context.CancelFunc
	worker  sync.WaitGroup
	closing sync.RWMutex // held for writing while errands is closed
	closed  bool
	logged  atomic.Int64 // the second in which a malformed ask was last logged
}

const (
	// errandsMax bounds what waits to be handed back or counted in shadow: at
	// 20,000 errands a second a quarter of a second's worth. Beyond it they are
	// dropped and counted.
	errandsMax = 4096
	// tableShards is enough that two requests in flight rarely meet at a lock.
	tableShards = 64
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
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	start := cfg.Now()
	l := &Limiter{
		store:    cfg.Store,
		observer: cfg.Observer,
		log:      cfg.Logger,
		now:      func() time.Duration { return cfg.Now().Sub(start) },
		calls:    sync.Pool{New: func() any { return new(call) }},
		errands:  make(chan errand, errandsMax),
	}
	var err error
	if l.core, err = newCore(cfg.Bounds, tableShards, rand.Uint64()); err != nil {
		return nil, err
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.worker.Go(l.run)
	return l, nil
}

// Check decides a request and overwrites decision with the answer. It never
// fails: what the store does not answer is decided by each rule's fail mode.
//
// It returns at once where the process can decide, and after one round trip to
// the store a subject otherwise, bounded by the store's own timeout. A ctx that
// ends does not end it: a charge on its way is a charge.
func (l *Limiter) Check(_ context.Context, request *limit.Request, decision *limit.Decision) {
	call := l.calls.Get().(*call)
	for step := l.core.decide(l.now(), request, decision, call); step == stepAsk; {
		err := l.store.Take(l.ctx, &call.ask, &call.result)
		if errors.Is(err, store.ErrInvalid) {
			l.complain(err)
		}
		step = l.core.apply(call, err)
	}
	l.tell(decision)
	for _, e := range call.later {
		l.send(e)
	}
	call.request, call.decision = nil, nil
	l.calls.Put(call)
}

// tell reports what shadow rules said of an admitted request.
func (l *Limiter) tell(decision *limit.Decision) {
	if decision.Verdict != limit.Allowed {
		return
	}
	for i := range decision.Outcomes {
		if o := &decision.Outcomes[i]; o.Rule.Mode == limit.Shadow && o.Known {
			l.observer.Shadow(o.Rule, o.Short)
		}
	}
}

// send queues an errand, or drops it where the queue is full or closed.
func (l *Limiter) send(e errand) {
	l.closing.RLock()
	defer l.closing.RUnlock()
	if !l.closed {
		select {
		case l.errands <- e:
			return
		default:
		}
	}
	l.observer.Dropped()
}

// run carries errands to the store until the queue is closed and empty.
func (l *Limiter) run() {
	var result store.Result
	for e := range l.errands {
		e.sent = l.now()
		if err := l.store.Take(l.ctx, e.ask, &result); err != nil {
			l.observer.Dropped()
			continue
		}
		l.core.settle(&e, &result)
		for i := range e.charges {
			if r := e.charges[i].Rule; r.Mode == limit.Shadow && e.ask.Entries[i].Give == 0 {
				l.observer.Shadow(r, result.Outcomes[i].Short)
			}
		}
	}
}

// complain logs a malformed ask, which is a bug of this process, at most once a
// second: it may come with every request.
func (l *Limiter) complain(err error) {
	second := int64(l.now() / time.Second)
	if last := l.logged.Swap(second + 1); last != second+1 {
		l.log.Error("the store refused a malformed ask", "error", err)
	}
}

// Close runs the errands that are queued and ends the limiter's goroutine;
// requests that are still checked drop theirs. When ctx ends first, the rest
// of the errands fail and ctx's error is returned.
func (l *Limiter) Close(ctx context.Context) error {
	l.closing.Lock()
	if !l.closed {
		l.closed = true
		close(l.errands)
	}
	l.closing.Unlock()
	idle := make(chan struct{})
	go func() { l.worker.Wait(); close(idle) }()
	defer l.cancel()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		l.cancel()
		<-idle
		return ctx.Err()
	}
}

type nobody struct{}

func (nobody) Shadow(*limit.Rule, bool) {}
func (nobody) Dropped()                 {}
