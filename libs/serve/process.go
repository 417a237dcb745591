package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// closeTimeout is what a closer or a background task gets to end, whatever the
// drain of the servers took.
const closeTimeout = 5 * time.Second

// Config is how a process drains.
type Config struct {
	Logger       *slog.Logger
	DrainDelay   time.Duration // from "not ready" to the first refused connection
	DrainTimeout time.Duration // for requests in flight to end, per server
}

// Process is a process being put together, and then running. Push parts from one
// goroutine; Ready may be called from any.
type Process struct {
	cfg    Config
	state  atomic.Int32
	parts  []part
	failed chan error // the first failure of a part, once running
	ended  sync.Once
}

// part is one element of the stack.
type part struct {
	name string
	run  func() error                // nil for a closer; returns when end was called, or on failure
	end  func(context.Context) error // makes run return
	time time.Duration               // what end may take
}

const (
	starting int32 = iota
	running
	draining
)

// New makes an empty process. Close it, even if it never ran.
func New(cfg Config) *Process {
	return &Process{cfg: cfg, failed: make(chan error, 1)}
}

// Ready returns why the process should get no new requests, nil if it should.
func (p *Process) Ready() error {
	switch p.state.Load() {
	case running:
		return nil
	case draining:
		return errors.New("draining")
	default:
		return errors.New("starting")
	}
}

// OnClose pushes what must be done when everything pushed later has ended.
func (p *Process) OnClose(name string, end func(context.Context) error) {
	p.parts = append(p.parts, part{name: name, end: end, time: closeTimeout})
}

// Go pushes a background task: it runs while the process does, until its context
// ends. If it returns an error before, the process ends with that.
func (p *Process) Go(name string, task func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var started atomic.Bool
	p.parts = append(p.parts, part{
		name: name,
		time: closeTimeout,
		run: func() error {
			started.Store(true)
			defer close(done)
			if err := task(ctx); err != nil && ctx.Err() == nil {
				return err
			}
			return nil
		},
		end: func(limit context.Context) error {
			cancel()
			if !started.Load() {
				return nil
			}
			select {
			case <-done:
				return nil
			case <-limit.Done():
				return limit.Err()
			}
		},
	})
}

// Serve binds address now and pushes a server that answers there with h once the
// process runs. flag names the option that the address came from. It returns the
// address bound (port 0 asks for a free one); its error is a usage error.
func (p *Process) Serve(flag, address string, h http.Handler) (net.Addr, error) {
	return p.ServeEndpoint(Endpoint{Flag: flag, Address: address, Handler: h})
}

// ServeEndpoint is Serve with more to say.
func (p *Process) ServeEndpoint(e Endpoint) (net.Addr, error) {
	listener, err := listen(e.Flag, e.Address)
	if err != nil {
		return nil, err
	}
	s := newServer(e, func() bool { return p.state.Load() == draining }, p.cfg.Logger)
	p.parts = append(p.parts, part{
		name: "server of " + e.Flag,
		time: p.cfg.DrainTimeout,
		run:  func() error { return s.serve(listener) },
		end:  func(ctx context.Context) error { return s.drain(ctx, listener) },
	})
	return listener.Addr(), nil
}

// Server answers at a listener in a way of its own, as one of gRPC does.
type Server interface {
	// Serve answers until Drain, and returns nil then.
	Serve(l net.Listener) error
	// Drain accepts no more and waits for calls in flight; when ctx ends it cuts
	// them. It returns when none runs any more, or with an error if it had to cut.
	Drain(ctx context.Context) error
}

// ServeWith is Serve with a server of its own kind.
func (p *Process) ServeWith(flag, address string, s Server) (net.Addr, error) {
	listener, err := listen(flag, address)
	if err != nil {
		return nil, err
	}
	p.parts = append(p.parts, part{
		name: "server of " + flag,
		time: p.cfg.DrainTimeout,
		run:  func() error { return s.Serve(listener) },
		end: func(ctx context.Context) error {
			err := s.Drain(ctx)
			_ = listener.Close() // of a server that never served
			return err
		},
	})
	return listener.Addr(), nil
}

// Run serves until ctx ends, then drains and closes. announce is called once
// everything is being served. Run returns nil after a drain that was asked for,
// however many connections had to be cut, or what failed.
func (p *Process) Run(ctx context.Context, announce func()) error {
	for _, part := range p.parts {
		if part.run == nil {
			continue
		}
		go func() {
			if err := part.run(); err != nil {
				select {
				case p.failed <- fmt.Errorf("%s: %w", part.name, err):
				default: // the first failure ends the process; later ones follow from it
				}
			}
		}()
	}
	p.state.Store(running)
	announce()
	var failure error
	select {
	case <-ctx.Done():
		p.state.Store(draining)
		p.cfg.Logger.Info("draining", "delay", p.cfg.DrainDelay, "timeout", p.cfg.DrainTimeout)
		failure = p.waitDelay()
	case failure = <-p.failed:
		p.state.Store(draining)
	}
	p.Close()
	return failure
}

// waitDelay serves on until DrainDelay is over.
func (p *Process) waitDelay() error {
	delay := time.NewTimer(p.cfg.DrainDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
		return nil
	case err := <-p.failed:
		return err
	}
}

// Close ends all parts in reverse order. Run does it; call it as well (deferred)
// for a process that failed before it ran. A second call does nothing.
func (p *Process) Close() {
	p.ended.Do(func() {
		for i := len(p.parts) - 1; i >= 0; i-- {
			part := p.parts[i]
			ctx, cancel := context.WithTimeout(context.Background(), part.time)
			if err := part.end(ctx); err != nil {
				p.cfg.Logger.Warn("closing", "part", part.name, "error", err)
			}
			cancel()
		}
	})
}
