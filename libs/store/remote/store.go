package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/lanes"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// Store is a store.Store behind checkers. Safe for concurrent use.
type Store struct {
	cfg       Config
	endpoints []*endpoint
	turn      atomic.Uint64 // whose turn it is
	start     time.Time
	logged    atomic.Int64 // the second in which a refusal was last logged
	cancel    context.CancelFunc
	done      sync.WaitGroup
	spare     sync.Pool     // of *call that were answered
	reached   chan struct{} // closed: see Reached
	first     sync.Once     // closes it
}

// New makes a store and connects in the background. An error names what is wrong with
// cfg; a checker that cannot be reached is none.
func New(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Timeout, cfg.InFlight = cmp.Or(cfg.Timeout, DefaultTimeout), cmp.Or(cfg.InFlight, DefaultInFlight)
	if cfg.Token == nil {
		cfg.Token = func() string { return "" }
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	run, cancel := context.WithCancel(context.Background())
	s := &Store{cfg: cfg, start: time.Now(), cancel: cancel, reached: make(chan struct{})}
	for _, url := range cfg.URLs {
		e := newEndpoint(run, &s.cfg, url, s.since, s.breakerChanged)
		s.endpoints = append(s.endpoints, e)
		s.done.Go(func() { e.watch(s.firstLook, s.wasReached) })
	}
	return s, nil
}

func (s *Store) since() time.Duration { return time.Since(s.start) }

// Reached is closed when a checker has answered for the first time: it serves, and has
// a connection. It stays open while none does.
func (s *Store) Reached() <-chan struct{} { return s.reached }

func (s *Store) wasReached() { s.first.Do(func() { close(s.reached) }) }

// firstLook says how a checker was found at the start.
func (s *Store) firstLook(checker string, err error) {
	if err != nil {
		s.cfg.Logger.Warn("a checker does not serve: it is asked when requests come", "checker", checker, "error", err)
		return
	}
	s.cfg.Logger.Info("connected to a checker", "checker", checker)
}

// Close ends the connections. Asks in flight fail.
func (s *Store) Close() {
	s.cancel()
	s.done.Wait()
	for _, e := range s.endpoints {
		e.transport.CloseIdleConnections()
	}
}

// Take implements store.Store. ctx can only shorten the store's timeout, which holds
// for all that is tried.
func (s *Store) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	wire, err := encode(ask)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(s.cfg.Timeout)
	last, at := answer{err: errOpen}, "all"
	for e := range s.inTurn {
		if !time.Now().Before(deadline) || ctx.Err() != nil {
			break
		}
		at, last = e.name, s.ask(ctx, e, wire, deadline)
		if !classify(last.err).unsent() {
			break
		}
	}
	class := cmp.Or(classOfError(last), classOf(last.result))
	if class == classNone {
		if err := decode(last.result, ask, result); err != nil {
			s.complain(at, err)
			return classBug.wrap(at, err)
		}
		return nil
	}
	switch class {
	case classBug, classAuth, classNoChecker, classInvalid:
		s.complain(at, last.err)
	case classOpen:
		if at == "all" {
			s.cfg.Observer.Call(at, string(class), 0)
		}
	}
	return class.wrap(at, last.err)
}

// classOfError is the class of a call that failed, "" for one that was answered.
func classOfError(a answer) class {
	if a.err == nil {
		return ""
	}
	return classify(a.err)
}

// inTurn yields the checkers that take asks, beginning with another one each time:
// first those that do not drain.
func (s *Store) inTurn(yield func(*endpoint) bool) {
	n := uint64(len(s.endpoints))
	begin, now := s.turn.Add(1), s.since() // of one time: a checker that goes on serving meanwhile is not passed over
	for _, draining := range [...]bool{false, true} {
		for i := range n {
			if e := s.endpoints[(begin+i)%n]; e.takes(now, draining) && !yield(e) {
				return
			}
		}
	}
}

// ask sends an ask to one checker.
func (s *Store) ask(ctx context.Context, e *endpoint, wire *checkv1.Ask, deadline time.Time) answer {
	if e.inFlight.Add(1) > s.cfg.InFlight {
		e.inFlight.Add(-1)
		s.cfg.Observer.Call(e.name, string(classOverload), 0)
		return answer{err: errBusy}
	}
	c, spare := s.spare.Get().(*call)
	if !spare {
		c = newCall()
	}
	c.ask, c.deadline = wire, deadline
	sent := s.since()
	a, again := c.do(ctx, e)
	if again {
		*c = call{Waiter: c.Waiter}
		s.spare.Put(c)
	}
	now, class := s.since(), classify(a.err)
	e.breaker.Done(now, sent, deadline.Sub(s.start), class.outcome(), false)
	if class == classRefused {
		e.hurry(now)
	}
	if a.err == nil {
		class = classOf(a.result)
	}
	s.cfg.Observer.Call(e.name, string(class), now-sent)
	return a
}

// complain logs what no checker should say, at most once a second.
func (s *Store) complain(checker string, err error) {
	second := int64(s.since()/time.Second) + 1
	if s.logged.Swap(second) != second {
		s.cfg.Logger.Error("a checker refuses this pod's asks, or answers what was not asked", "checker", checker, "error", err)
	}
}

func (s *Store) breakerChanged(checker string, from, to breaker.State) {
	s.cfg.Observer.Breaker(checker, from, to)
	if from == breaker.Closed || to == breaker.Closed { // and not of each probe
		s.cfg.Logger.Warn("a checker's breaker changed", "checker", checker, "from", from.String(), "to", to.String())
	}
}

// call is an ask on its way to a checker.
type call struct {
	lanes.Seat
	lanes.Waiter[answer]

	ask      *checkv1.Ask
	deadline time.Time // it is not sent after this
}

// answer is how an ask ended: a result, or an error.
type answer struct {
	result *checkv1.AskResult
	err    error
}

func newCall() *call { return &call{Waiter: lanes.NewWaiter[answer]()} }

// do sends the ask and returns its answer, or at its deadline, or when ctx ends, that
// there was none. Again: the call is nobody's any more, and can be made anew.
func (c *call) do(ctx context.Context, e *endpoint) (a answer, again bool) {
	e.lanes.Submit(c)
	a, again, err := c.Wait(ctx, time.Until(c.deadline))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		a.err = fmt.Errorf("%w: no answer by its deadline", err)
		e.lanes.Overdue(c)
	case err != nil:
		a.err = err
	}
	return a, again
}
