// Package counters opens the store that a service's flags name: in this process, or
// a Redis Cluster that the pods of a region share and count each other in, or checkers
// that have such a store.
package counters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/members"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/store/storemeter"
)

// Patience is how long a pod that starts is not ready because its store has not
// answered: closed rules would answer 503. A store that is away for longer is an
// outage, in which the fail modes serve, and is no reason to keep all pods out of
// service.
const Patience = time.Second

// waitMax is how long a decision waits for the counters at most, whatever it asks, while
// the store's timeout is a small part of it, as by default.
const waitMax = 20 * time.Millisecond

// budget is a decision's time before its last wait, which takes as long as the timeout.
// One that is given more time than waitMax allows waits for one and a half timeouts.
func budget(timeout time.Duration) time.Duration { return max(waitMax-timeout, timeout/2) }

// Counters is the store and what the limiter must know of it.
type Counters struct {
	Store  store.Store
	Pods   func() int
	Local  bool           // in this process: a call costs next to nothing
	Budget time.Duration  // of a decision: see limiter.Config
	Roster members.Roster // of the pods that share the counters

	begun chan struct{} // closed when the store has answered, or has had its time to
}

// Ready is why the process should get no requests yet: the store is awaited.
func (c *Counters) Ready() error {
	select {
	case <-c.begun:
		return nil
	default:
		return errors.New("the counter store has not answered yet")
	}
}

// await waits for the store's first answer, for Patience at most.
func (c *Counters) await(ctx context.Context, reached <-chan struct{}) {
	defer close(c.begun)
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-reached:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// network is a store that a network lies before.
type network struct {
	store.Store
	roster  members.Roster
	reached <-chan struct{} // closed at its first answer
	close   func()
}

// Open makes the store. A server that cannot be reached is an outage, not a
// failure; what cannot be read is a usage error.
func Open(process *serve.Process, cfg Config, provider metric.MeterProvider, log *slog.Logger) (*Counters, error) {
	open, server, timeout := openRedis, "shard", cfg.Redis.Timeout
	switch {
	case len(cfg.Checkers.URLs) > 0:
		open, server, timeout = openCheckers, "checker", cfg.Checkers.Timeout
	case cfg.Redis.URL == "":
		return openMemory()
	}
	var pods *members.Members
	meter, err := storemeter.New(provider, server, func() int { return pods.Count() })
	if err != nil {
		return nil, err
	}
	s, err := open(process, cfg, meter, log)
	if err != nil {
		return nil, err
	}
	process.OnClose("store", func(context.Context) error { s.close(); return nil })
	cfg.Members.Roster, cfg.Members.Logger = s.roster, log
	if pods, err = members.New(cfg.Members); err != nil {
		return nil, serve.Usage(err)
	}
	process.Go("members", func(ctx context.Context) error { pods.Run(ctx); return nil })
	c := &Counters{Store: s.Store, Pods: pods.Count, Budget: budget(timeout), Roster: s.roster, begun: make(chan struct{})}
	process.Go("first answer of the store", func(ctx context.Context) error { c.await(ctx, s.reached); return nil })
	return c, nil
}

// openMemory makes the store in this process.
func openMemory() (*Counters, error) {
	s, err := memory.New(memory.Config{})
	roster := members.NewLocal()
	c := &Counters{Store: s, Pods: roster.Count, Local: true, Roster: roster, begun: make(chan struct{})}
	close(c.begun)
	return c, err
}

// openRedis opens a Redis as a store.
func openRedis(_ *serve.Process, cfg Config, meter *storemeter.Meter, log *slog.Logger) (*network, error) {
	if err := cfg.Secrets(); err != nil {
		return nil, serve.Usage(err)
	}
	cfg.Redis.Observer, cfg.Redis.Logger = meter, log
	s, err := rediscluster.New(cfg.Redis)
	if err != nil {
		return nil, serve.Usage(fmt.Errorf("--store: %w", err))
	}
	roster, err := rediscluster.NewRoster(s, cfg.Region)
	if err != nil {
		s.Close()
		return nil, serve.Usage(err)
	}
	return &network{s, roster, s.Reached(), s.Close}, nil
}
